package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/audit"
	"boxmaker/brokerd/internal/calls"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/brokerd/internal/taint"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/tool"
)

// A world is the disk and the machine around a driver: they outlive it.
type world struct {
	t      testing.TB
	dir    string
	runner *fakeRunner
	doors  *fakeDoors
	vault  *fakeVault
	born   time.Time
	limits Limits

	mu    sync.Mutex
	fault func(step string) error // guarded by mu

	d      *Driver
	desk   *approval.Desk
	log    *audit.Log
	taint  *taint.Store
	stop   context.CancelFunc
	ended  chan error
	closed bool
}

// fatal is what a test that is no *testing.T (rapid) can give too.
func newWorld(t testing.TB, dir string) *world {
	w := &world{
		t: t, dir: dir, runner: newFakeRunner(), doors: &fakeDoors{}, vault: &fakeVault{values: map[string]string{"token": "hunter2-hunter2"}}, born: time.Now(),
		limits: Limits{Running: 4, Live: 16, Session: 8, Expires: 15 * time.Minute, Egress: 1 << 20},
	}
	for _, f := range []string{"audit", "state", "grants"} {
		if err := os.MkdirAll(filepath.Join(dir, f), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// step is the driver's hook.
func (w *world) step(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		return nil
	}
	return w.fault(name)
}

func (w *world) setFault(f func(step string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *world) grant(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "grants", name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

const (
	grantRead  = "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"/data\"]\n"
	grantWrite = "tool = \"write_file\"\nmode = \"ask\"\nreason = \"notes\"\nuntrusted = false\n[paths]\nwrite = [\"/data\"]\n"
)

func (w *world) root(name string) *os.Root {
	w.t.Helper()
	r, err := os.OpenRoot(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// open is the start of a brokerd. An error of it is one that would keep brokerd
// from starting.
func (w *world) open() error {
	w.t.Helper()
	state := w.root("state")
	results, bad, err := calls.OpenResults(state)
	if err != nil || len(bad) > 0 {
		return fmt.Errorf("%v %w", bad, err)
	}
	book, history := calls.NewBook(), policy.NewHistory()
	newest := time.Time{}
	w.log, err = audit.Open(audit.Config{Root: w.root("audit"), Version: "test", Now: time.Now, Visit: func(h proto.AuditHeader, r proto.AuditRecord) error {
		newest = h.Time
		return errors.Join(book.Fold(r), history.Seen(h, r))
	}})
	if err != nil {
		return err
	}
	if w.taint, err = taint.Open(state); err != nil {
		return err
	}
	clock := approval.Clock{Now: time.Now, Boot: func() (string, time.Duration) { return "boot", time.Since(w.born) }}
	w.desk, bad, err = approval.Open(approval.Config{Root: state, Clock: clock, Floor: newest, Ended: book.Approvals(), Most: 4})
	if err != nil || len(bad) > 0 {
		return fmt.Errorf("%v %w", bad, err)
	}
	engine := policy.New(policy.Config{Audit: w.log, Grants: grant.Open(filepath.Join(w.dir, "grants")), Taint: w.taint, History: history, Now: time.Now})
	cfg := Config{
		Audit: w.log, Rules: engine, Taint: w.taint, Runner: w.runner, Doors: w.doors, Secrets: w.vault, Results: results, Desk: w.desk,
		Book: book, Limits: w.limits, Now: time.Now, Log: slog.New(slog.DiscardHandler), Fault: w.step,
	}
	w.d = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.ended = cancel, make(chan error, 1)
	if err := w.d.Restore(); err != nil {
		w.d.fail(err)
	}
	d := w.d
	go func() { w.ended <- d.Run(ctx) }()
	w.closed = false
	return nil
}

func (w *world) start() {
	w.t.Helper()
	if err := w.open(); err != nil {
		w.t.Fatal(err)
	}
}

// end ends brokerd as SIGTERM does, and gives what Run gave.
func (w *world) end() error {
	w.stop()
	err := <-w.ended
	w.ended <- err
	if !w.closed {
		w.closed = true
		w.log.Close()
	}
	return err
}

func (w *world) records() []proto.AuditRecord {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "audit", "*.jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(files)
	var all []proto.AuditRecord
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			at := strings.LastIndex(line, `,"crc":`)
			_, r, err := proto.DecodeAudit([]byte(line[:at] + "}"))
			if err != nil {
				w.t.Fatal(err)
			}
			all = append(all, r)
		}
	}
	return all
}

// story tells the records of calls in short.
func (w *world) story() string {
	var s []string
	for _, r := range w.records() {
		switch r := r.(type) {
		case *proto.AuditDecision:
			s = append(s, strings.TrimSpace("decision "+string(r.Verdict)+" "+string(r.Code)))
		case *proto.AuditApproval:
			s = append(s, strings.TrimSpace("approval "+string(r.Verdict)+" "+string(r.Code)))
		case *proto.AuditOutcome:
			s = append(s, strings.TrimSpace("outcome "+string(r.Outcome)+" "+string(r.Code)))
		case *proto.AuditHalt:
			s = append(s, fmt.Sprintf("halt %v", r.Halted))
		}
	}
	return strings.Join(s, ", ")
}

func read(id, path string) *proto.Call {
	c, _ := proto.ParseCallID(id)
	return &proto.Call{ID: id, Session: c.Session, Tool: "read_file", Args: `{"path":"` + path + `"}`}
}

func write(id, text string) *proto.Call {
	c, _ := proto.ParseCallID(id)
	return &proto.Call{ID: id, Session: c.Session, Tool: "write_file", Args: `{"path":"/data/x","content":"` + text + `"}`}
}

// A fakeRunner stands for runnerd. It counts what was started, also across
// restarts of brokerd.
type fakeRunner struct {
	mu   sync.Mutex
	runs map[string]int // by call; previews are not counted
	last policy.Spec
	door string
	got  []proto.LaunchSecret
	// on says how a container ends.
	on func(ctx context.Context, s policy.Spec) (Ran, error)
}

func newFakeRunner() *fakeRunner {
	return &fakeRunner{runs: map[string]int{}, on: func(context.Context, policy.Spec) (Ran, error) { return said("done"), nil }}
}

func said(text string) Ran {
	return Ran{Output: tool.Output{Text: text}, Ended: proto.Ended{Reason: proto.EndExit}}
}

func (r *fakeRunner) Run(ctx context.Context, d policy.Decision, door string, secrets []proto.LaunchSecret) (Ran, error) {
	s, err := d.Spend()
	if err != nil {
		return Ran{}, err
	}
	r.mu.Lock()
	if s.Preview {
		r.mu.Unlock()
		return Ran{Output: tool.Output{Diff: "--- a\n+++ b\n", Seen: tool.Absent}, Ended: proto.Ended{Reason: proto.EndExit}}, nil
	}
	r.runs[s.Call]++
	r.last, r.door, r.got = s, door, secrets
	on := r.on
	r.mu.Unlock()
	return on(ctx, s)
}

func (r *fakeRunner) set(on func(ctx context.Context, s policy.Spec) (Ran, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = on
}

func (r *fakeRunner) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}

// untilKilled runs until it is interrupted. It tells when it runs.
func untilKilled(running chan<- string) func(ctx context.Context, s policy.Spec) (Ran, error) {
	return func(ctx context.Context, s policy.Spec) (Ran, error) {
		running <- s.Call
		<-ctx.Done()
		return Ran{Ended: proto.Ended{Reason: proto.EndKilled}}, nil
	}
}

type fakeDoors struct {
	err    error
	opened []WayOut
	closed int
	host   string // that was asked for
	report []proto.EgressConn
	more   int64
	lost   error
}

func (f *fakeDoors) Open(_ context.Context, w WayOut) (string, func() (proto.EgressReport, error), error) {
	if f.err != nil {
		return "", nil, f.err
	}
	f.opened = append(f.opened, w)
	return "egressd/doors/x.sock", func() (proto.EgressReport, error) {
		f.closed++
		if f.report != nil || f.lost != nil {
			return proto.EgressReport{Connections: f.report, More: f.more}, f.lost
		}
		return proto.EgressReport{Connections: []proto.EgressConn{{Host: cmp.Or(f.host, "api.example.com:443"), Verdict: proto.EgressPassed, Sent: 9}}}, nil
	}, nil
}

type fakeVault struct {
	values map[string]string
	err    error
}

func (v *fakeVault) Get(name string) (secret.Text, error) {
	s, ok := v.values[name]
	if v.err != nil {
		return secret.Text{}, v.err
	}
	if !ok {
		return secret.Text{}, secret.ErrUnknown
	}
	return secret.NewText(s), nil
}

func (v *fakeVault) Clean(text string) string {
	for name, s := range v.values {
		text = strings.ReplaceAll(text, s, "[secret "+name+"]")
	}
	return text
}
