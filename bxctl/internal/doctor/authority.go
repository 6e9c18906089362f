package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/reach"
	"boxmaker/bxctl/internal/report"
	owners "boxmaker/bxctl/internal/rights"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/config"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"

	"golang.org/x/sys/unix"
)

// brokerState is brokerd's own word.
type brokerState struct {
	st  *proto.BrokerStatus
	err error
}

func (x *exam) broker() *brokerState {
	if x.brokerd == nil {
		ctx, cancel := context.WithTimeout(x.ctx, 3*time.Second)
		defer cancel()
		s := &brokerState{}
		s.st, s.err = owner.At(x.Layout).Status(ctx)
		x.brokerd = s
	}
	return x.brokerd
}

// tools reports whether the roles that run tools are meant to run.
func (x *exam) tools() bool { return x.config().settings.Tools.Enabled }

// setUp reports whether there is a home to look into; the check of the home tells.
func (x *exam) setUp() bool {
	_, err := os.Stat(x.Layout.Config)
	return !errors.Is(err, fs.ErrNotExist)
}

// grantSet reads the grants once.
func (x *exam) grantSet() (grant.Set, error) {
	if x.granted == nil {
		s, err := grant.Open(x.Layout.Grants, grant.Own(x.Layout)...).Read()
		x.granted = &grantState{s, err}
	}
	return x.granted.set, x.granted.err
}

type grantState struct {
	set grant.Set
	err error
}

// grants: each file says what its owner meant.
func grants(x *exam) {
	set, err := x.grantSet()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.skip(x.Layout.Grants, "there is no such folder, so that every tool is denied; bxctl init makes it, with examples")
		return
	case err != nil:
		text, key := split(err)
		x.add(Finding{Looked: x.Layout.Grants, Verdict: Fail, Detail: term.Line(text), Mend: "bxctl grants check says more", Runbook: key})
		return
	}
	may := func(path string) error { return x.mayUse(path, x.uidOf("brokerd"), unix.R_OK) }
	problems := append(set.Problems(x.Now()), owners.Unread(x.Layout.Grants, x.uidOf("brokerd"), may)...)
	for _, p := range problems {
		v, at := Fail, filepath.Join(x.Layout.Grants, p.File)
		if p.Warning {
			v = Warn
		}
		if p.Line > 0 {
			at += fmt.Sprintf(":%d", p.Line)
		}
		x.add(Finding{Looked: at, Verdict: v, Detail: term.Line(p.What), Mend: term.Line(p.Do), Runbook: p.Runbook})
	}
	if len(problems) == 0 {
		x.ok(x.Layout.Grants, "%d grants, each of them understood", len(set.Grants))
	}
}

// granted: what is granted is there, and within reach of those who run tools.
func granted(x *exam) {
	set, err := x.grantSet()
	if err != nil || len(set.Grants) == 0 {
		x.skip(x.Layout.Grants, "nothing is granted")
		return
	}
	before, seen := len(x.findings), map[string]bool{}
	for _, g := range set.Grants {
		if g.Mode == grant.Deny || g.Expired(x.Now()) {
			continue
		}
		for _, path := range g.Paths.Write {
			x.grantedPath(g.ID, path, unix.R_OK|unix.W_OK, seen)
		}
		for _, path := range g.Paths.Read {
			x.grantedPath(g.ID, path, unix.R_OK, seen)
		}
		if root := g.Userland.Root; root != "" {
			x.grantedPath(g.ID, root, unix.R_OK, seen)
		}
	}
	if len(x.findings) == before {
		x.ok(x.Layout.Grants, "%d granted files and folders, within reach of tools", len(seen))
	}
}

