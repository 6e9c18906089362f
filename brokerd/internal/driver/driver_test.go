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
	"boxmaker/internal/tool"

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
	if w.runner.last.Seen != tool.Absent {
		t.Errorf("it may change another file than the owner saw: %+v", w.runner.last)
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

// A program has its whole grant, whatever its arguments name: the owner is told
// what it could change, and not only in which folder it starts.
func TestAProgramIsAskedForWithItsWholeGrant(t *testing.T) {
	for _, c := range []struct{ name, tool, args string }{
		{"run", "run", `{"argv":["ls"]}`},
		{"run in a folder", "run", `{"argv":["ls"],"dir":"/data/x"}`},
		{"shell in a folder", "shell", `{"command":"ls","dir":"/data/x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := setUp(t)
			w.grant("30-"+c.tool+".toml", "tool = \""+c.tool+"\"\nmode = \"ask\"\n[paths]\nread = [\"/other\"]\nwrite = [\"/data\"]\n[userland]\nkind = \"usr\"\n")
			a, done := w.ask(&proto.Call{ID: "s/1/1/0", Session: "s", Tool: c.tool, Args: c.args})
			if !cmp.Equal(a.Write, []string{"/data"}) || !cmp.Equal(a.Read, []string{"/other"}) {
				t.Errorf("shown to read %q and to write %q", a.Read, a.Write)
			}
			w.answer(a, proto.VerdictDenied)
			<-done
		})
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

// A runnerd that does not end a call in its time holds nobody up for ever.
func TestARunnerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setUp(t)
		w.grant("05-read.toml", grantRead+"[limits]\ntime = \"5s\"\n")
		w.runner.set(func(ctx context.Context, _ policy.Spec) (Ran, error) {
			<-ctx.Done()
			return Ran{}, context.Cause(ctx)
		})
		before := time.Now()
		if r := w.call(read("s/1/1/0", "/data/a")); r.Outcome != proto.CallUnknown {
			t.Errorf("%+v", r)
		}
		if took := time.Since(before); took != 5*time.Second+doorGrace {
			t.Errorf("it took %v", took)
		}
	})
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
	if err := w.d.Halt("", "uid 7"); err != nil {
		t.Fatal(err)
	}
	if on, why := w.d.Halted(); !on || why != "a test" {
		t.Errorf("halted again without a reason: %v %q", on, why)
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
	before := w.log.Head()
	if err := w.d.Resume("uid 7"); err != nil || w.log.Head() != before {
		t.Errorf("resumed again: %v, and a record of it", err)
	}
	if w.runner.count("s/1/1/0")+w.runner.count("s/1/2/0") != 0 {
		t.Error("something ran while halted")
	}
}

// P45: what was allowed once says nothing about any other call.
func TestCaseP45OneApprovalIsForOneCall(t *testing.T) {
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
