package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// A worker is a started installation whose model does what it is told: a message
// "TOOL ARGUMENTS" makes it call that tool, and then answer with what came back.
type worker struct {
	*stack.Stack
	t     *testing.T
	turns int
}

// newWorker prepares one; prepare may change files before the start.
func newWorker(t *testing.T, prepare func(s *stack.Stack)) *worker {
	t.Helper()
	stack.Containers(t)
	s, llama := scripted(t)
	w := &worker{Stack: s, t: t}
	w.script(llama)
	if prepare != nil {
		prepare(s)
	}
	s.Up()
	return w
}

// script makes the model do what it is told.
func (w *worker) script(llama *testkit.Llama) {
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		var text string
		if raw := asked(body); raw != "" {
			_ = json.Unmarshal([]byte(`"`+raw+`"`), &text)
		}
		if tool, args, ok := strings.Cut(text, " {"); ok {
			callTool(a, n, tool, "{"+args)
			return
		}
		a.Answer("done")
	})
}

// call is a message that makes the model call a tool.
func call(tool string, args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // of a test's own table
	}
	return tool + " " + string(b)
}

// A turn is one that was begun.
type turn struct {
	w       *worker
	session string
	end     chan error
	done    *proto.Done
}

// begin sends a message in a session of its own. The turn goes on by itself,
// across restarts of every program.
func (w *worker) begin(message string) *turn {
	w.t.Helper()
	w.turns++
	u := &turn{w: w, session: fmt.Sprintf("chat-%d", w.turns), end: make(chan error, 1)}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), stack.Patience)
		defer cancel()
		done, err := w.Deliver(ctx, &proto.Submit{Session: u.session, Origin: "o-" + u.session, Text: message, Surface: proto.SurfaceAsk}, nil)
		u.done = done
		u.end <- err
	}()
	return u
}

// ended waits for the end and gives the result of the one call, with its text.
func (u *turn) ended() (*proto.Tool, string) {
	u.w.t.Helper()
	if err := <-u.end; err != nil {
		u.w.t.Fatalf("%s: %v", u.session, err)
	}
	if u.done.Outcome != proto.TurnAnswered || u.done.Answer != "done" {
		u.w.t.Errorf("%s: %s, %q", u.session, u.done.Outcome, u.done.Answer)
	}
	tools := records[*proto.Tool](epoch(u.w.t, settled(u.w.t, u.w.Stack), u.session, 1))
	if len(tools) != 1 {
		u.w.t.Fatalf("%s: %d results", u.session, len(tools))
	}
	return tools[0], result(u.w.t, tools[0])
}

// do is begin and ended, with what must come out.
func (w *worker) do(message string, outcome proto.CallOutcome, code proto.Code, says string) *proto.Tool {
	w.t.Helper()
	r, text := w.begin(message).ended()
	w.want(r, text, outcome, code, says)
	return r
}

func (w *worker) want(r *proto.Tool, text string, outcome proto.CallOutcome, code proto.Code, says string) {
	w.t.Helper()
	if r.Outcome != outcome || r.Code != code || !strings.Contains(text, says) {
		w.t.Errorf("%s %q: %s; want %s %q, with %q", r.Outcome, r.Code, text, outcome, code, says)
	}
}

// last gives the newest record of a kind.
func last[T proto.AuditRecord](w *worker) T {
	w.t.Helper()
	all := stack.AuditOf[T](w.Audit())
	if len(all) == 0 {
		w.t.Fatal("no such record in the audit log")
	}
	return all[len(all)-1]
}
