package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/term"

	"golang.org/x/sys/unix"
)

// A FileSystem is what the kernel says of the file system at a path.
type FileSystem struct {
	ID         string // the same for two paths on one file system
	Type       int64  // magic number
	ReadOnly   bool
	Free, Size int64 // bytes, for an ordinary user
	Inodes     int64 // free
	AllInodes  int64 // 0: the file system does not count them
}

func statFS(path string) (FileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return FileSystem{}, err
	}
	return FileSystem{
		ID: fmt.Sprint(s.Fsid.Val), Type: int64(s.Type) & 0xffffffff, ReadOnly: s.Flags&unix.ST_RDONLY != 0,
		Free: int64(s.Bavail) * s.Bsize, Size: int64(s.Blocks) * s.Bsize, Inodes: int64(s.Ffree), AllInodes: int64(s.Files),
	}, nil
}

// kinds of file systems that are no good place for state.
func badType(t int64) (name, why string) {
	const nothing = "what is on it is gone after a restart of the machine"
	const locks = "locks and fsync over a network do not always do what they say"
	switch t {
	case unix.TMPFS_MAGIC:
		return "tmpfs", nothing
	case unix.RAMFS_MAGIC:
		return "ramfs", nothing
	case unix.NFS_SUPER_MAGIC:
		return "NFS", locks
	case 0xff534d42, 0xfe534d42: // CIFS, SMB2
		return "SMB", locks
	case unix.V9FS_MAGIC:
		return "9p", locks
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph", locks
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE", "what it does at fsync depends on the program behind it"
	case unix.MSDOS_SUPER_MAGIC, 0x2011bab0: // exFAT
		return "FAT", "it keeps no owners and modes, so that everybody on the machine can read it"
	}
	return "", ""
}

// folder is one of the folders of an installation.
type folder struct {
	name, path string
	state      bool // what is in it must outlive a restart of the machine
}

func (x *exam) folders() []folder {
	l := x.Layout
	all := []folder{
		{"home", l.Home, true},
		{"config", l.Config, true},
		{"sessions", l.Sessions, true},
		{"run", l.Run, false},
		{"log", l.Log, false},
		{"audit", l.Audit, true},
		{"broker", l.Broker, true},
		{"secrets", l.Secrets, true},
		{"keys", l.Keys, true},
		{"anchors", l.Anchors, true},
		{"grants", l.Grants, true},
	}
	var out []folder
	for _, f := range all {
		if _, err := os.Stat(f.path); err == nil {
			out = append(out, f)
		}
	}
	return out
}

// home: the folders are there, private, and on a file system that can hold them.
func home(x *exam) {
	before := len(x.findings)
	if len(x.folders()) == 0 {
		x.add(Finding{
			Looked: x.Layout.Home, Verdict: Fail, Runbook: "not-set-up", Detail: "the home folder is not there: Boxmaker is not set up here",
			Mend: "bxctl init makes it; or name the right folder with --home or BOXMAKER_HOME",
		})
		return
	}
	for _, f := range []folder{{"home", x.Layout.Home, true}, {"config", x.Layout.Config, true}, {"sessions", x.Layout.Sessions, true}} {
		switch st, err := os.Stat(f.path); {
		case errors.Is(err, fs.ErrNotExist):
			x.add(Finding{
				Looked: f.path, Verdict: Fail, Runbook: "not-set-up", Detail: "the " + f.name + " folder is not there",
				Mend: "bxctl init makes it; or name the right folder with --home or BOXMAKER_HOME",
			})
		case err != nil:
			x.bad(Fail, f.path, err.Error(), "run bxctl as the user that set Boxmaker up")
		case !st.IsDir():
			x.bad(Fail, f.path, "the "+f.name+" folder is no folder", "move that file away, then: bxctl init")
		}
	}
	if len(x.findings) > before {
		return
	}
	x.above()
	for _, t := range x.Temporary {
		if rel, err := filepath.Rel(t, x.Layout.Home); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			x.bad(Warn, x.Layout.Home, "it lies in "+t+", which the system empties at a restart or after some days", "move it (with Boxmaker down) and set BOXMAKER_HOME, for instance to ~/boxmaker")
			break
		}
	}
	seen := map[string]bool{}
	for _, f := range x.folders() {
		s, err := x.StatFS(f.path)
		if err != nil || seen[s.ID] || !f.state {
			continue
		}
		seen[s.ID] = true
		if name, why := badType(s.Type); name != "" {
			x.bad(Warn, f.path, "it is on a file system of the kind "+name+": "+why, "move the home to a disk of this machine (ext4, xfs, btrfs) and set BOXMAKER_HOME")
		}
	}
	if len(x.findings) == before {
		x.ok(x.Layout.Home, "there, private, on a disk of this machine")
	}
}

