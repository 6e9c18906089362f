package up

import (
	"fmt"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/reach"

	"golang.org/x/sys/unix"
)

// reachable checks that llama-server can be run, and its model be read, by the
// uid that it will have.
func (in Input) reachable(program, model string) error {
	uid := in.Settings.UID(roleLlama)
	if !in.Root || uid == 0 {
		return nil
	}
	for path, mode := range map[string]uint32{program: unix.R_OK | unix.X_OK, model: unix.R_OK} {
		if err := reach.MayUse(path, uid, mode); err != nil {
			return &fault.Fault{
				Code: fault.Usage, What: path + " is out of reach for llama-server", Err: err,
				Means: fmt.Sprintf("as root, bxctl up runs llama-server under the uid %d", uid),
				Do:    "open it and the folders above to others (chmod o+rX), put it elsewhere, or set llama = 0 under [uids] in bxctl.toml", Key: "llama-out-of-reach",
			}
		}
	}
	return nil
}
