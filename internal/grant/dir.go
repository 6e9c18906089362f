package grant

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"boxmaker/internal/filestamp"

	"golang.org/x/sys/unix"
)

// A Dir is the folder with the owner's grants. [Dir.Read] gives what is in it
// at that moment; it keeps what it parsed, and reads a file again when its
// stamp is another. Its methods may be called from several goroutines.
type Dir struct {
	path string
	own  []string
	now  func() time.Time

	mu    sync.Mutex // guards what follows
	files map[string]*kept
	watch *watch // nil if there is none
}

// kept is what a file was found to say.
type kept struct {
	stamp    filestamp.Stamp
	settled  bool // a change after this would show in the stamp
	grant    *Grant
	denies   []*Grant // what is left of a deny with a mistake
	problems []Problem
	alias    bool // it has another name, through which it can change unseen
}

// settle is how old a change must be for the next one to have another time:
// some file systems count whole seconds.
const settle = 2100 * time.Millisecond

// Open names the folder. own are Boxmaker's own folders, in which nothing can
// be granted (see [Own]).
func Open(path string, own ...string) *Dir {
	return &Dir{path: path, own: resolved(own), now: time.Now, files: map[string]*kept{}}
}

// resolved adds to each folder the one that it really is.
func resolved(own []string) []string {
	var all []string
	for _, o := range own {
		if !filepath.IsAbs(o) {
			continue
		}
		all = append(all, filepath.Clean(o))
		if real, err := filepath.EvalSymlinks(o); err == nil {
			all = append(all, real)
		}
	}
	return unique(all)
}

// Read gives the grants as they are now. A file with a fault is named in
// Broken and grants nothing; an error means that the folder itself can't be
// read, and comes with an empty Set.
func (d *Dir) Read() (Set, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if d.watch != nil && d.watch.fresh(d.path, now) {
		return d.watch.set, nil
	}
	set, watched, err := d.full()
	if d.watch = watched; watched != nil {
		watched.set, watched.full = set, now
	}
	return set, err
}

// full looks at every file. The watch it gives began before that.
func (d *Dir) full() (Set, *watch, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return Set{}, nil, unreadable(d.path, err)
	}
	defer f.Close()
	dir := int(f.Fd()) //nolint:gosec // a descriptor fits
	w := d.watch
	if id, ok := identityOf(dir); w == nil || !ok || w.id != id {
		w = newWatch(d.path, dir)
	}
	owner, err := folder(f)
	if err != nil {
		return Set{}, nil, err
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return Set{}, nil, unreadable(d.path, err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".toml") || strings.HasPrefix(n, ".") })
	slices.Sort(names)
	set, seen := Set{Grants: make([]*Grant, 0, len(names))}, make(map[string]*kept, len(names))
	for _, name := range names {
		k := d.file(dir, name, owner)
		if k == nil {
			continue // gone meanwhile
		}
		seen[name] = k
		set.add(k)
		if k.alias {
			w = nil
		}
	}
	d.files = seen
	return set, w, nil
}

func (s *Set) add(k *kept) {
	if k.grant != nil {
		s.Grants = append(s.Grants, k.grant)
	}
	s.Grants = append(s.Grants, k.denies...)
	for _, p := range k.problems {
		if p.Warning {
			s.Warnings = append(s.Warnings, p)
		} else {
			s.Broken = append(s.Broken, p)
		}
	}
}

func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder of grants %s: %w; nothing is granted; `bxctl init` makes it (see runbook: grant-folder)", path, err)
	}
	return fmt.Errorf("the folder of grants %s can't be read: %w; nothing is granted; give it back to its owner (see runbook: grant-folder)", path, err)
}

