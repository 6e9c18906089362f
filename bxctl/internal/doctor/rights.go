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
)

// A fault of one file or folder.
type flaw struct {
	path string // below the folder
	mode fs.FileMode
	want fs.FileMode // mode bits that it may have at most
}

// tree says what the files of one folder should be like.
type tree struct {
	folder
	owners []uint32                                // any of these; the first is what --fix sets
	most   func(rel string, d fs.DirEntry) (m int) // mode bits that are allowed at most
	fixed  bool                                    // owner and modes are for --fix to mend
}

func private(_ string, d fs.DirEntry) int {
	if d.IsDir() {
		return 0o700
	}
	return 0o600
}

// rights: owner and mode of every file and folder.
func rights(x *exam) {
	me := uint32(os.Geteuid())
	sessions := []uint32{me}
	if x.Root() {
		sessions = []uint32{x.uidOf("loopd"), 0} // up gives them to loopd's uid at each start
		if x.running().pid != 0 {
			sessions = sessions[:1]
		}
	}
	l := x.Layout
	broker := []uint32{x.uidOf("brokerd")}
	if x.Root() && x.running().pid == 0 {
		broker = append(broker, 0) // up gives it to brokerd at its start
	}
	gate := []uint32{x.uidOf("gatewayd")}
	if x.Root() && x.running().pid == 0 {
		gate = append(gate, 0)
	}
	trees := []tree{
		{folder{"home", l.Home, true}, []uint32{me}, x.homeModes, true}, // itself, and files in it
		{folder{"config", l.Config, true}, []uint32{me}, private, true},
		{folder{"grants", l.Grants, true}, []uint32{me}, x.grantModes, true},
		{folder{"audit", l.Audit, true}, broker, private, true},
		{folder{"broker", l.Broker, true}, broker, brokerModes, true},
		{folder{"secrets", l.Secrets, true}, broker, private, true},
		{folder{"keys", l.Keys, true}, broker, private, true},
		{folder{"gateway", l.Gateway(), true}, gate, private, true},
		{folder{"anchors", l.Anchors, true}, []uint32{me}, private, true},
		{folder{"prompts", filepath.Join(l.Home, "prompts"), true}, []uint32{me}, private, true},
		{folder{"measure", filepath.Join(l.Home, "measure"), true}, []uint32{me}, private, true},
		{folder{"sessions", l.Sessions, true}, sessions, private, true},
		{folder{"log", l.Log, false}, []uint32{me}, private, true},
		{folder{"run", l.Run, false}, x.runOwners(me), x.runModes, false},
	}
	for _, t := range trees {
		if _, err := os.Lstat(t.path); err == nil {
			x.tree(t)
		}
	}
}

// runOwners: as root, sockets and their folders belong to their clients.
func (x *exam) runOwners(me uint32) []uint32 {
	out := []uint32{me}
	if x.Root() {
		for _, role := range []string{"inferproxy", "loopd", "practice", "llama", "brokerd", "runnerd", "egressd", "gatewayd"} {
			out = append(out, x.uidOf(role))
		}
	}
	return out
}

// runModes: as root, folders on the way to a socket can be passed through, and the
// one in which llama-server makes its own socket is open to inferproxy's group. So
// is that socket.
func (x *exam) runModes(rel string, d fs.DirEntry) int {
	switch {
	case d.IsDir() && x.Root():
		return 0o711
	case d.Type()&fs.ModeSocket != 0 && strings.HasPrefix(rel, "llama/"):
		return 0o770
	case d.Type()&fs.ModeSocket != 0 && x.Root(): // an access list shows as rights of the group
		return 0o660
	default:
		return private(rel, d)
	}
}

// homeModes: as root, tools pass through the home to the workspace.
func (x *exam) homeModes(rel string, d fs.DirEntry) int {
	if d.IsDir() && x.Root() {
		return 0o711
	}
	return private(rel, d)
}