// above: who may write to a folder above could put another home in this one's
// place. A sticky folder such as /tmp lets only the owner do that.
func (x *exam) above() {
	for dir := filepath.Dir(x.Layout.Home); ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil {
			return
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		open := st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0
		switch {
		case open:
			x.bad(Fail, dir, "everybody may write to this folder above the home, and could put another home in its place", "chmod o-w "+dir)
		case ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
			x.bad(Warn, dir, fmt.Sprintf("this folder above the home belongs to uid %d, who could put another home in its place", sys.Uid),
				"move the home below a folder of your own")
		}
		if dir == "/" || dir == filepath.Dir(dir) {
			return
		}
	}
}

const (
	leastFree, lowFree     = 64 << 20, 1 << 30
	leastInodes, lowInodes = 1000, 10000
)

// disk: space and inodes of each file system, and that it can be written.
func disk(x *exam) {
	seen := map[string]bool{}
	for _, f := range x.folders() {
		s, err := x.StatFS(f.path)
		if err != nil {
			x.bad(Warn, f.path, "the file system does not say how full it is: "+err.Error(), "look with: df "+f.path)
			continue
		}
		if seen[s.ID+fmt.Sprint(s.ReadOnly)] {
			continue
		}
		seen[s.ID+fmt.Sprint(s.ReadOnly)] = true
		free := term.Bytes(s.Free) + " free of " + term.Bytes(s.Size)
		switch {
		case s.ReadOnly:
			x.add(Finding{
				Looked: f.path, Verdict: Fail, Runbook: "state-read-only", Detail: "the file system is mounted read-only",
				Mend: "mount it read-write; if the kernel did that by itself, the disk is failing: see dmesg",
			})
		case s.Free < leastFree:
			x.add(Finding{Looked: f.path, Verdict: Fail, Runbook: "disk-full", Detail: free + ": loopd stops when a log can't be written, and brokerd denies everything", Mend: "free some space"})
		case s.AllInodes > 0 && s.Inodes < leastInodes:
			x.add(Finding{Looked: f.path, Verdict: Fail, Runbook: "disk-full", Detail: fmt.Sprintf("%d inodes are left: no new files can be made", s.Inodes), Mend: "remove small files (df -i shows where)"})
		case s.Free < lowFree:
			x.add(Finding{Looked: f.path, Verdict: Warn, Runbook: "disk-full", Detail: free, Mend: "free some space soon"})
		case s.AllInodes > 0 && s.Inodes < lowInodes:
			x.add(Finding{Looked: f.path, Verdict: Warn, Runbook: "disk-full", Detail: fmt.Sprintf("%d inodes are left", s.Inodes), Mend: "remove small files (df -i shows where)"})
		default:
			x.ok(f.path, "%s", free)
		}
	}
	for _, f := range x.folders() {
		if err := unix.Access(f.path, unix.W_OK); err != nil && !errors.Is(err, unix.EROFS) && !x.Root() {
			x.bad(Fail, f.path, "you may not write to the "+f.name+" folder", "run bxctl as the user that set Boxmaker up, or give the folder to yourself: sudo chown -R "+fmt.Sprint(os.Geteuid())+" "+f.path)
		}
	}
}

