package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func setUp(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, t.TempDir())
	w.grant("10-read.toml", grantRead)
	w.grant("20-write.toml", grantWrite)
	w.start()
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return w
}

func (w *world) call(c *proto.Call) *proto.CallResult {
	w.t.Helper()
	r, err := w.d.Call(context.Background(), c, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ask starts a call that waits for the owner, and gives its approval.
func (w *world) ask(c *proto.Call) (*proto.Approval, chan *proto.CallResult) {
	w.t.Helper()
	asked, done := make(chan *proto.Asked, 1), make(chan *proto.CallResult, 1)
	d := w.d
	go func() {
		r, err := d.Call(context.Background(), c, func(a *proto.Asked) { asked <- a })
		if err != nil && !errors.Is(err, ErrEnding) {
			w.t.Error(err)
		}
		done <- r
	}()
	a := <-asked
	for _, p := range w.desk.List() {
		if p.Approval == a.Approval {
			return &p, done
		}
	}
	w.t.Fatal("asked, but nothing waits")
	return nil, nil
}

func (w *world) answer(a *proto.Approval, v proto.Verdict) *proto.Answered {
	w.t.Helper()
	r, err := w.desk.Answer(context.Background(), &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: v, Channel: "cli"}, "uid 7")
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestAGrantedCallRuns(t *testing.T) {
	w := setUp(t)
	r := w.call(read("s/1/1/0", "/data/a"))
	want := &proto.CallResult{ID: "s/1/1/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Untrusted: true, Text: "done", Head: w.log.Head()}
	if !cmp.Equal(r, want) {
		t.Error(cmp.Diff(want, r))
	}
	if got := w.story(); got != "decision allow, outcome ok" {
		t.Errorf("%s", got)
	}
	if class, untrusted, err := w.taint.Get("s"); class != proto.ClassPrivate || !untrusted || err != nil {
		t.Errorf("taint %s %v %v", class, untrusted, err)
	}
	again := w.call(read("s/1/1/0", "/data/a"))
	if !cmp.Equal(again, r) || w.runner.count("s/1/1/0") != 1 {
		t.Errorf("asked again: %v, %d runs", cmp.Diff(r, again), w.runner.count("s/1/1/0"))
	}
}

func TestDeniedCalls(t *testing.T) {
	for _, tc := range []struct {
		name    string
		call    *proto.Call
		outcome proto.CallOutcome
		code    proto.Code
	}{
		{"no grant", read("s/1/1/0", "/etc/passwd"), proto.CallDenied, proto.CodeNoGrant},
		{"arguments", &proto.Call{ID: "s/1/1/0", Session: "s", Tool: "read_file", Args: `{"path":"/data/a","PATH":"/x"}`}, proto.CallFailed, proto.CodeInvalidArguments},
		{"no such tool", &proto.Call{ID: "s/1/1/0", Session: "s", Tool: "rm", Args: `{}`}, proto.CallFailed, proto.CodeUnknownTool},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := setUp(t)
			r := w.call(tc.call)
			if r.Outcome != tc.outcome || r.Code != tc.code || r.Class != proto.ClassPublic || r.Untrusted || !strings.HasPrefix(r.Text, string(tc.code)+": ") {
				t.Errorf("%+v", r)
			}
			if got := w.story(); got != "decision deny "+string(tc.code) {
				t.Errorf("%s", got)
			}
			if w.runner.count("s/1/1/0") != 0 || w.d.Counts().Kept != 0 {
				t.Error("something ran or was kept")
			}
			if f, err := w.d.Fate(t.Context(), "s/1/1/0"); err != nil || !cmp.Equal(f, proto.Message(r)) {
				t.Errorf("fate: %+v %v", f, err)
			}
			if _, untrusted, _ := w.taint.Get("s"); untrusted {
				t.Error("our own text made the session untrusted")
			}
		})
	}
}

func TestAnApprovedCallRuns(t *testing.T) {
	w := setUp(t)
	a, done := w.ask(write("s/1/1/0", "hello"))
	if a.Diff == "" || a.Grant != "20-write.toml" || a.Reason != "notes" || a.Tool != "write_file" || len(a.Fields) < 2 || !cmp.Equal(a.Write, []string{"/data/x"}) {
		t.Errorf("%+v", a)
	}
	if w.runner.count("s/1/1/0") != 0 {
		t.Fatal("it ran before the answer")
	}
	if got := w.answer(a, proto.VerdictApproved); !got.First || got.By != "uid 7" {
		t.Errorf("%+v", got)
	}
	if r := <-done; r.Outcome != proto.CallOK || w.runner.count("s/1/1/0") != 1 {
		t.Errorf("%+v", r)
	}
	if got := w.story(); got != "decision ask, approval approved, outcome ok" {
		t.Errorf("%s", got)
	}
	for _, r := range w.records() {
		if r, ok := r.(*proto.AuditApproval); ok && (r.By != "uid 7" || r.Channel != "cli" || r.Digest != a.Digest) {
			t.Errorf("%+v", r)
		}
	}
}

func TestApprovalsThatLetNothingRun(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world, a *proto.Approval)
		outcome proto.CallOutcome
		code    proto.Code
		story   string
	}{
		{"denied", func(w *world, a *proto.Approval) { w.answer(a, proto.VerdictDenied) }, proto.CallDenied, proto.CodeDeniedByOwner, "approval denied denied-by-owner"},
		{"expired", func(*world, *proto.Approval) { time.Sleep(16 * time.Minute) }, proto.CallExpired, proto.CodeApprovalExpired, "approval expired approval-expired"},
		{"stopped", func(w *world, a *proto.Approval) {
			if m, err := w.d.Cancel(context.Background(), a.Call); err != nil || m.(*proto.CallResult).Code != proto.CodeStopped {
				w.t.Errorf("%+v %v", m, err)
			}
		}, proto.CallDenied, proto.CodeStopped, "approval withdrawn stopped"},
		{"halted", func(w *world, _ *proto.Approval) {
			if err := w.d.Halt("enough", "uid 7"); err != nil {
				w.t.Error(err)
			}
		}, proto.CallDenied, proto.CodeHalted, "halt true, approval withdrawn halted"},
		{"the grant is gone", func(w *world, a *proto.Approval) {
			if err := os.Remove(filepath.Join(w.dir, "grants", "20-write.toml")); err != nil {
				w.t.Error(err)
			}
			w.answer(a, proto.VerdictApproved)
		}, proto.CallDenied, proto.CodeNoGrant, "approval approved no-grant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := setUp(t)
				a, done := w.ask(write("s/1/1/0", "hello"))
				tc.do(w, a)
				if r := <-done; r.Outcome != tc.outcome || r.Code != tc.code || !strings.HasPrefix(r.Text, string(tc.code)+": ") {
					t.Errorf("%+v", r)
				}
				if got := w.story(); got != "decision ask, "+tc.story {
					t.Errorf("%s", got)
				}
				if w.runner.count("s/1/1/0") != 0 || len(w.desk.List()) != 0 {
					t.Error("it ran, or waits on")
				}
			})
		})
	}
}

