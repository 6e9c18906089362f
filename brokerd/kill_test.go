package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/chain"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// A fakeRunner is a runnerd that counts what it was asked to run.
type fakeRunner struct {
	mu   sync.Mutex
	runs map[string]int // guarded by mu; previews are not counted
}

func (r *fakeRunner) handle(ctx context.Context, req proto.Message, s *ipc.Stream) {
	m, ok := req.(*proto.Launch)
	if !ok {
		_ = s.Send(&proto.RunnerStatus{Version: "fake", Runtime: "crun", Checks: []proto.Check{}, Confinement: []proto.Check{}})
		return
	}
	in, err := tool.DecodeInput([]byte(m.Input))
	if err != nil {
		_ = s.Send(&proto.Error{Code: proto.ErrBadRequest, Text: err.Error(), Runbook: "bad-request"})
		return
	}
	if !in.Preview {
		r.mu.Lock()
		r.runs[m.Call]++
		r.mu.Unlock()
	}
	select {
	case <-time.After(rand.N(8 * time.Millisecond)):
	case <-ctx.Done():
		return
	}
	out, err := tool.EncodeOutput(tool.Output{Text: "did " + m.Call, Diff: "+x\n"})
	if err == nil {
		_ = s.Send(&proto.Ended{Reason: proto.EndExit, Output: out})
	}
}

func (r *fakeRunner) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}

// kills is how many times brokerd is killed; BOXMAKER_KILLS says more.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("BOXMAKER_KILLS")); err == nil && n > 0 {
		return n
	}
	return 12
}

// TestKilledAtRandom kills a real brokerd again and again while calls are made,
// asked and approved. Nothing runs twice, no result that was given out differs
// from what is on record, and the log verifies.
func TestKilledAtRandom(t *testing.T) {
	m := bare(t)
	runner := &fakeRunner{runs: map[string]int{}}
	ln, err := ipc.Listen(m.at("runner.sock"))
	m.try(err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		srv := &ipc.Server{Listener: ln, Requests: proto.RunnerRequests, Handle: runner.handle}
		if err := srv.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	m.grant("10-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"DATA\"]\n")
	m.grant("20-write.toml", "tool = \"write_file\"\nmode = \"ask\"\n[paths]\nwrite = [\"DATA\"]\n")
	m.startBroker()
	owner, stopOwner := context.WithCancel(ctx)
	all.Go(func() { m.approveAll(owner) })

	clients, done := make([]*client, 3), make(chan struct{})
	clientsCtx, stopClients := context.WithCancel(ctx)
	var working sync.WaitGroup
	for i := range clients {
		clients[i] = &client{m: m, session: fmt.Sprintf("s%d", i), got: map[string]*proto.CallResult{}, done: done}
		working.Go(func() { clients[i].work(clientsCtx) })
	}
	for range kills() {
		for range rand.N(4) { // some work is done in between
			pause(ctx, 2*time.Second, done)
		}
		time.Sleep(rand.N(80 * time.Millisecond)) // at any moment
		m.try(m.brokerd.cmd.Process.Kill())
		<-m.brokerd.ended
		m.startBroker()
	}
	stopClients()
	working.Wait()
	stopOwner()
	m.judge(runner, clients)
}

// bare is a machine without runnerd.
func bare(t *testing.T) *machine {
	t.Helper()
	base := t.TempDir()
	m := &machine{t: t, bin: filepath.Join(base, "bin"), dir: filepath.Join(base, "run"), data: filepath.Join(base, "data")}
	for _, d := range []string{"grants", "audit", "state", "secrets"} {
		m.try(os.MkdirAll(filepath.Join(m.dir, d), 0o700))
	}
	build := exec.Command("go", "build", "-o", m.bin+"/", "./brokerd")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return m
}

// approveAll answers all that is asked, as long as ctx.
func (m *machine) approveAll(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := ipc.Ask(ctx, m.at("owner.sock"), proto.OwnerEvents, &proto.ListApprovals{})
		if l, ok := got.(*proto.ApprovalList); ok && err == nil {
			for _, a := range l.Approvals {
				_, _ = ipc.Ask(ctx, m.at("owner.sock"), proto.OwnerEvents, &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: proto.VerdictApproved, Channel: "cli"})
			}
		}
		pause(ctx, 5*time.Millisecond, nil)
	}
}

