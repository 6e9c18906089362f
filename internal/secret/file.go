package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"boxmaker/internal/config"
	"boxmaker/internal/filestamp"

	"golang.org/x/sys/unix"
)

// problem is an error that the owner meets.
func problem(key, what, do string, err error) error {
	if err != nil {
		what += ": " + err.Error()
	}
	return &config.Error{What: what, Do: do, Runbook: key, Err: err}
}

func statFile(path string) (filestamp.Stamp, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return filestamp.Stamp{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return filestamp.Of(&st), nil
}

// trust is whom a file may belong to and who may read it.
type trust struct {
	what  string // "the key", for messages
	owner int    // the uid whose file it is; root's is taken too
	mode  fs.FileMode
}

// read reads a whole file that only its owner can read or could have put there.
func (t trust) read(path string, most int64) ([]byte, filestamp.Stamp, error) {
	// O_NOFOLLOW: a link could lead to a file that another one controls.
	// O_NONBLOCK: a pipe with that name must not hold brokerd up.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, filestamp.Stamp{}, problem("secret-permissions", t.what+" "+path+" is a symbolic link", "put the file itself there", nil)
	case errors.Is(err, fs.ErrPermission):
		return nil, filestamp.Stamp{}, problem("secret-permissions", t.what+" can't be opened by uid "+fmt.Sprint(os.Geteuid()), fmt.Sprintf("give it to the user that it is for: chown %d %s", t.owner, path), err)
	case err != nil:
		return nil, filestamp.Stamp{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, filestamp.Stamp{}, err
	}
	if err := errors.Join(t.check(path, &st), t.folder(filepath.Dir(path))); err != nil {
		return nil, filestamp.Stamp{}, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, filestamp.Stamp{}, err
	}
	if int64(len(b)) > most {
		return nil, filestamp.Stamp{}, problem("secret-store", fmt.Sprintf("%s %s is larger than %d bytes", t.what, path, most), "put back the file that Boxmaker wrote", nil)
	}
	return b, filestamp.Of(&st), nil
}

func (t trust) check(path string, st *unix.Stat_t) error {
	switch mode := fs.FileMode(st.Mode & 0o7777); {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return problem("secret-permissions", t.what+" "+path+" is not a plain file", "put the file itself there", nil)
	case int(st.Uid) != t.owner && st.Uid != 0:
		return problem("secret-permissions", fmt.Sprintf("%s %s belongs to uid %d, and not to uid %d", t.what, path, st.Uid, t.owner), fmt.Sprintf("if it is yours, chown %d %s; else it may be planted: have the secrets replaced", t.owner, path), nil)
	case mode&^t.mode != 0:
		return problem("secret-permissions", fmt.Sprintf("%s %s has mode %04o: others can read or write it", t.what, path, mode), "chmod 600 "+path+"; if others may have read it, bxctl secret rotate and replace the secrets where they were issued", nil)
	}
	return nil
}

// folder refuses a folder in which others could swap the file.
func (t trust) folder(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if int(st.Uid) != t.owner && st.Uid != 0 && int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return problem("secret-permissions", fmt.Sprintf("the folder %s of %s has mode %04o and belongs to uid %d: others could swap the file", dir, t.what, st.Mode&0o7777, st.Uid), "chmod go-w "+dir, nil)
	}
	return nil
}
