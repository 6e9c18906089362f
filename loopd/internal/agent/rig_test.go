package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/broker"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/neutral"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/session"
	"boxmaker/loopd/internal/settings"
	"boxmaker/loopd/internal/slot"
	"boxmaker/loopd/internal/toolset"
)

// patience bounds every wait of these tests; it is not a figure of speed.
const patience = 2 * time.Minute

// A rig is an agent on a real store, a scripted llama-server and a brokerd.
type rig struct {
	t      *testing.T
	dir    string
	llm    *testkit.Llama
	broker *testkit.Broker
	set    settings.Settings
	window int64
	slots  int // of the server

	agent *Agent
	store *session.Store
	root  *os.Root
	end   context.CancelFunc
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), llm: testkit.NewLlama(t), broker: testkit.NewBroker(t), set: settings.Default(), window: 32768}
	return r
}

// start opens the store and runs an agent on it.
func (r *rig) start() *rig {
	r.t.Helper()
	r.boot()
	r.ready()
	return r
}

// boot is start up to the self-test.
func (r *rig) boot() {
	r.t.Helper()
	var err error
	if r.root, err = os.OpenRoot(r.dir); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.root.Close() })
	if r.store, err = session.OpenStore(r.root); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.agent = New(ctx, Config{
		Store: r.store, Broker: &broker.Client{Socket: r.broker.Socket}, Settings: r.set,
		Model: llama.New(llama.Config{Dial: r.llm.Dial, Limits: llama.Limits{Reach: 300 * time.Millisecond}}),
		Gate:  slot.New(slot.Slot{Name: "main", ID: 0}, slot.Slot{Name: "background", ID: 1}),
		Log:   slog.New(slog.DiscardHandler), Now: time.Now,
	})
	r.end = cancel
	r.t.Cleanup(r.kill)
}

// ready is what follows a self-test that was passed.
func (r *rig) ready() {
	r.t.Helper()
	sampling, err := prompt.Sampling(prompt.Params{Temperature: "0.6", TopP: "0.95", TopK: 20, MaxTokens: 8192, ThinkingCap: 4096, ThinkingMessage: "(limit)"})
	if err != nil {
		r.t.Fatal(err)
	}
	err = r.agent.Serve(Serving{
		Neutral: neutral.New(nil, ""), Slots: r.slots, ThinkingMark: "(limit)",
		Baseline: func(slot int) *proto.Baseline {
			return &proto.Baseline{
				Model: "m", Slot: slot, Sampling: sampling, Tools: toolset.Tools(),
				System: prompt.SystemMessage("be brief"), Window: r.window,
			}
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// kill ends the agent as a crash would: nothing more is written.
func (r *rig) kill() {
	if r.end == nil {
		return
	}
	r.end()
	r.end = nil
	r.agent.Wait()
	r.store.Close()
	// The root stays open: the tests look at the files of a dead agent.
}

func (r *rig) submit(id, origin, text string) *Stream {
	r.t.Helper()
	s, err := r.try(id, origin, text)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) try(id, origin, text string) (*Stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.agent.Submit(ctx, &proto.Submit{Session: id, Origin: origin, Text: text, Surface: proto.SurfaceAsk})
}

// until reads events up to the first that f accepts, and gives all of them.
func (r *rig) until(s *Stream, f func(proto.Message) bool) []proto.Message {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []proto.Message
	for {
		evs, err := s.Next(ctx)
		if err != nil {
			r.t.Fatalf("after %s: %v", names(all), err)
		}
		for i, m := range evs {
			all = append(all, m)
			if f(m) {
				if rest := evs[i+1:]; len(rest) > 0 {
					s.requeue(rest)
				}
				return all
			}
		}
	}
}

// requeue puts events back, for tests that look at a stream bit by bit.
func (s *Stream) requeue(rest []proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var q script
	for _, m := range rest {
		q = q.add(m)
	}
	s.queue = append(q, s.queue...)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (r *rig) done(s *Stream) (*proto.Done, []proto.Message) {
	r.t.Helper()
	defer s.Close()
	all := r.until(s, proto.Terminal)
	d, ok := all[len(all)-1].(*proto.Done)
	if !ok {
		r.t.Fatalf("ended with %#v", all[len(all)-1])
	}
	return d, all
}

// say is submit and done, for the turn that must be answered.
func (r *rig) say(id, origin, text string) *proto.Done {
	r.t.Helper()
	d, _ := r.done(r.submit(id, origin, text))
	if d.Outcome != proto.TurnAnswered {
		r.t.Fatalf("outcome %s: %s", d.Outcome, d.Text)
	}
	return d
}

func is[T proto.Message](m proto.Message) bool { _, ok := m.(T); return ok }

func notice(kind proto.NoticeKind) func(proto.Message) bool {
	return func(m proto.Message) bool { n, ok := m.(*proto.Notice); return ok && n.Kind == kind }
}

func has(all []proto.Message, f func(proto.Message) bool) bool {
	for _, m := range all {
		if f(m) {
			return true
		}
	}
	return false
}

func names(all []proto.Message) string {
	var out []string
	for _, m := range all {
		out = append(out, m.Tag())
	}
	return strings.Join(out, " ")
}

// records reads a session's log, all epochs.
func (r *rig) records(id string) []proto.Record {
	r.t.Helper()
	var out []proto.Record
	if err := r.store.Read(id, func(_ int, _ proto.Header, rec proto.Record) error {
		out = append(out, rec)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func kinds(recs []proto.Record) string {
	var out []string
	for _, r := range recs {
		out = append(out, r.Kind())
	}
	return strings.Join(out, " ")
}

// grows checks that each request strictly extends the one before it, of those
// with the same slot and system prompt.
func (r *rig) grows(bodies [][]byte) {
	r.t.Helper()
	for i := 1; i < len(bodies); i++ {
		if string(bodies[i]) == string(bodies[i-1]) {
			continue // the same request again
		}
		if !prompt.Extends(bodies[i-1], bodies[i]) {
			at, ctx := prompt.FirstDiff(bodies[i-1], bodies[i])
			r.t.Fatalf("request %d does not extend the one before: byte %d: %s", i, at, ctx)
		}
	}
}

func callTool(tool, args string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args)
}

func code(err error) proto.ErrCode {
	var e *proto.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func sessionFile(r *rig, id string, epoch int) string {
	return filepath.Join(r.dir, id, fmt.Sprintf("%04d.jsonl", epoch))
}
