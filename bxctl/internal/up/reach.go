package up

import (
	"fmt"
	"os"
	"path/filepath"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"

	"golang.org/x/sys/unix"
)

// passable checks, as root, that tools can pass through the folders above the
// home, to the workspace. The home itself is up's to open.
func passable(home string, s setup.Settings) error {
	if os.Geteuid() != 0 || !s.Tools.Enabled {
		return nil
	}
	uid := s.UID(roleRunner)
	for dir := filepath.Dir(home); ; dir = filepath.Dir(dir) {
		if err := mayUse(dir, uid, unix.X_OK); err != nil {
			return &fault.Fault{
				What: fmt.Sprintf("tools, which run as uid %d, can't pass through %s", uid, dir), Err: err,
				Means: "as root, no tool runs as root, and the workspace is out of their reach there",
				Do:    "chmod o+x " + dir + " (that lets nobody list it), or use a home in an open place, such as /var/lib/boxmaker", Key: "home-out-of-reach",
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// reachable checks that llama-server can be run, and its model be read, by the
// uid that it will have.
func (in Input) reachable(program, model string) error {
	uid := in.Settings.UID(roleLlama)
	if !in.Root || uid == 0 {
		return nil
	}
	for path, mode := range map[string]uint32{program: unix.R_OK | unix.X_OK, model: unix.R_OK} {
		if err := mayUse(path, uid, mode); err != nil {
			return &fault.Fault{
				Code: fault.Usage, What: path + " is out of reach for llama-server", Err: err,
				Means: fmt.Sprintf("as root, bxctl up runs llama-server under the uid %d", uid),
				Do:    "open it and the folders above to others (chmod o+rX), put it elsewhere, or set llama = 0 under [uids] in bxctl.toml", Key: "llama-out-of-reach",
			}
		}
	}
	return nil
}
