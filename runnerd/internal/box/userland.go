package box

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// A skeleton is the root file system of a call: empty folders and files to
// mount on, links, and three files of our own.
type skeleton struct {
	root    *os.Root
	covered func(dest string) bool // is dest inside a part that was mounted from elsewhere?
	whole   map[string]string      // top-level names that are mounted as a whole, and from where
}

func newSkeleton(dir string) (*skeleton, error) {
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the user inside walks through it
		return nil, refuse(proto.EndInternal, "the folder of the call cannot be made: %v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refuse(proto.EndInternal, "the folder of the call cannot be opened: %v", err)
	}
	s := &skeleton{root: root, whole: map[string]string{}}
	s.covered = func(dest string) bool { _, ok := s.whole[top(dest)]; return ok }
	return s, nil
}

func (s *skeleton) close() { _ = s.root.Close() }

// top gives the first name of an absolute path.
func top(p string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return name
}

// userland puts in the programs that a launch may use.
func (b *Box) userland(l *proto.Launch, h Host, s *skeleton) error {
	switch l.Userland {
	case proto.UserlandNone:
		return nil
	case proto.UserlandUsr:
		return b.hostPrograms(s)
	case proto.UserlandRoot:
		root := l.Root
		if root == "" {
			root = h.Root
		}
		return b.ownerRoot(root, s)
	default:
		return refuse(proto.EndInternal, "no such userland: %q", l.Userland)
	}
}

// hostPrograms shows /usr of the machine, with /bin, /sbin and /lib* as they are
// there. Of /etc there are only the names that programs in /usr are linked
// through, and three files that say who the user is.
func (b *Box) hostPrograms(s *skeleton) error {
	b.bind(s, "/usr", "usr")
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if err := b.entry(s, "/", name); err != nil {
			return refuse(proto.EndNoUserland, "/%s of this machine: %v", name, err)
		}
	}
	for _, p := range []string{"/etc/alternatives", "/etc/ld.so.cache"} {
		if f, st, err := open(p); err == nil {
			f.Close()
			b.Mounts = append(b.Mounts, Mount{Kind: Bind, Source: p, Dest: p, File: st.Mode&unix.S_IFMT != unix.S_IFDIR, Exec: true})
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "box:x:1000:1000::/tmp:/bin/sh\n", "etc/group": "box:x:1000:\n", "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
	} {
		if err := s.file(name, text); err != nil {
			return refuse(proto.EndInternal, "the call's own %s: %v", name, err)
		}
	}
	return nil
}

// ownerRoot shows the top-level folders of a root file system. Those that are
// the container's own, or empty there, are left to the skeleton.
func (b *Box) ownerRoot(root string, s *skeleton) error {
	if root == "" {
		return refuse(proto.EndNoUserland, "the grant wants a root file system and names none, and runnerd.toml has no userland.root")
	}
	if !filepath.IsAbs(root) || filepath.Clean(root) != root || root == "/" {
		return refuse(proto.EndNoUserland, "%q cannot be a root file system: it must be an absolute path of a folder of its own", root)
	}
	f, _, err := open(root)
	if err != nil {
		return refuse(proto.EndNoUserland, "the root file system %s", because(root, err))
	}
	f.Close()
	entries, err := os.ReadDir(root)
	if err != nil {
		return refuse(proto.EndNoUserland, "the root file system %s cannot be read: %v", root, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "proc", "sys", "dev", "run", "tmp", "tool":
			continue
		}
		if err := b.entry(s, root, e.Name()); err != nil {
			return refuse(proto.EndNoUserland, "%s in the root file system %s: %v", e.Name(), root, err)
		}
	}
	return nil
}

// entry shows one top-level name of a root: a link as a link, a folder that has
// something in it by a mount. Others are left out.
func (b *Box) entry(s *skeleton, root, name string) error {
	from := filepath.Join(root, name)
	info, err := os.Lstat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		to, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return s.root.Symlink(to, name)
	case !info.IsDir():
		return nil
	}
	if inside, err := os.ReadDir(from); err == nil && len(inside) == 0 {
		return s.root.Mkdir(name, 0o755)
	}
	b.bind(s, from, name)
	return nil
}

func (b *Box) bind(s *skeleton, from, name string) {
	s.whole[name] = from
	b.Mounts = append(b.Mounts, Mount{Kind: Bind, Source: from, Dest: "/" + name, Exec: true})
}

// room checks that what was granted has a place: below a part that is mounted
// as a whole there must be one already.
func (s *skeleton) room(mounts []proto.Mount) error {
	for _, m := range mounts {
		from, ok := s.whole[top(m.Path)]
		if !ok {
			continue
		}
		if m.Path == "/"+top(m.Path) {
			continue // it covers that part
		}
		in := filepath.Join(from, strings.TrimPrefix(m.Path, "/"+top(m.Path)))
		f, _, err := open(in)
		if err != nil {
			return refuse(proto.EndMount, "%s has no place in the container: make %s, or empty /%s there", m.Path, in, top(m.Path))
		}
		f.Close()
	}
	return nil
}

// points makes what the mounts are mounted on, as far as that is in the
// skeleton: in what is mounted itself it exists, or the runtime makes it in a
// tmpfs.
func (s *skeleton) points(mounts []Mount) error {
	var made []string // mounted so far
	for _, m := range mounts {
		if !below(made, m.Dest) {
			if err := s.point(m); err != nil {
				return refuse(proto.EndInternal, "the place of %s in the container: %v", m.Dest, err)
			}
		}
		made = append(made, m.Dest)
	}
	return nil
}

func below(made []string, dest string) bool {
	for _, d := range made {
		if strings.HasPrefix(dest, d+"/") {
			return true
		}
	}
	return false
}

func (s *skeleton) point(m Mount) error {
	name := strings.TrimPrefix(m.Dest, "/")
	if m.File {
		return s.file(name, "")
	}
	return s.root.MkdirAll(name, 0o755)
}

func (s *skeleton) file(name, text string) error {
	if err := s.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return s.root.WriteFile(name, []byte(text), 0o644)
}