func TestARunIsEnded(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(w *world)
		code proto.Code
	}{
		{"stopped", func(w *world) {
			if _, err := w.d.Cancel(context.Background(), "s/1/1/0"); err != nil {
				w.t.Error(err)
			}
		}, proto.CodeStopped},
		{"halted", func(w *world) {
			if err := w.d.Halt("", "uid 7"); err != nil {
				w.t.Error(err)
			}
		}, proto.CodeHalted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := setUp(t)
			running := make(chan string, 1)
			w.runner.set(untilKilled(running))
			done := make(chan *proto.CallResult)
			go func() { done <- w.call(read("s/1/1/0", "/data/a")) }()
			<-running
			tc.do(w)
			if r := <-done; r.Outcome != proto.CallFailed || r.Code != tc.code || !strings.Contains(r.Text, "until then stays") {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestHaltAndResume(t *testing.T) {
	w := setUp(t)
	if err := w.d.Halt("a test", "uid 7"); err != nil {
		t.Fatal(err)
	}
	if r := w.call(read("s/1/1/0", "/data/a")); r.Code != proto.CodeHalted {
		t.Errorf("%+v", r)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	w.start()
	if on, why := w.d.Halted(); !on || why != "a test" {
		t.Errorf("after a restart: %v %q", on, why)
	}
	if r := w.call(read("s/1/2/0", "/data/a")); r.Code != proto.CodeHalted {
		t.Errorf("%+v", r)
	}
	if err := w.d.Resume("uid 7"); err != nil {
		t.Fatal(err)
	}
	if r := w.call(read("s/1/3/0", "/data/a")); r.Outcome != proto.CallOK {
		t.Errorf("%+v", r)
	}
	if w.runner.count("s/1/1/0")+w.runner.count("s/1/2/0") != 0 {
		t.Error("something ran while halted")
	}
}

// P45: what was allowed once says nothing about any other call.
func TestP45OneApprovalIsForOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setUp(t)
		a, done := w.ask(write("s/1/1/0", "hello"))
		w.answer(a, proto.VerdictApproved)
		<-done
		digests := map[string]bool{a.Digest: true}
		for i, c := range []*proto.Call{
			write("s/1/2/0", "hello"), write("s/1/3/0", "hello!"),
			{ID: "s/1/4/0", Session: "s", Tool: "write_file", Args: `{"content":"hello","path":"/data/x"}`},
			{ID: "s/1/5/0", Session: "s", Tool: "write_file", Args: `{ "path":"/data/x","content":"hello" }`},
		} {
			b, done := w.ask(c)
			if digests[b.Digest] {
				t.Errorf("call %d has the digest of another", i)
			}
			digests[b.Digest] = true
			w.answer(b, proto.VerdictDenied)
			if r := <-done; r.Code != proto.CodeDeniedByOwner || w.runner.count(c.ID) != 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestReplayedIDs(t *testing.T) {
	w := setUp(t)
	first := w.call(read("s/1/5/1", "/data/a"))
	for _, tc := range []struct {
		name string
		call *proto.Call
	}{
		{"other arguments", read("s/1/5/1", "/data/b")},
		{"another tool", &proto.Call{ID: "s/1/5/1", Session: "s", Tool: "list_files", Args: read("s/1/5/1", "/data/a").Args}},
		{"white space", &proto.Call{ID: "s/1/5/1", Session: "s", Tool: "read_file", Args: `{ "path":"/data/a"}`}},
		{"an earlier index", read("s/1/5/0", "/data/a")},
		{"an earlier record", read("s/1/4/9", "/data/a")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if r := w.call(tc.call); r.Outcome != proto.CallDenied || r.Code != proto.CodeReplayedCall {
				t.Errorf("%+v", r)
			}
			if got := w.story(); !strings.HasSuffix(got, "decision deny replayed-call") {
				t.Errorf("not on record: %s", got)
			}
		})
	}
	if r := w.call(read("s/1/5/1", "/data/a")); r.Text != first.Text || w.runner.count("s/1/5/1") != 1 {
		t.Errorf("the first result is gone: %+v", r)
	}
	if err := w.d.Confirm("s/1/5/1"); err != nil {
		t.Fatal(err)
	}
	if r := w.call(read("s/1/5/1", "/data/a")); r.Code != proto.CodeReplayedCall {
		t.Errorf("after it was confirmed: %+v", r)
	}
	if f, err := w.d.Fate(t.Context(), "s/1/5/1"); err != nil || !cmp.Equal(f, proto.Message(&proto.Unknown{ID: "s/1/5/1"})) {
		t.Errorf("%+v %v", f, err)
	}
	if w.runner.count("s/1/5/1") != 1 || w.runner.count("s/1/5/0")+w.runner.count("s/1/4/9") != 0 {
		t.Error("something ran twice, or at all")
	}
}

// What is certain must stay so: a call that comes after its fate was told to be
// "never" does not run.
func TestNeverIsNever(t *testing.T) {
	for name, ask := range map[string]func(w *world) (proto.Message, error){
		"fate":   func(w *world) (proto.Message, error) { return w.d.Fate(context.Background(), "s/1/1/0") },
		"cancel": func(w *world) (proto.Message, error) { return w.d.Cancel(context.Background(), "s/1/1/0") },
	} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			m, err := ask(w)
			if err != nil || !cmp.Equal(m, proto.Message(&proto.Unknown{ID: "s/1/1/0", Never: true})) {
				t.Fatalf("%+v %v", m, err)
			}
			if r := w.call(read("s/1/1/0", "/data/a")); r.Code != proto.CodeReplayedCall || w.runner.count("s/1/1/0") != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestOneRunForAllWhoAsk(t *testing.T) {
	w := setUp(t)
	running := make(chan string, 1)
	release := make(chan struct{})
	w.runner.set(func(_ context.Context, s policy.Spec) (Ran, error) {
		running <- s.Call
		<-release
		return said("once"), nil
	})
	results := make(chan *proto.CallResult, 3)
	go func() { results <- w.call(read("s/1/1/0", "/data/a")) }()
	<-running
	go func() { results <- w.call(read("s/1/1/0", "/data/a")) }()
	go func() {
		m, err := w.d.Fate(context.Background(), "s/1/1/0")
		if err != nil {
			t.Error(err)
		}
		results <- m.(*proto.CallResult)
	}()
	if err := w.d.Confirm("s/1/1/0"); err == nil {
		t.Error("confirmed before it had a result")
	}
	close(release)
	for range 3 {
		if r := <-results; r.Text != "once" {
			t.Errorf("%+v", r)
		}
	}
	if w.runner.count("s/1/1/0") != 1 {
		t.Error("it ran more than once")
	}
}

func TestAClientThatLeavesEndsNothing(t *testing.T) {
	w := setUp(t)
	running, release := make(chan string, 1), make(chan struct{})
	w.runner.set(func(ctx context.Context, s policy.Spec) (Ran, error) {
		running <- s.Call
		<-release
		return said("done"), ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := w.d.Call(ctx, read("s/1/1/0", "/data/a"), nil)
		left <- err
	}()
	<-running
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	if m, err := w.d.Fate(t.Context(), "s/1/1/0"); err != nil || m.(*proto.CallResult).Text != "done" {
		t.Errorf("%+v %v", m, err)
	}
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.limits.Live, w.limits.Session, w.limits.Running = 3, 2, 1
		w.grant("10-read.toml", grantRead)
		w.start()
		defer w.end()
		running := make(chan string, 8)
		release := make(chan struct{})
		w.runner.set(func(_ context.Context, s policy.Spec) (Ran, error) {
			running <- s.Call
			<-release
			return said("done"), nil
		})
		for _, id := range []string{"s/1/1/0", "s/1/2/0", "t/1/1/0"} {
			go w.d.Call(context.Background(), read(id, "/data/a"), nil)
			synctest.Wait()
		}
		if len(running) != 1 {
			t.Errorf("%d run at a time", len(running))
		}
		for _, id := range []string{"s/1/3/0", "u/1/1/0"} { // its session has two; there are three
			_, err := w.d.Call(context.Background(), read(id, "/data/a"), nil)
			var e *proto.Error
			if !errors.As(err, &e) || e.Code != proto.ErrNotReady {
				t.Errorf("%s: %v", id, err)
			}
		}
		close(release)
		synctest.Wait()
		if len(running) != 3 {
			t.Errorf("%d ran", len(running))
		}
		if r := w.call(read("s/1/3/0", "/data/a")); r.Outcome != proto.CallOK {
			t.Errorf("refused once is refused for ever: %+v", r)
		}
	})
}

func TestTooManyApprovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setUp(t)
		for _, id := range []string{"a/1/1/0", "b/1/1/0", "c/1/1/0", "d/1/1/0"} {
			w.ask(write(id, "x"))
		}
		if r := w.call(write("e/1/1/0", "x")); r.Outcome != proto.CallDenied || r.Code != proto.CodeRateLimited || w.runner.count("e/1/1/0") != 0 {
			t.Errorf("%+v", r)
		}
		if len(w.desk.List()) != 4 {
			t.Error("another one was pushed out")
		}
	})
}
