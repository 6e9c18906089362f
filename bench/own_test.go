package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// own gives a folder and all in it to the owner of another: loopd has a uid of
// its own when everything was started by root.
func own(t *testing.T, dir, like string) {
	st, ok := must[os.FileInfo](t)(os.Stat(like)).Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no owner is known here")
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(st.Uid), int(st.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
}