// folder checks that only the owner can put files there, and says who that is.
func folder(f *os.File) (owner uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil { //nolint:gosec // a descriptor fits
		return 0, unreadable(f.Name(), err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return 0, unreadable(f.Name(), syscall.ENOTDIR)
	case st.Mode&0o022 != 0:
		return 0, fmt.Errorf("others can write to the folder of grants %s, so that its files are not the owner's word; nothing is granted; chmod go-w %s (see runbook: grant-folder)", f.Name(), f.Name())
	}
	return st.Uid, nil
}

// file gives what the file says, or nil if there is none.
func (d *Dir) file(dir int, name string, owner uint32) *kept {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		if k := d.files[name]; k != nil && k.settled && k.stamp == filestamp.Of(&st) {
			return k
		}
	}
	k, err := d.read(dir, name, owner)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return &kept{problems: []Problem{{File: name, What: "the file can't be read: " + err.Error(), Do: "make it a plain file that brokerd can read", Runbook: "grant-file"}}}
	}
	return k
}

// read opens the file, checks what was opened, and parses it.
func (d *Dir) read(dir int, name string, owner uint32) (*kept, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return &kept{problems: []Problem{{File: name, What: "the file is a symbolic link, so that who can change it is not seen here", Do: "put the file itself into the folder", Runbook: "grant-file"}}}, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var before, after unix.Stat_t
	if err := unix.Fstat(fd, &before); err != nil {
		return nil, err
	}
	k := &kept{stamp: filestamp.Of(&before), alias: before.Nlink != 1}
	if p := rights(name, &before, owner); p != nil {
		k.problems, k.settled = []Problem{*p}, true
		if before.Mode&unix.S_IFMT == unix.S_IFREG && plainName(name) {
			data, err := io.ReadAll(io.LimitReader(f, MaxFile))
			if err != nil {
				return nil, err
			}
			k.settled = d.now().Sub(time.Unix(before.Ctim.Unix())) > settle
			k.salvage(name, data)
		}
		return k, nil
	}
	start := d.now()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if err := unix.Fstat(fd, &after); err != nil {
		return nil, err
	}
	if filestamp.Of(&after) != k.stamp {
		k.problems = []Problem{{File: name, What: "the file is being written to", Do: "try again", Runbook: "grant-file"}}
		return k, nil
	}
	k.settled = start.Sub(time.Unix(before.Ctim.Unix())) > settle
	k.grant, k.problems = Parse(name, data, d.own)
	if k.grant != nil {
		k.problems = append(k.problems, nameWarnings(name)...)
	} else {
		k.salvage(name, data)
	}
	return k, nil
}

// rights says why a file is not the owner's word, or gives nil.
func rights(name string, st *unix.Stat_t, owner uint32) *Problem {
	p := &Problem{File: name, Runbook: "grant-file"}
	switch {
	case !plainName(name):
		p.What, p.Do = fmt.Sprintf("the file name %+q has characters other than letters, digits, dots, - and _", clip(name)), "rename it, such as 10-notes.toml"
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		p.What, p.Do = "this is not a plain file", "move it out of the folder of grants, or rename it so that it does not end in .toml"
	case st.Mode&0o022 != 0:
		p.What, p.Do = fmt.Sprintf("others can write to the file (mode %04o), so that it is not the owner's word alone", st.Mode&0o7777), "chmod go-w "+name
	case st.Uid != owner && st.Uid != 0:
		p.What, p.Do = fmt.Sprintf("the file belongs to another user (uid %d) than the folder (uid %d)", st.Uid, owner), fmt.Sprintf("look at what is in it; if it is yours, chown %d %s", owner, name)
	default:
		return nil
	}
	return p
}

// plainName: what can stand in a message, a log and a command line as it is.
func plainName(name string) bool {
	return len(name) <= 128 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" && name[0] != '-'
}

func clip(s string) string { return s[:min(len(s), 64)] }

func nameWarnings(name string) []Problem {
	if len(name) > 3 && name[0] >= '0' && name[0] <= '9' && name[1] >= '0' && name[1] <= '9' && name[2] == '-' {
		return nil
	}
	return []Problem{{File: name, Warning: true, What: "the name does not begin with two digits and -, so that its place in the order is easily misjudged", Do: "rename it, such as 50-" + name + " (10- for the specific, 50- for the general)", Runbook: "grant-file"}}
}
