package driver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

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
			if m, err := ask(w); err != nil || !m.(*proto.Unknown).Never {
				t.Errorf("asked again: %+v %v", m, err)
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