// brokerModes: the public key of the audit log is for others to read.
func brokerModes(rel string, d fs.DirEntry) int {
	if rel == "audit.pub" {
		return 0o644
	}
	return private(rel, d)
}

// grantModes: as root, brokerd reads the grants as their group.
func (x *exam) grantModes(rel string, d fs.DirEntry) int {
	switch {
	case !x.Root():
		return private(rel, d)
	case d.IsDir():
		return 0o750
	default:
		return 0o640
	}
}

// tree walks one folder and reports each kind of flaw once.
func (x *exam) tree(t tree) {
	var open, writable, foreign, links, unreadable []flaw
	files := 0
	shallow := t.path == x.Layout.Home
	err := filepath.WalkDir(t.path, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(t.path, path)
		if d != nil && d.IsDir() && path != t.path && (shallow || path == x.Layout.Grants || path == x.Layout.Keys || x.inner(path)) {
			return fs.SkipDir // they have rows of their own, or change with every call
		}
		if err != nil {
			unreadable = append(unreadable, flaw{path: rel})
			return nil //nolint:nilerr // reported below
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		if d.Type()&fs.ModeSymlink != 0 {
			if path != t.path {
				links = append(links, flaw{path: rel})
			}
			return nil
		}
		files++
		f := flaw{rel, info.Mode(), info.Mode().Perm() & fs.FileMode(t.most(rel, d))}
		if f.mode.Perm() != f.want {
			if f.mode.Perm()&0o022 != 0 && f.want&0o022 == 0 {
				writable = append(writable, f)
			} else {
				open = append(open, f)
			}
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && !slices.Contains(t.owners, sys.Uid) {
			foreign = append(foreign, f)
		}
		return nil
	})
	if err != nil {
		x.bad(Fail, t.path, err.Error(), "run bxctl as the user that set Boxmaker up")
		return
	}
	before := len(x.findings)
	x.modes(t, writable, "may be changed by other users of this machine")
	x.modes(t, open, "may be read or entered by other users of this machine")
	x.owners(t, foreign)
	if len(links) > 0 && t.name != "config" && t.name != "home" && t.name != "prompts" {
		x.bad(Fail, t.path, "symbolic links that we did not make: "+some(names(links)), "look where they lead, then remove them")
	}
	if len(unreadable) > 0 {
		x.bad(Fail, t.path, "can't be read: "+some(names(unreadable)), "run bxctl as the user that set Boxmaker up, or give the files back to that user")
	}
	if len(x.findings) == before {
		x.ok(t.path, "%d files and folders, private", files)
	}
}

func names(flaws []flaw) []string {
	var out []string
	for _, f := range flaws {
		out = append(out, f.path)
	}
	return out
}

func (x *exam) modes(t tree, flaws []flaw, what string) {
	if len(flaws) == 0 {
		return
	}
	var list []string
	for _, f := range flaws {
		list = append(list, fmt.Sprintf("%s (%04o)", f.path, f.mode.Perm()))
	}
	how := "chmod -R go= " + t.path
	if len(flaws) == 1 {
		how = "chmod go= " + filepath.Join(t.path, flaws[0].path)
	}
	x.add(Finding{
		Looked: t.path, Verdict: Fail, Detail: "in the " + t.name + " folder, " + some(list) + " " + what,
		Mend: how + ", or: bxctl doctor --fix", Fix: fmt.Sprintf("take the rights of others off %d files and folders in %s", len(flaws), t.path),
		mend: func() error {
			return below(t.path, func(root *os.Root) error {
				var errs []error
				for _, f := range flaws {
					errs = append(errs, root.Chmod(f.path, f.want))
				}
				return errors.Join(errs...)
			})
		},
	})
}

func (x *exam) owners(t tree, flaws []flaw) {
	if len(flaws) == 0 {
		return
	}
	want := t.owners[0]
	f := Finding{
		Looked: t.path, Verdict: Fail, Detail: fmt.Sprintf("in the %s folder, %s belong to another user than uid %d", t.name, some(names(flaws)), want),
		Mend: fmt.Sprintf("sudo chown -R %d %s", want, t.path),
	}
	if t.name == "home" {
		f.Mend = fmt.Sprintf("sudo chown %d %s", want, t.path)
	}
	if t.name == "run" {
		f.Mend = "bxctl down; bxctl up --detach makes them anew"
	}
	if x.Root() && t.fixed {
		f.Mend += ", or: bxctl doctor --fix"
		f.Fix = fmt.Sprintf("give %d files and folders in %s to uid %d", len(flaws), t.path, want)
		f.mend = func() error {
			return below(t.path, func(root *os.Root) error {
				var errs []error
				for _, f := range flaws {
					if info, err := root.Lstat(f.path); err == nil && giveable(info) {
						errs = append(errs, root.Lchown(f.path, int(want), int(want)))
					}
				}
				return errors.Join(errs...)
			})
		}
	}
	x.add(f)
}

// giveable: a second hard link could be a file of somebody else.
func giveable(info fs.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && (info.IsDir() || info.Mode().IsRegular() && sys.Nlink == 1)
}

// below runs f with the folder opened, so that no link leads out of it.
func below(dir string, f func(*os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}

// programNames lists what lies beside bxctl; toolkit and toolfetch are those inside containers.
func (x *exam) programNames() []string {
	names := []string{"bxctl", "loopd", "inferproxy", "practice"}
	if x.tools() {
		names = append(names, "brokerd", "runnerd", "egressd", "toolkit", "toolfetch")
	}
	if x.chat() {
		names = append(names, "gatewayd")
	}
	return names
}

// programs: the programs lie beside each other, whole, and nobody else can
// change them.
func programs(x *exam) {
	dir := filepath.Dir(x.Self)
	builds := map[string]Build{}
	before := len(x.findings)
	for _, name := range x.programNames() {
		path := filepath.Join(dir, name)
		if name == "bxctl" {
			path = x.Self
		}
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			x.add(Finding{Looked: path, Verdict: Fail, Runbook: "program-missing", Detail: "the program " + name + " is not there, or not executable", Mend: "build it: make build"})
			continue
		}
		if st.Mode().Perm()&0o022 != 0 {
			x.bad(Fail, path, fmt.Sprintf("other users of this machine may change this program (%04o)", st.Mode().Perm()), "chmod go-w "+path)
		}
		b, err := x.Build(path)
		switch {
		case err != nil:
			x.bad(Warn, path, "it does not say what it was built from: "+err.Error(), "build it anew: make build")
			continue
		case b.Path != "boxmaker/"+name:
			x.bad(Fail, path, fmt.Sprintf("under this name is another program: %.80q", b.Path), "build it anew: make build")
			continue
		}
		builds[name] = b
	}
	if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&0o022 != 0 && st.Mode()&fs.ModeSticky == 0 {
		x.bad(Fail, dir, fmt.Sprintf("other users of this machine may put other programs into this folder (%04o)", st.Mode().Perm()), "chmod go-w "+dir)
	}
	var other []string
	for name, b := range builds {
		if me, ok := builds["bxctl"]; ok && b.Revision != me.Revision {
			other = append(other, fmt.Sprintf("%s is %.12s", name, first(b.Revision, "unknown")))
		}
	}
	if len(other) > 0 {
		slices.Sort(other)
		x.add(Finding{
			Looked: dir, Verdict: Fail, Runbook: "version-mismatch", Detail: fmt.Sprintf("the programs are of different sources: bxctl is %.12s, %s", first(builds["bxctl"].Revision, "unknown"), strings.Join(other, ", ")),
			Mend: "make build, then: bxctl down; bxctl up --detach",
		})
	}
	if len(x.findings) == before {
		x.ok(dir, "%s, of one source", strings.Join(x.programNames(), ", "))
	}
}
