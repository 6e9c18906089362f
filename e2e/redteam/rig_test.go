package redteam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

func TestMain(m *testing.M) { os.Exit(stack.Main(m)) }

// What must never come out: the value of a secret that no grant names, and the
// content of files that lie outside of every grant.
const (
	canarySecret = "canary-9f3b61d07ae2-secret"
	canaryFile   = "canary-51c8e0d4b7a9-file"
)

// A family is one row of docs/threat-model.md.
type family struct {
	name  string                     // as the row says
	stage func(r *rig)               // before the start: grants and files
	tries func(r *rig) []attempt     // after it
	apart func(t *testing.T) (n int) // instead of both, for a family that needs a stage of its own
}

// An attempt is one call, or what run does.
type attempt struct {
	name string
	tool string
	args any // JSON text if a string, else encoded
	// want are the codes that are right; "" stands for ok. Nothing given means
	// any code, as long as nothing leaks.
	want  []proto.Code
	check func(r *rig, res *proto.CallResult) // more to look at, after each call
	run   func(r *rig)
}

// A rig is one installation under attack.
type rig struct {
	*stack.Stack
	t       *testing.T
	granted string // folder that grants may name
	outside string // folder that none does, with the canaries in it
	session string
	n       *atomic.Int64
	grants  int // that were written
	before  map[string]string
}

// begin makes the installation of a family. The stage may write grants.
func begin(t *testing.T, stage func(r *rig)) *rig {
	t.Helper()
	stack.Containers(t)
	r := &rig{Stack: stack.New(t), t: t, session: "red-1", n: new(atomic.Int64)}
	r.Must("", "init")
	r.OnlyGrants()
	r.granted = r.folder("granted")
	r.outside = r.folder("outside")
	r.file(filepath.Join(r.outside, "canary.txt"), canaryFile+"\n")
	r.file(filepath.Join(r.outside, "deep", "canary.txt"), canaryFile+"\n")
	r.file(filepath.Join(r.granted, "note.txt"), "an ordinary note\n")
	r.Must(canarySecret+"\n", "secret", "set", "canary")
	if stage != nil {
		stage(r)
	}
	r.Up()
	r.control()
	r.before = r.snapshot()
	return r
}

// grant writes a grant file that must be understood.
func (r *rig) grant(name, text string) {
	r.t.Helper()
	r.Grant(name+".toml", text)
	r.grants++
}

// control: the grants of the family hold, or its attempts would prove nothing.
func (r *rig) control() {
	r.t.Helper()
	st, err := r.Broker()
	if err != nil {
		r.t.Fatal(err)
	}
	if st.Grants != r.grants || len(st.Broken) > 0 {
		r.t.Fatalf("%d grants hold of %d; broken: %q", st.Grants, r.grants, st.Broken)
	}
}

// folder makes a folder in a place that tools could reach if they were let.
func (r *rig) folder(name string) string {
	r.t.Helper()
	dir := filepath.Join(r.Home, "red", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for d := dir; d != filepath.Dir(r.Home); d = filepath.Dir(d) {
		if d == r.Home {
			break
		}
		r.own(d, 0o777)
	}
	return dir
}

// own opens a path for everybody: what holds an attacker back must be the
// walls, not the modes of the files.
func (r *rig) own(path string, mode os.FileMode) {
	r.t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		r.t.Fatal(err)
	}
}

// file writes a file that every uid may read and write.
func (r *rig) file(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.own(filepath.Dir(path), 0o777)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		r.t.Fatal(err)
	}
	r.own(path, 0o666)
}

// snapshot is all that stands outside: names, modes, sizes, contents.
func (r *rig) snapshot() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(r.outside, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		what := info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += " " + info.ModTime().String() + " " + string(b)
		}
		out[path] = what
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// settled is what must hold after a family, whatever happened in it: nothing
// outside has changed, no canary is in any file of Boxmaker, no container is
// left, the audit log verifies.
func (r *rig) settled() {
	r.t.Helper()
	r.untouched()
	r.noCanary()
	r.noContainer()
	if res := r.Bxctl("", "audit", "verify"); res.Code != 0 {
		r.t.Errorf("audit verify: %s%s", res.Stdout, res.Stderr)
	}
}

// untouched compares what stands outside with what stood there.
func (r *rig) untouched() {
	r.t.Helper()
	now := r.snapshot()
	for path, was := range r.before {
		if now[path] != was {
			r.t.Errorf("outside every grant: %s was %q and is %q", path, was, now[path])
		}
	}
	for path := range now {
		if _, ok := r.before[path]; !ok {
			r.t.Errorf("outside every grant: %s has come up", path)
		}
	}
}

