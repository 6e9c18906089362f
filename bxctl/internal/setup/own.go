package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"boxmaker/internal/config"

	"golang.org/x/sys/unix"
)

// Own gives each role the files that it needs and no other, where the roles have
// uids of their own: to be called as root. Links, and files with a second name,
// are left alone: a role could have made one to a file of somebody else.
//
//   - The home can be passed through, so that tools reach the workspace; what is
//     in it is private.
//   - Session logs are loopd's; audit log, state, secrets and key are brokerd's.
//   - gatewayd has its folder. Its token lies among brokerd's secrets, and is read
//     before root is dropped.
//   - Grants are root's, and brokerd's group may read them.
//   - The workspace is runnerd's, as whom tools run.
func Own(l config.Layout, s Settings) error {
	var errs []error
	if st, err := os.Stat(l.Home); err == nil && st.Mode().Perm()&0o011 != 0o011 {
		errs = append(errs, os.Chmod(l.Home, st.Mode().Perm()|0o011))
	}
	for dir, role := range map[string]string{
		l.Sessions: "loopd", l.Audit: "brokerd", l.Broker: "brokerd", l.Secrets: "brokerd", l.Keys: "brokerd", l.Workspace: "runnerd", l.Gateway(): "gatewayd",
	} {
		errs = append(errs, ownTree(dir, s.UID(role)))
	}
	return errors.Join(append(errs, ownGrants(l.Grants, s.UID("brokerd")))...)
}

// ownTree makes all in a folder a user's, where it is not. A folder that is not
// there has nothing in it.
func ownTree(dir string, uid uint32) error {
	return each(dir, func(root *os.Root, path string, info fs.FileInfo) error {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid == uid && st.Gid == uid {
			return nil
		}
		return give(root, path, info, uid)
	})
}

// give changes the owner of what was looked at, and of nothing that was put in
// its place since: the folder may be a role's already, and the kernel need not
// keep a role from giving somebody else's file a second name there.
func give(root *os.Root, path string, seen fs.FileInfo, uid uint32) error {
	f, err := root.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone meanwhile
	}
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := now.Sys().(*syscall.Stat_t)
	if !ok || !os.SameFile(seen, now) || !now.IsDir() && st.Nlink != 1 {
		return nil
	}
	if err := unix.Fchownat(int(f.Fd()), "", int(uid), int(uid), unix.AT_EMPTY_PATH); err != nil { //nolint:gosec // a descriptor fits
		return &fs.PathError{Op: "chown", Path: path, Err: err}
	}
	return nil
}

// ownGrants lets a group read, and take part in what is made later, and adds no
// other right. What is no grant because others could write it, or the folder, or
// because it is another user's, stays so: it is the owner's to look at first.
func ownGrants(dir string, gid uint32) error {
	const othersWrite = 0o022
	folder, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || folder.Mode().Perm()&othersWrite != 0 {
		return err
	}
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return each(dir, func(root *os.Root, path string, info fs.FileInfo) error {
		want := info.Mode().Perm()&0o700 | 0o040
		if info.IsDir() {
			want = info.Mode().Perm()&0o700 | 0o050 | fs.ModeSetgid
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || info.Mode().Perm()&othersWrite != 0 || st.Uid != 0 && st.Uid != owner.Uid {
			return nil
		}
		if st.Uid == 0 && st.Gid == gid && info.Mode()&(fs.ModePerm|fs.ModeSetgid) == want {
			return nil
		}
		if err := root.Lchown(path, 0, int(gid)); err != nil {
			return err
		}
		return root.Chmod(path, want) // after the change of the group, which takes the setgid bit
	})
}

// each walks over the folders and plain files below dir.
func each(dir string, f func(*os.Root, string, fs.FileInfo) error) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := root.Lstat(filepath.FromSlash(path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !info.IsDir() && (!info.Mode().IsRegular() || st.Nlink != 1) {
			return nil
		}
		return f(root, path, info)
	})
}