// leftovers: what crashes, old versions and owners leave behind.
func leftovers(x *exam) {
	x.oldFiles()
	x.unfinished()
	torn := x.find(x.Layout.Sessions, func(name string) bool { return strings.Contains(name, ".jsonl.torn-") })
	if len(torn) > 0 {
		x.bad(Warn, some(x.unders(torn)), fmt.Sprintf("%d torn ends of session logs that crashes left, kept aside by loopd: the last words before each crash may be in them", len(torn)),
			"look into them, then remove them by hand")
	}
	if aside := x.find(x.Layout.Broker, func(name string) bool { return strings.HasSuffix(name, ".bad") }); len(aside) > 0 {
		x.add(Finding{
			Looked: some(x.unders(aside)), Verdict: Warn, Runbook: "brokerd-state",
			Detail: fmt.Sprintf("%d damaged approvals or results that brokerd set aside at its start: the calls they are of were refused, or their fate is not known", len(aside)),
			Mend:   "look into them (a disk that fails?), then remove them by hand",
		})
	}
	if len(x.findings) == 0 || x.findings[len(x.findings)-1].Check != x.check {
		x.ok(x.Layout.Home, "none")
	}
}

func (x *exam) oldFiles() {
	old := x.find(x.Layout.Config, func(name string) bool { return strings.Contains(name, ".toml.old-") })
	if len(old) > 3 {
		x.bad(Warn, some(x.unders(old)), fmt.Sprintf("%d old configuration files of bxctl init --force", len(old)), "copy what you still need into the new ones, then remove them")
	}
	var size int64
	logs := x.find(x.Layout.Log, func(string) bool { return true })
	for _, path := range logs {
		if st, err := os.Lstat(path); err == nil {
			size += st.Size()
		}
	}
	if size > 200<<20 {
		x.bad(Warn, x.Layout.Log, fmt.Sprintf("the daemons' messages take %s", term.Bytes(size)), "see why a daemon says so much, then remove the *.log.1 files")
	}
}

// unfinished files were never part of anything: a crash came before their rename.
func (x *exam) unfinished() {
	down := x.quiet()
	temp := func(name string) bool {
		return strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") && strings.Count(name, ".") >= 3 || name == "up.json.new"
	}
	for _, f := range []struct {
		what  string
		paths []string
	}{
		{"files whose writing a crash cut short", slices.Concat(x.find(x.Layout.Config, temp), x.find(x.Layout.Run, temp), x.find(x.Layout.Sessions, temp), x.find(x.Layout.Broker, temp), x.find(x.Layout.Secrets, temp), x.find(x.Layout.Keys, temp))},
		{"sessions or epochs whose making a crash cut short", x.find(x.Layout.Sessions, func(name string) bool { return strings.HasPrefix(name, ".new-") })},
	} {
		paths := slices.DeleteFunc(f.paths, func(p string) bool { return !aged(p, x.Now()) && !down })
		if len(paths) == 0 {
			continue
		}
		out := Finding{Looked: some(x.unders(paths)), Verdict: Warn, Detail: fmt.Sprintf("%d %s; nothing reads them", len(paths), f.what), Mend: "stop Boxmaker (bxctl down), then: bxctl doctor --fix"}
		if down {
			out.Mend, out.Fix = "bxctl doctor --fix removes them", "remove "+some(x.unders(paths))
			out.mend = func() error {
				var errs []error
				for _, p := range paths {
					errs = append(errs, x.remove(p))
				}
				return errors.Join(errs...)
			}
		}
		x.add(out)
	}
}

// aged tells a remain from a file that is just being written.
func aged(path string, now time.Time) bool {
	st, err := os.Lstat(path)
	return err == nil && now.Sub(st.ModTime()) > time.Minute
}

// remove takes away a path below one of our folders, without following a link
// out of it.
func (x *exam) remove(path string) error {
	for _, f := range x.folders() {
		rel, err := filepath.Rel(f.path, path)
		if err != nil || !filepath.IsLocal(rel) || rel == "." {
			continue
		}
		root, err := os.OpenRoot(f.path)
		if err != nil {
			return err
		}
		return errors.Join(root.RemoveAll(rel), root.Close())
	}
	return fmt.Errorf("%s is in none of our folders", path)
}

// find lists what is below dir and has a name that fits; links are not followed.
func (x *exam) find(dir string, fits func(name string) bool) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir // told by the check of rights
		case err != nil || path == dir:
			return nil //nolint:nilerr // the same
		case fits(d.Name()):
			out = append(out, path)
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	return out
}

func (x *exam) unders(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, x.under(p))
	}
	return out
}