func (x *exam) grantedPath(id, path string, mode uint32, seen map[string]bool) {
	if seen[path] {
		return
	}
	seen[path] = true
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		x.bad(Warn, path, "it is granted by "+id+", and is not there: such a call is refused", "make it, or remove it from the grant")
		return
	}
	if st != nil && st.IsDir() {
		mode |= unix.X_OK
	}
	uid := x.uidOf("runnerd")
	if err := x.mayUse(path, uid, mode); err != nil {
		mend := fmt.Sprintf("setfacl -R -m u:%d:rwX %s (and x on the folders above)", uid, path)
		if !x.Root() {
			mend = "give it to yourself, or remove it from the grant"
		}
		x.bad(Warn, path, fmt.Sprintf("it is granted by %s, and tools, which run as uid %d, may not use it so: %v", id, uid, err), mend)
	}
}

// mayUse asks the kernel for a uid, which is this program's own unless it is root.
func (x *exam) mayUse(path string, uid, mode uint32) error {
	if x.Root() {
		return reach.MayUse(path, uid, mode)
	}
	return unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
}

// workspace: the folder that the example grants are about, and the way there.
func workspace(x *exam) {
	if !x.setUp() {
		x.skip(x.Layout.Workspace, "Boxmaker is not set up here")
		return
	}
	if x.Root() && x.tools() {
		if err := x.mayUse(x.Layout.Home, x.uidOf("runnerd"), unix.X_OK); err != nil {
			x.add(Finding{
				Looked: x.Layout.Home, Verdict: Fail, Runbook: "home-out-of-reach",
				Detail: fmt.Sprintf("tools, which run as uid %d, can't pass through the home or a folder above it: %v", x.uidOf("runnerd"), err),
				Mend:   "chmod o+x each of them, or use a home in an open place, such as /var/lib/boxmaker",
			})
			return
		}
	}
	st, err := os.Stat(x.Layout.Workspace)
	switch {
	case err != nil:
		x.skip(x.Layout.Workspace, "there is no workspace; grants may be about other folders")
	case !st.IsDir():
		x.bad(Fail, x.Layout.Workspace, "the workspace is no folder", "move that file away, then: bxctl init")
	default:
		x.workspaceUse()
	}
}

func (x *exam) workspaceUse() {
	uid := x.uidOf("runnerd")
	if err := x.mayUse(x.Layout.Workspace, uid, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		f := Finding{
			Looked: x.Layout.Workspace, Verdict: Fail, Detail: fmt.Sprintf("tools, which run as uid %d, may not use the workspace: %v", uid, err),
			Mend: fmt.Sprintf("sudo chown -R %d %s && chmod u+rwx %s", uid, x.Layout.Workspace, x.Layout.Workspace),
		}
		if x.Root() {
			f.Mend = "bxctl down; bxctl up --detach gives it to them; so does bxctl doctor --fix"
			f.Fix = "give the workspace to uid " + fmt.Sprint(uid)
			f.mend = func() error {
				return errors.Join(setup.Own(x.Layout, x.config().settings), os.Chmod(x.Layout.Workspace, 0o700)) //nolint:gosec // a folder
			}
		}
		x.add(f)
		return
	}
	x.ok(x.Layout.Workspace, "tools may use it")
}

