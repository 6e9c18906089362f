package box

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// grants mounts what was granted, parents before what is below them, and has
// the first process check what it sees.
func (b *Box) grants(l *proto.Launch, h Host, s *skeleton, programs bool) error {
	if len(l.Mounts)+len(l.Hide) > maxMounts {
		return refuse(proto.EndMount, "%d paths in one call; there may be %d", len(l.Mounts)+len(l.Hide), maxMounts)
	}
	mounts := slices.Clone(l.Mounts)
	for _, m := range mounts {
		if err := fit(m.Path, h.Hidden, h.Own...); err != nil {
			return err
		}
	}
	covers, err := b.hide(l)
	if err != nil {
		return err
	}
	mounts = append(mounts, pins(mounts, covers)...)
	if len(mounts)+len(covers) > maxMounts {
		return refuse(proto.EndMount, "what is to be hidden lies too deep in what may be written: %d mounts; there may be %d", len(mounts)+len(covers), maxMounts)
	}
	slices.SortFunc(mounts, func(x, y proto.Mount) int { return strings.Compare(x.Path+"/", y.Path+"/") })
	for i, m := range mounts {
		if i > 0 && mounts[i-1].Path == m.Path {
			return refuse(proto.EndMount, "%s stands twice in the launch", m.Path)
		}
		f, st, err := open(m.Path)
		if err != nil {
			return refuse(proto.EndMount, "%s", because(m.Path, err))
		}
		f.Close()
		if t := st.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
			return refuse(proto.EndMount, "%s is neither a file nor a folder", m.Path)
		}
		b.Mounts = append(b.Mounts, Mount{
			Kind: Bind, Source: m.Path, Dest: m.Path, File: st.Mode&unix.S_IFMT == unix.S_IFREG, Write: m.Write, Exec: programs,
		})
		b.Argv = append(b.Argv, "-check", fmt.Sprintf("%s=%d:%d", m.Path, st.Dev, st.Ino))
	}
	b.Mounts = append(b.Mounts, covers...)
	return s.room(mounts)
}

// maxMounts bounds what the runtime is asked to mount of a call's paths.
const maxMounts = 512

// pins are the folders between what may be written and what is mounted or hidden
// below it, each as a mount of its own: what is mounted on can't be renamed. By a
// folder in between a program could bring what is hidden to another name, where
// the next call would find it.
func pins(mounts []proto.Mount, covers []Mount) []proto.Mount {
	write := map[string]bool{}
	var inner []string
	for _, m := range mounts {
		write[m.Path] = m.Write
		inner = append(inner, m.Path)
	}
	for _, c := range covers {
		inner = append(inner, c.Dest)
	}
	var all []proto.Mount
	for _, p := range inner {
		var between []proto.Mount
		for d := filepath.Dir(p); d != "/"; d = filepath.Dir(d) {
			if may, granted := write[d]; granted {
				if may {
					all = append(all, between...)
				}
				break
			}
			between = append(between, proto.Mount{Path: d, Write: true})
		}
	}
	slices.SortFunc(all, func(x, y proto.Mount) int { return strings.Compare(x.Path, y.Path) })
	return slices.Compact(all)
}

// hide covers what must not be seen in a granted tree: a folder by an empty one,
// a file by an empty one. It comes after all grants, so that it wins over one
// that lies below it. What does not exist needs no cover.
func (b *Box) hide(l *proto.Launch) (covers []Mount, err error) {
	paths := slices.Sorted(slices.Values(l.Hide))
	for _, p := range slices.Compact(paths) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) {
			return nil, refuse(proto.EndMount, "%q is no absolute, clean path", p)
		}
		if !slices.ContainsFunc(l.Mounts, func(m proto.Mount) bool { return p == m.Path || strings.HasPrefix(p, m.Path+"/") }) {
			return nil, refuse(proto.EndInternal, "%s shall be hidden and is in nothing that was granted", p)
		}
		if slices.ContainsFunc(covers, func(c Mount) bool { return strings.HasPrefix(p, c.Dest+"/") }) {
			continue // what lies above is covered
		}
		f, st, err := open(p)
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR:
			continue
		case err != nil:
			return nil, refuse(proto.EndMount, "%s shall not be seen, and cannot be covered: %v", p, err)
		}
		f.Close()
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			covers = append(covers, Mount{Kind: Tmpfs, Dest: p, Size: 4 << 10, Mode: 0o555})
			continue
		}
		empty := filepath.Join(b.Dir, "empty")
		if err := os.WriteFile(empty, nil, 0o400); err != nil && !os.IsPermission(err) {
			return nil, refuse(proto.EndInternal, "the cover of %s cannot be made: %v", p, err)
		}
		covers = append(covers, Mount{Kind: Bind, Source: empty, Dest: p, File: true})
	}
	return covers, nil
}

// Check opens the granted paths again, after a runtime failed: it says which of
// them is to blame, if one is.
func Check(l *proto.Launch) error {
	for _, m := range l.Mounts {
		f, _, err := open(m.Path)
		if err != nil {
			return refuse(proto.EndMount, "%s", because(m.Path, err))
		}
		f.Close()
	}
	return nil
}

// fit refuses paths that would cover what makes the container, or that the
// runtime does not see as they are, or that hold the sockets of this machine's
// Boxmaker and the folders of other calls.
func fit(p, hidden string, ours ...string) error {
	switch {
	case !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0):
		return refuse(proto.EndMount, "%q is no absolute, clean path", p)
	case p == "/" || p == "/run":
		return refuse(proto.EndMount, "%s as a whole cannot be granted: it would cover the container's own", p)
	}
	for _, own := range []string{"/proc", "/sys", "/dev", Tool, Door, hidden} {
		if own != "" && (p == own || strings.HasPrefix(p, own+"/")) {
			return refuse(proto.EndMount, "%s cannot be granted: %s is the container's own", p, own)
		}
	}
	for _, own := range ours {
		if p == own || strings.HasPrefix(p, own+"/") || strings.HasPrefix(own, p+"/") {
			return refuse(proto.EndMount, "%s cannot be granted: %s is Boxmaker's own", p, own)
		}
	}
	return nil
}

// open opens a path without following a link in any of its parts.
func open(p string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), p)
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

func because(p string, err error) string {
	switch err {
	case unix.ELOOP:
		return p + " has a symbolic link in it, and links are not followed: grant the path that it leads to"
	case unix.ENOENT, unix.ENOTDIR:
		return p + " does not exist"
	case unix.EACCES:
		return fmt.Sprintf("%s cannot be entered by uid %d, which runs the tools", p, os.Geteuid())
	default:
		return fmt.Sprintf("%s cannot be opened: %v", p, err)
	}
}
