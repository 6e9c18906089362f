package podman

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxRunroot is the longest runroot that podman takes (libpod/runtime.go: "the
// specified runroot is longer than 50 characters"), in bytes.
const maxRunroot = 50

// runroot gives the folder for what podman keeps of running containers: want,
// or, where that is too long, one of this user's own in the first of the places
// that is there. Its name is of want, so that each home has its own.
func runroot(want string, places ...string) (string, error) {
	if len(want) <= maxRunroot {
		return want, nil
	}
	name := fmt.Sprintf("boxmaker-%x", sha256.Sum256([]byte(want)))[:len("boxmaker-")+12]
	var errs []error
	for _, p := range places {
		if _, err := os.Stat(p); err != nil {
			continue
		}
		dir := filepath.Join(p, name)
		if err := own(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		return dir, nil
	}
	return "", fmt.Errorf("podman takes no runroot as long as %s, and there is no place for a shorter one: %w", want, errors.Join(errs...))
}

// places are where an ordinary user can have a short folder: the one of the
// login (pam_systemd), and the one for all.
func places() []string { return []string{"/run/user/" + strconv.Itoa(os.Getuid()), "/tmp"} }

// own makes a folder that is this user's alone. In a place for all, somebody else
// may have been there first.
func own(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s is not a folder of this user alone; remove it", dir)
	}
	return nil
}