// secrets: store and key are there, private, apart, and fit each other.
func secrets(x *exam) {
	store, key := filepath.Join(x.Layout.Secrets, secret.FileName), setup.KeyFile(x.Layout)
	if !x.setUp() {
		x.skip(store, "Boxmaker is not set up here")
		return
	}
	if _, err := os.Lstat(store); errors.Is(err, fs.ErrNotExist) {
		if x.tools() {
			x.add(Finding{Looked: store, Verdict: Fail, Runbook: "secret-store", Detail: "the store of secrets is not there, and brokerd does not start without it", Mend: "bxctl init makes an empty one"})
		} else {
			x.skip(store, "there is none; bxctl init makes an empty one")
		}
		return
	}
	if filepath.Dir(key) == x.Layout.Secrets {
		x.bad(Warn, key, "the key lies beside the store that it opens: who copies the folder has both", "move the key to "+x.Layout.Keys+", and name it as key under [secrets] in brokerd.toml")
	}
	if _, err := os.Lstat(key); errors.Is(err, fs.ErrNotExist) && x.running().pid == 0 && x.bySystemd() {
		x.skip(key, "the key is not there; systemd may hold it as a credential")
		return
	}
	c := secret.Config{Dir: x.Layout.Secrets, Key: secret.Key{File: key}, Owner: int(x.uidOf("brokerd"))}
	if c.Locked() { // whether the two fit, bxctl up finds out when it has asked
		x.ok(store, "the key %s is encrypted with a passphrase, for which bxctl up asks; the store was not opened", key)
		return
	}
	s, err := secret.Open(c)
	var e *config.Error
	switch {
	case errors.As(err, &e):
		x.add(Finding{Looked: store, Verdict: Fail, Detail: term.Line(e.What), Mend: term.Line(e.Do), Runbook: e.Runbook})
		return
	case err != nil:
		x.add(Finding{Looked: store, Verdict: Fail, Detail: term.Line(err.Error()), Mend: "run bxctl as the user that set Boxmaker up", Runbook: "secret-store"})
		return
	}
	names, err := s.Names()
	if err != nil {
		x.bad(Fail, store, term.Line(err.Error()), "run bxctl doctor again")
		return
	}
	x.secretNames(store, names)
}

// secretNames: what grants name is there.
func (x *exam) secretNames(store string, names []string) {
	there, before := map[string]bool{}, len(x.findings)
	for _, n := range names {
		there[n] = true
	}
	set, _ := x.grantSet() // told by the check of the grants
	for _, g := range set.Grants {
		for _, n := range g.Secrets.Names {
			if !there[n] {
				x.add(Finding{Looked: filepath.Join(x.Layout.Grants, g.ID), Verdict: Warn, Runbook: "secret-unknown", Detail: "it names the secret " + term.Line(n) + ", which is not in the store", Mend: "bxctl secret set " + term.Line(n)})
			}
		}
		for _, in := range g.Secrets.Inject {
			if !there[in.Name] {
				x.add(Finding{Looked: filepath.Join(x.Layout.Grants, g.ID), Verdict: Warn, Runbook: "secret-unknown", Detail: "it injects the secret " + term.Line(in.Name) + ", which is not in the store", Mend: "bxctl secret set " + term.Line(in.Name)})
			}
		}
	}
	if len(x.findings) == before {
		x.ok(store, "%d secrets, private, and their key elsewhere", len(names))
	}
}

// brokerd: its own word about itself, and about what tools need.
func brokerd(x *exam) {
	path := owner.At(x.Layout).Path
	if !x.tools() {
		x.skip(path, "tools are off ([tools] in bxctl.toml)")
		return
	}
	s := x.broker()
	switch {
	case s.err != nil && x.running().pid == 0 && !x.bySystemd():
		x.skip(path, "%s", x.idle())
		return
	case s.err != nil:
		text, key := split(s.err)
		x.add(Finding{Looked: path, Verdict: Fail, Detail: "brokerd does not answer: " + term.Line(text), Mend: "see the end of " + filepath.Join(x.Layout.Log, "brokerd.log"), Runbook: key})
		return
	}
	before := len(x.findings)
	if s.st.Halted {
		x.add(Finding{Looked: path, Verdict: Warn, Runbook: "halted", Detail: strings.TrimSuffix("everything is denied since the halt: "+term.Line(s.st.HaltReason), ": "), Mend: "bxctl resume, once the reason is gone"})
	}
	_, rows := report.Chat(s.st) // the others are of the check of the chat
	for _, c := range rows {
		if c.State == "failed" {
			x.add(Finding{Looked: c.Name, Verdict: Fail, Detail: term.Line(c.Detail), Mend: "see the runbook, and bxctl logs brokerd runnerd egressd", Runbook: c.Runbook})
		}
	}
	x.rows("confinement of brokerd: ", s.st.Confinement)
	if len(x.findings) == before {
		x.ok(path, "%d grants, %d approvals wait, %d calls run, %d records of audit", s.st.Grants, s.st.Pending, s.st.Running, s.st.Head.N)
	}
}
