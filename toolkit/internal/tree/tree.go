// Package tree opens files inside the granted trees, and nowhere else.
//
// Every access goes through an os.Root on the tree in which the path lies, so
// that no link, however it is swapped while we look, leads out of the tree;
// comparing path strings alone could not promise that. Reading follows links
// that stay inside. Writing follows none at all: each folder on the way and the
// file itself must be what they seem. Only regular files are opened; devices,
// pipes and sockets are refused before and after the opening, which never waits.
//
// It does not see hard links: a file of the tree that has a second name outside
// is a file of the tree. Writing replaces the name and not the inode, so that
// the other name keeps its text (but for a grant of one single file, see
// [Target]).
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"boxmaker/internal/tool"

	"golang.org/x/sys/unix"
)

// An Error is why a path cannot be used, as a sentence for the model.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

func refuse(format string, a ...any) error { return &Error{fmt.Sprintf(format, a...)} }

// A Set is what was granted: cleaned, absolute paths of folders and files.
type Set struct {
	Read  []string
	Write []string // may be read, too
}

// A Place is a path inside an opened tree.
type Place struct {
	Path string // absolute
	Root *os.Root
	Name string // in Root; "." for the tree itself
	// Alone: the grant names this one file, and Root is its folder, in which
	// nothing else may be touched.
	Alone bool
}

// Close closes the tree.
func (p *Place) Close() { _ = p.Root.Close() }

// Find opens the tree of a path for reading.
func (s Set) Find(p string) (*Place, error) {
	return s.find(p, append(append([]string{}, s.Write...), s.Read...), "read")
}

func (s Set) find(p string, trees []string, what string) (*Place, error) {
	best := ""
	for _, t := range trees {
		if Inside(p, t) && len(t) > len(best) {
			best = t
		}
	}
	if best == "" {
		if len(trees) == 0 {
			return nil, refuse("nothing was granted to %s", what)
		}
		return nil, refuse("%s is outside of what may be %s here: %s", p, map[string]string{"read": "read", "write": "written"}[what], strings.Join(trees[:min(len(trees), 5)], ", "))
	}
	info, err := os.Lstat(best)
	if err != nil {
		return nil, Explain(best, err)
	}
	dir, name, alone := best, strings.TrimPrefix(strings.TrimPrefix(p, best), "/"), false
	if !info.IsDir() {
		if p != best {
			return nil, refuse("%s is not a folder, so there is no %s", best, p)
		}
		dir, name, alone = path.Dir(best), path.Base(best), true
	}
	root, err := openExact(dir)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = "."
	}
	return &Place{Path: p, Root: root, Name: name, Alone: alone}, nil
}

// Inside reports whether a cleaned path is tree or lies in it.
func Inside(p, tree string) bool {
	return p == tree || tree == "/" || strings.HasPrefix(p, tree+"/")
}

// openExact opens a folder that is reached without any link: what the kernel
// finds when it may follow none must be the very folder that was opened.
func openExact(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, Explain(dir, err)
	}
	opened, err := root.Stat(".")
	if err == nil {
		err = sameExact(dir, opened)
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return root, nil
}

func sameExact(dir string, opened fs.FileInfo) error {
	f, err := walked(dir)
	if err != nil {
		return refuse("%s cannot be opened without following a link", dir)
	}
	defer f.Close()
	exact, err := f.Stat()
	if err != nil {
		return Explain(dir, err)
	}
	if !os.SameFile(exact, opened) {
		return refuse("%s was changed while it was opened", dir)
	}
	return nil
}

// walked opens an absolute, clean path one folder at a time, none of them by a
// link. openat2 would do it at once, and is not there in a container: a filter
// cannot see with which mode it makes a file.
func walked(dir string) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags, 0)
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if err != nil {
			return nil, err
		}
		if name == "" {
			break
		}
		var next int
		next, err = unix.Openat(fd, name, flags, 0)
		_ = unix.Close(fd)
		fd = next
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// OpenFile opens a regular file of the place for reading. It never waits and
// never opens anything else.
func (p *Place) OpenFile() (*os.File, fs.FileInfo, error) { return OpenIn(p.Root, p.Name, p.Path) }

// OpenIn is OpenFile for a name in a folder; shown is its absolute path.
func OpenIn(root *os.Root, name, shown string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, explainIn(root, name, shown, err)
	}
	if err := regular(shown, info); err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, explainIn(root, name, shown, err)
	}
	if info, err = f.Stat(); err == nil {
		err = regular(shown, info) // it may have been swapped in between
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func regular(shown string, info fs.FileInfo) error {
	mode := info.Mode()
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return refuse("%s is a folder; use %s to see what is in it", shown, tool.NameListFiles)
	default:
		return refuse("%s is not a file but a %s, which is never opened", shown, Kind(mode))
	}
}

// Kind names what is neither file nor folder.
func Kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// explainIn also tells of a link that leads nowhere or out of the tree.
func explainIn(root *os.Root, name, shown string, err error) error {
	if info, lerr := root.Lstat(name); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		if errors.Is(err, fs.ErrNotExist) {
			return refuse("%s is a link that leads to nothing", shown)
		}
		return refuse("%s is a link that leads out of the granted folder, or is absolute; such links are not followed", shown)
	}
	return Explain(shown, err)
}

// Explain makes a sentence of an error of the file system. It repeats no text
// of the system, which may name other paths.
func Explain(shown string, err error) error {
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, fs.ErrNotExist):
		return refuse("there is no %s", shown)
	case errors.Is(err, fs.ErrPermission):
		return refuse("%s may not be opened: its owner or its mode does not allow it", shown)
	case errors.Is(err, unix.EROFS):
		return refuse("%s is on a file system that is read-only here", shown)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return refuse("the disk is full; nothing was changed")
	case errors.Is(err, unix.ENOTDIR):
		return refuse("there is no %s: a part of the path is not a folder", shown)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV), strings.Contains(err.Error(), "escapes"):
		return refuse("%s leads through a link out of the granted folder, or through too many; such links are not followed", shown)
	case errors.Is(err, unix.ENAMETOOLONG):
		return refuse("%s has a name that is too long", shown)
	case errors.Is(err, unix.EFBIG):
		return refuse("%s would be larger than a file may be here", shown)
	default:
		var no unix.Errno
		if errors.As(err, &no) {
			return refuse("%s cannot be used: %s", shown, no.Error())
		}
		return refuse("%s cannot be used", shown)
	}
}
