// Package durable writes files and folders so that they survive a power cut.
//
// When a function returns nil, the content and the name that leads to it have
// been handed to the disk (fsync of the file, then of its folder), and a reader
// sees either the whole new file or what was there before, never a part. When
// a function fails, the old file stands, or the new one, whole: the caller cannot
// tell which. Trying again is safe (a Create that failed late then finds its own file).
//
// It does not guard against two writers of one name (the last one wins), it
// does not keep old versions, and it believes a disk that says it has synced.
// Everything is relative to an *os.Root, so no name can lead out of it.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// WriteFile replaces or creates name with data. The mode is exactly perm,
// whatever the umask says.
//
//	openat(dir/.base.XXXXXXXXXX.tmp, O_CREAT|O_EXCL) fchmod write fsync close
//	renameat(tmp, name) fsync(dir)
//
// A crash can leave a file named .<base>.<random>.tmp behind; nothing reads it.
func WriteFile(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	return replace(root, name, data, perm, do)
}

func replace(root *os.Root, name string, data []byte, perm fs.FileMode, step step) error {
	return viaTemp(root, name, data, perm, step, func(tmp string) error {
		return step("rename", func() error { return root.Rename(tmp, name) })
	})
}

// WriteFileAs is [WriteFile] for a file that belongs to the user uid. The name
// never shows a file of another owner: a program that reads as uid can always
// read it. Only root may give files away.
//
//	openat(tmp, O_CREAT|O_EXCL) fchmod write fsync close
//	fchownat(tmp) fsync(tmp) renameat(tmp, name) fsync(dir)
func WriteFileAs(root *os.Root, name string, data []byte, perm fs.FileMode, uid int) error {
	if uid == os.Geteuid() {
		return WriteFile(root, name, data, perm)
	}
	return viaTemp(root, name, data, perm, do, func(tmp string) error {
		if err := give(root, tmp, uid); err != nil {
			return err
		}
		return root.Rename(tmp, name)
	})
}

func give(root *os.Root, name string, uid int) error {
	f, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err = f.Chown(uid, -1); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Create makes a new file name with data, and fails with an error that is
// [fs.ErrExist] if there is one. The file appears under its name only once it
// is whole. The file system must know hard links.
//
//	openat(dir/.base.XXXXXXXXXX.tmp, O_CREAT|O_EXCL) fchmod write fsync close
//	linkat(tmp, name) unlinkat(tmp) fsync(dir)
func Create(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	return create(root, name, data, perm, do)
}

func create(root *os.Root, name string, data []byte, perm fs.FileMode, step step) error {
	return viaTemp(root, name, data, perm, step, func(tmp string) error {
		if err := step("link", func() error { return root.Link(tmp, name) }); err != nil {
			return err
		}
		return step("remove", func() error { return root.Remove(tmp) })
	})
}

// A step does one thing to the disk. Tests put one in that fails.
type step func(name string, f func() error) error

func do(_ string, f func() error) error { return f() }

// viaTemp writes data to a new file beside name, lets place put it there, and
// syncs the folder. It leaves no temporary file behind when a step fails.
func viaTemp(root *os.Root, name string, data []byte, perm fs.FileMode, step step, place func(tmp string) error) error {
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()[:10]+".tmp")
	err := writeNew(root, tmp, data, perm, step)
	if err == nil {
		err = place(tmp)
	}
	if err != nil {
		if rmErr := root.Remove(tmp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return fmt.Errorf("durable: write %s: %w", name, err)
	}
	return step("sync folder", func() error { return SyncDir(root, path.Dir(name)) })
}

func writeNew(root *os.Root, name string, data []byte, perm fs.FileMode, step step) error {
	var f *os.File
	err := step("open", func() (err error) {
		f, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		return err
	})
	if err == nil {
		err = step("chmod", func() error { return f.Chmod(perm) })
	}
	if err == nil {
		err = step("write", func() error { _, err := f.Write(data); return err })
	}
	if err == nil {
		err = step("sync", f.Sync)
	}
	if f == nil {
		return err
	}
	return errors.Join(err, step("close", f.Close))
}

// Mkdir makes the folder name, whose parent must be there, and syncs the
// parent. A folder that is there already is fine and keeps its mode; anything
// else under that name is an error that is [fs.ErrExist].
func Mkdir(root *os.Root, name string, perm fs.FileMode) error {
	err := root.Mkdir(name, perm)
	switch {
	case errors.Is(err, fs.ErrExist):
		fi, statErr := root.Stat(name)
		if statErr != nil || !fi.IsDir() {
			return fmt.Errorf("durable: make folder %s: %w", name, errors.Join(err, statErr))
		}
	case err != nil:
		return fmt.Errorf("durable: make folder %s: %w", name, err)
	default:
		if err := root.Chmod(name, perm); err != nil {
			return fmt.Errorf("durable: make folder %s: %w", name, err)
		}
	}
	// Synced also when it was there: whoever made it may have died before.
	return SyncDir(root, path.Dir(name))
}

// SyncDir syncs the folder name, so that the names in it are on disk. A file
// system that has no notion of it (EINVAL) is taken at its word.
func SyncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("durable: sync folder %s: %w", name, err)
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("durable: sync folder %s: %w", name, err)
	}
	return nil
}