// noCanary searches all that Boxmaker wrote. What an attacker says is on record,
// so no attempt may have a canary in its own arguments.
func (r *rig) noCanary() {
	r.t.Helper()
	err := filepath.WalkDir(r.Home, func(path string, d os.DirEntry, err error) error {
		if path == filepath.Join(r.Home, "red") {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			if errors.Is(err, os.ErrNotExist) { // a container's folder that has just gone
				return nil
			}
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, c := range []string{canarySecret, canaryFile} {
			if strings.Contains(string(b), c) {
				r.t.Errorf("a canary is in %s", path)
			}
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

// noContainer waits until runnerd has cleared its folder of bundles.
func (r *rig) noContainer() {
	r.t.Helper()
	r.WaitUntil("no container is left", func() bool {
		left, err := filepath.Glob(filepath.Join(r.Layout.Run, "runnerd", "bundles", "*", "config.json"))
		return err == nil && len(left) == 0
	})
}

// id is a fresh call id of the rig's session.
func (r *rig) id() string { return fmt.Sprintf("%s/1/%d/0", r.session, r.n.Add(1)) }

// encode gives the arguments as JSON text.
func encode(args any) string {
	if s, ok := args.(string); ok {
		return s
	}
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// obj is an object of arguments.
type obj = map[string]any

// call makes one call as loopd does, and gives the result.
func (r *rig) call(tool string, args any) *proto.CallResult {
	r.t.Helper()
	return r.send(&proto.Call{ID: r.id(), Session: r.session, Tool: tool, Args: encode(args)})
}

// send sends one call as it is. An error of brokerd ends the test; use
// [rig.broker] for what it may refuse.
func (r *rig) send(c *proto.Call) *proto.CallResult {
	r.t.Helper()
	m, err := r.broker(c, nil)
	if err != nil {
		r.t.Fatalf("%s %s: %v", c.Tool, c.Args, err)
	}
	res, ok := m.(*proto.CallResult)
	if !ok {
		r.t.Fatalf("%s %s: the answer is %s: %+v", c.Tool, c.Args, m.Tag(), m)
	}
	r.clean(res.Text)
	return res
}

// clean refuses a text with a canary in it.
func (r *rig) clean(text string) {
	r.t.Helper()
	for _, c := range []string{canarySecret, canaryFile} {
		if strings.Contains(text, c) {
			r.t.Errorf("a canary came out: %.200q", text)
		}
	}
}

// broker sends one message on broker.sock with loopd's uid and gives the last
// answer. asked, if set, gets each [proto.Asked] on the way.
func (r *rig) broker(m proto.Message, asked func(*proto.Asked)) (proto.Message, error) {
	r.t.Helper()
	b, err := proto.Encode(m)
	if err != nil {
		return nil, err
	}
	return r.raw(b, asked)
}

// raw sends one frame of any bytes on broker.sock.
func (r *rig) raw(body []byte, asked func(*proto.Asked)) (proto.Message, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), stack.Patience)
	defer cancel()
	return stack.Send(ctx, r.dial(r.Layout.Socket("brokerd", "loopd", "broker"), r.uid("loopd")), body, asked)
}

// uid is what a role runs as: one of its own if the test is root.
func (r *rig) uid(role string) int { return stack.RoleUID(role) }

// dial connects with the uid of another role. Of the keys that lie beside the
// sockets where all roles are one user, loopd has that of broker.sock only.
func (r *rig) dial(path string, uid int) net.Conn {
	r.t.Helper()
	open := func() (net.Conn, error) { return stack.DialAs(path, uid) }
	if path == r.Layout.Socket("brokerd", "loopd", "broker") && uid == stack.RoleUID("loopd") {
		open = r.DialBroker
	}
	conn, err := open()
	if err != nil {
		r.t.Fatalf("dialling %s: %v", path, err)
	}
	return conn
}

// decision is the record of what was decided on a call.
func (r *rig) decision(id string) (*proto.AuditDecision, error) {
	for _, d := range stack.AuditOf[*proto.AuditDecision](r.Audit()) {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, errors.New("no decision on record")
}

// try makes one attempt and looks at its result and at the audit log.
func (r *rig) try(a attempt) {
	r.t.Helper()
	if a.run != nil {
		a.run(r)
		return
	}
	res := r.call(a.tool, a.args)
	r.judge(a, res)
	if a.check != nil {
		a.check(r, res)
	}
}

func (r *rig) judge(a attempt, res *proto.CallResult) {
	r.t.Helper()
	if len(a.want) > 0 && !slices.Contains(a.want, res.Code) {
		r.t.Errorf("code %q, want one of %q; the model reads: %.300s", res.Code, a.want, res.Text)
	}
	d, err := r.decision(res.ID)
	if err != nil {
		r.t.Errorf("%s: %v", res.ID, err)
		return
	}
	if d.Tool != a.tool || d.Session != r.session {
		r.t.Errorf("the record is of %s in %s", d.Tool, d.Session)
	}
	if res.Outcome == proto.CallDenied && (d.Verdict != proto.VerdictDeny || d.Code != res.Code) {
		r.t.Errorf("denied with %s, and on record is %s %s", res.Code, d.Verdict, d.Code)
	}
	if res.Outcome != proto.CallDenied && d.Verdict == proto.VerdictDeny && d.Code != res.Code {
		r.t.Errorf("the record denies with %s, and the result is %s %s", d.Code, res.Outcome, res.Code)
	}
}

// context is one that ends with the test.
func (r *rig) context() context.Context { return r.t.Context() }