// pause waits, or until something comes from until.
func pause(ctx context.Context, d time.Duration, until <-chan struct{}) {
	select {
	case <-until:
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A client makes calls as loopd does: one after another; it asks for the fate of
// what broke off, and confirms what it has.
type client struct {
	m       *machine
	session string
	got     map[string]*proto.CallResult // what was given out; nil: never started
	done    chan struct{}                // told of each result, if anybody listens
}

func (c *client) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s/1/%d/0", c.session, n)
		req := &proto.Call{ID: id, Session: c.session, Tool: "read_file", Args: `{"path":"` + c.m.data + `/x"}`}
		if n%3 == 0 {
			req.Tool, req.Args = "write_file", `{"path":"`+c.m.data+`/x","content":"y"}`
		}
		r, err := c.call(req)
		for err != nil && ctx.Err() == nil {
			r, err = c.fate(ctx, id)
		}
		if err != nil {
			return // the test is over
		}
		c.got[id] = r
		select {
		case c.done <- struct{}{}:
		default:
		}
		if r == nil {
			continue
		}
		for ctx.Err() == nil {
			if _, err := ipc.Ask(ctx, c.m.at("broker.sock"), proto.BrokerEvents, &proto.Confirm{ID: id}); err == nil {
				break
			}
			pause(ctx, 5*time.Millisecond, nil)
		}
	}
}

func (c *client) call(req *proto.Call) (*proto.CallResult, error) {
	conn, err := ipc.Dial(context.Background(), c.m.at("broker.sock"), proto.BrokerEvents)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.Send(req); err != nil {
		return nil, err
	}
	for {
		m, err := conn.Recv()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *proto.Asked:
		case *proto.CallResult:
			return m, nil
		default:
			return nil, fmt.Errorf("%s", m.Tag())
		}
	}
}

func (c *client) fate(ctx context.Context, id string) (*proto.CallResult, error) {
	pause(ctx, 5*time.Millisecond, nil)
	m, err := ipc.Ask(ctx, c.m.at("broker.sock"), proto.BrokerEvents, &proto.Fate{ID: id})
	switch m := m.(type) {
	case *proto.CallResult:
		return m, nil
	case *proto.Unknown:
		if m.Never {
			return nil, nil
		}
		return nil, errors.New("no result, and not never")
	default:
		return nil, errors.Join(err, errors.New("no answer"))
	}
}

// judge compares what was given out, what ran, and what is on record.
func (m *machine) judge(runner *fakeRunner, clients []*client) {
	m.t.Helper()
	m.try(m.brokerd.cmd.Process.Signal(os.Interrupt))
	<-m.brokerd.ended
	runner.mu.Lock() // a call that was just ended may still be in it
	runs := maps.Clone(runner.runs)
	runner.mu.Unlock()
	for id, n := range runs {
		if n != 1 {
			m.t.Errorf("%s ran %d times", id, n)
		}
	}
	ends := map[string]string{}
	root, err := os.OpenRoot(m.at("audit"))
	m.try(err)
	defer root.Close()
	var anchors []chain.Anchor // the heads that came with the results
	for _, c := range clients {
		for id, r := range c.got {
			if r != nil {
				anchors = append(anchors, chain.Anchor{AuditHead: r.Head, From: id})
			}
		}
	}
	report, err := chain.Verify(chain.Config{Root: root, Anchors: anchors, Visit: func(l chain.Line) error {
		r, err := l.Record()
		if err != nil {
			return err
		}
		if r, ok := r.(*proto.AuditOutcome); ok {
			if _, twice := ends[r.ID]; twice {
				return fmt.Errorf("%s has two outcomes", r.ID)
			}
			ends[r.ID] = string(r.Outcome)
		}
		return nil
	}})
	m.try(err)
	head := report.Head
	if len(report.Faults) > 0 || report.Matched != len(anchors) {
		m.t.Errorf("%d of %d heads fit; %v", report.Matched, len(anchors), report.Faults)
	}
	known, oks := 0, 0
	for _, c := range clients {
		for id, r := range c.got {
			known++
			switch n := runner.count(id); {
			case r == nil && n != 0:
				m.t.Errorf("%s ran, and is said never to have started", id)
			case r == nil:
			case r.Outcome == proto.CallOK && (n != 1 || ends[id] != "ok" || r.Text != "did "+id):
				m.t.Errorf("%s: %d runs, %s on record: %+v", id, n, ends[id], r)
			case r.Outcome == proto.CallUnknown && ends[id] != "unknown":
				m.t.Errorf("%s: %s on record: %+v", id, ends[id], r)
			case r.Outcome == proto.CallOK:
				oks++
			}
		}
	}
	if oks < 5 || head.N == 0 {
		m.t.Errorf("only %d calls of %d went well: nothing was tried", oks, known)
	}
	m.t.Logf("%d calls, %d ran to their end, %d records", known, oks, head.N)
	if s := strings.Count(m.brokerd.said.String(), "panic"); s > 0 {
		m.t.Error("brokerd panicked")
	}
}
