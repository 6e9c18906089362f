package tree

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Target is a file that is to be written, in its opened folder. Nothing on
// the way to it is a link.
type Target struct {
	Path string
	Old  fs.FileInfo // nil: there is no such file yet

	dir   *os.Root // nil: the folder does not exist yet
	name  string
	place *Place
	// missing are the folders to be made, from the outermost.
	missing []string
	at      *os.Root // folder in which the first of them is missing
}

// Target finds the place of a file that is to be written, without changing
// anything.
func (s Set) Target(p string) (*Target, error) {
	place, err := s.find(p, s.Write, "write")
	if err != nil {
		return nil, err
	}
	t := &Target{Path: p, place: place, name: path.Base(place.Name)}
	if place.Name == "." {
		t.Close()
		return nil, refuse("%s is a folder, not a file", p)
	}
	if err := t.walk(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close closes the folders.
func (t *Target) Close() {
	if t.dir != nil {
		_ = t.dir.Close()
	}
	if t.at != nil {
		_ = t.at.Close()
	}
	t.place.Close()
}

// walk goes down to the file's folder, one name at a time.
func (t *Target) walk() error {
	dir, err := t.place.Root.OpenRoot(".")
	if err != nil {
		return Explain(t.Path, err)
	}
	var parts []string
	if d := path.Dir(t.place.Name); d != "." {
		parts = strings.Split(d, "/")
	}
	for i, name := range parts {
		next, err := step(dir, name, t.Path)
		if errors.Is(err, fs.ErrNotExist) {
			t.at, t.missing = dir, parts[i:]
			return nil
		}
		_ = dir.Close()
		if err != nil {
			return err
		}
		dir = next
	}
	t.dir = dir
	return t.look()
}

// step opens a folder in a folder if it is one, and no link.
func step(dir *os.Root, name, shown string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fs.ErrNotExist
	}
	switch {
	case err != nil:
		return nil, Explain(shown, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, refuse("%s leads through the link %q; files are never written through a link", shown, name)
	case !info.IsDir():
		return nil, refuse("%s leads through %q, which is not a folder", shown, name)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, Explain(shown, err)
	}
	opened, err := next.Stat(".")
	if err != nil || !os.SameFile(info, opened) {
		_ = next.Close()
		return nil, refuse("a folder of %s was changed while it was opened; try again", shown)
	}
	return next, nil
}

// look finds out what stands at the name.
func (t *Target) look() error {
	info, err := t.dir.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Old = nil
	case err != nil:
		return Explain(t.Path, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return refuse("%s is a link; files are never written through a link", t.Path)
	case !info.Mode().IsRegular():
		return regular(t.Path, info)
	default:
		t.Old = info
	}
	return nil
}

// OpenOld opens the file that is there.
func (t *Target) OpenOld() (*os.File, fs.FileInfo, error) {
	if t.Old == nil {
		return nil, nil, refuse("there is no %s", t.Path)
	}
	f, info, err := OpenIn(t.dir, t.name, t.Path)
	if err == nil && !os.SameFile(info, t.Old) {
		_ = f.Close()
		return nil, nil, refuse("%s was changed meanwhile; read it again", t.Path)
	}
	return f, info, err
}

// mkdirs makes the folders that are missing.
func (t *Target) mkdirs() error {
	if t.dir != nil {
		return nil
	}
	dir := t.at
	t.at = nil
	for _, name := range t.missing {
		if err := dir.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			_ = dir.Close()
			return Explain(t.Path, err)
		}
		next, err := step(dir, name, t.Path)
		_ = dir.Close()
		if err != nil {
			return Explain(t.Path, err)
		}
		dir = next
	}
	t.dir = dir
	return t.look()
}

// Create writes a file that must not exist.
func (t *Target) Create(data []byte) error {
	if err := t.mkdirs(); err != nil {
		return err
	}
	if t.Old != nil || t.place.Alone {
		return refuse("%s exists already", t.Path)
	}
	temp, err := t.temp(data, 0o644)
	if err != nil {
		return err
	}
	if err := t.publish(temp); err != nil {
		_ = t.dir.Remove(temp)
		if errors.Is(err, fs.ErrExist) {
			return refuse("%s exists already", t.Path)
		}
		return Explain(t.Path, err)
	}
	return t.syncDir()
}

// publish gives a file its name if that is free: in one step, or by a second
// name where the file system knows only that.
func (t *Target) publish(temp string) error {
	dir, err := t.dir.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Renameat2(int(dir.Fd()), temp, int(dir.Fd()), t.name, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if err := t.dir.Link(temp, t.name); err != nil {
		return err
	}
	return t.dir.Remove(temp)
}

// Replace puts data in the place of the file that [Target.OpenOld] or the look
// before it found, and keeps its permission bits. The file has the old text or
// the new one at any time. It is written in place only where it cannot be
// otherwise: where the grant names this one file, so that its name cannot be
// given to another, and where it belongs to somebody else and must go on so.
func (t *Target) Replace(data []byte) error {
	if t.Old == nil {
		return refuse("there is no %s", t.Path)
	}
	f, err := t.openWrite()
	if err != nil {
		return err
	}
	defer f.Close()
	if st, ok := t.Old.Sys().(*syscall.Stat_t); t.place.Alone || ok && int(st.Uid) != os.Geteuid() {
		return t.inPlace(f, data)
	}
	temp, err := t.temp(data, t.Old.Mode().Perm())
	if err != nil {
		return err
	}
	now, err := t.dir.Lstat(t.name)
	if err != nil || !unchanged(now, t.Old) {
		_ = t.dir.Remove(temp)
		return refuse("%s was changed meanwhile; read it again", t.Path)
	}
	if err := t.dir.Rename(temp, t.name); err != nil {
		_ = t.dir.Remove(temp)
		return Explain(t.Path, err)
	}
	return t.syncDir()
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// temp writes a file of a name of its own, synced.
func (t *Target) temp(data []byte, mode fs.FileMode) (string, error) {
	name := ".boxmaker-" + rand.Text()
	f, err := t.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", Explain(t.Path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = t.dir.Remove(name)
		return "", Explain(t.Path, err)
	}
	return name, nil
}

// openWrite opens the old file without changing it: whether it may be written
// is its mode's to say, also where a new file takes its place.
func (t *Target) openWrite() (*os.File, error) {
	f, err := t.dir.OpenFile(t.name, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, explainIn(t.dir, t.name, t.Path, err)
	}
	info, err := f.Stat()
	if err != nil || !unchanged(info, t.Old) {
		_ = f.Close()
		return nil, refuse("%s was changed meanwhile; read it again", t.Path)
	}
	return f, nil
}

// inPlace reserves the space first, so that a full disk costs nothing.
func (t *Target) inPlace(f *os.File, data []byte) error {
	info := t.Old
	if more := int64(len(data)) - info.Size(); more > 0 {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size(), more)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
			return Explain(t.Path, err)
		}
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return refuse("%s could not be written in full; look at what it holds now", t.Path)
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return refuse("%s could not be cut to its new length; look at what it holds now", t.Path)
	}
	if err := f.Sync(); err != nil {
		return refuse("%s was written, but the disk does not confirm it", t.Path)
	}
	return nil
}

func (t *Target) syncDir() error {
	dir, err := t.dir.Open(".")
	if err != nil {
		return Explain(t.Path, err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return refuse("%s was written, but the disk does not confirm it", t.Path)
	}
	return nil
}
