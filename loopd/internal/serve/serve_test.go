package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/agent"
	"boxmaker/loopd/internal/broker"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/neutral"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/session"
	"boxmaker/loopd/internal/settings"
	"boxmaker/loopd/internal/slot"
	"boxmaker/loopd/internal/toolset"
)

// patience bounds each wait; it is not a figure of speed.
const patience = 2 * time.Minute

type house struct {
	t      *testing.T
	socket string
	llm    *testkit.Llama
	agent  *agent.Agent
	store  *session.Store
	end    context.CancelFunc
}

// open runs store, agent and server on a scripted model.
func open(t *testing.T, ready bool) *house {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, err := session.OpenStore(root)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, store: store, socket: filepath.Join(t.TempDir(), "loop.sock"), llm: testkit.NewLlama(t)}
	ctx, cancel := context.WithCancel(context.Background())
	h.end = cancel
	log := slog.New(slog.DiscardHandler)
	h.agent = agent.New(ctx, agent.Config{
		Store: store, Model: llama.New(llama.Config{Socket: h.llm.Socket}), Broker: &broker.Client{},
		Gate: slot.New(slot.Slot{Name: "main", ID: 0}), Settings: settings.Default(), Log: log, Now: time.Now,
	})
	if ready {
		h.ready()
	}
	ln, err := ipc.Listen(h.socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, ln, Config{
			Agent: h.agent, Store: store, Peers: []uint32{uint32(os.Getuid())}, Log: log,
			Status: func() *proto.Status { return &proto.Status{State: "ready", Since: proto.Time(time.Now())} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		h.agent.Wait()
		store.Close()
		root.Close()
	})
	return h
}

func (h *house) ready() {
	sampling, err := prompt.Sampling(prompt.Params{Temperature: "0.6", TopP: "0.95", TopK: 20, MaxTokens: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.agent.Serve(agent.Serving{Neutral: neutral.New(nil, ""), Baseline: func(slot int) *proto.Baseline {
		return &proto.Baseline{Model: "m", Slot: slot, Sampling: sampling, Tools: toolset.Tools(), System: prompt.SystemMessage("x"), Window: 1000}
	}})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) dial(req proto.Message) (*ipc.Conn, context.Context) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	h.t.Cleanup(cancel)
	c, err := ipc.Dial(ctx, h.socket, proto.LoopEvents)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	if err := c.Send(req); err != nil {
		h.t.Fatal(err)
	}
	return c, ctx
}

// all reads events until a terminal one.
func (h *house) all(req proto.Message) []proto.Message {
	h.t.Helper()
	c, _ := h.dial(req)
	var out []proto.Message
	for {
		m, err := c.Recv()
		if err != nil {
			h.t.Fatalf("after %d events: %v", len(out), err)
		}
		out = append(out, m)
		if proto.Terminal(m) {
			return out
		}
	}
}

func last[T proto.Message](h *house, all []proto.Message) T {
	h.t.Helper()
	m, ok := all[len(all)-1].(T)
	if !ok {
		h.t.Fatalf("the last event is %#v", all[len(all)-1])
	}
	return m
}

func (h *house) say(id, origin, text string) *proto.Done {
	h.t.Helper()
	return last[*proto.Done](h, h.all(&proto.Submit{Session: id, Origin: origin, Text: text, Surface: proto.SurfaceAsk}))
}

func TestSessionsAreListedAndShown(t *testing.T) {
	h := open(t, true)
	for i := range 3 {
		h.say(fmt.Sprint("chat-", i), "o1", fmt.Sprint("message ", i))
	}
	h.say("job-x", "o1", "work")
	list := last[*proto.SessionList](h, h.all(&proto.ListSessions{Prefix: "chat-", Limit: 2}))
	if len(list.Sessions) != 2 || !list.More || list.Sessions[0].Session != "chat-2" || list.Sessions[0].Title != "message 2" {
		t.Errorf("%+v", list)
	}
	d := last[*proto.SessionDetail](h, h.all(&proto.GetSession{Session: "chat-1"}))
	if d.Turns != 1 || d.Model != "m" || d.Usage.Completions != 1 || d.Info.Records != 5 {
		t.Errorf("%+v", d)
	}
	job := last[*proto.SessionDetail](h, h.all(&proto.GetSession{Session: "job-x"}))
	if job.Slot != settings.Default().Slots.Background || d.Slot != settings.Default().Slots.Main {
		t.Errorf("slots %d and %d", job.Slot, d.Slot)
	}
}

func TestPastAndFollow(t *testing.T) {
	h := open(t, true)
	h.say("chat-a", "o1", "one")
	h.say("chat-a", "o2", "two")
	past := func(all []proto.Message) (roles string) {
		for _, m := range all {
			if p, ok := m.(*proto.Past); ok {
				roles += p.Role[:1] + p.Text[:1] + " "
			}
		}
		return roles
	}
	if got := past(h.all(&proto.Watch{Session: "chat-a"})); got != "uo ao ta ut ao ta " {
		t.Error(got)
	}
	if got := past(h.all(&proto.Watch{Session: "chat-a", After: 4})); got != "ut ao ta " {
		t.Error(got)
	}
	for epoch, want := range []string{"ut ao ta ", "ut ao ta ", ""} { // the newest, the first, none yet
		if got := past(h.all(&proto.Watch{Session: "chat-a", Epoch: epoch, After: 4})); got != want {
			t.Errorf("behind 4 of epoch %d: %q", epoch, got)
		}
	}
	c, _ := h.dial(&proto.Watch{Session: "chat-a", After: 4, Follow: true})
	recv := func() proto.Message {
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for range 3 {
		recv()
	}
	h.say("chat-a", "o3", "three") // a watcher sees the message and the turn of another client
	p, ok := recv().(*proto.Past)
	if !ok || p.Role != "user" || p.Text != "three" || p.Origin != "o3" || p.Surface == "" {
		t.Fatalf("%#v", p)
	}
	for {
		if d, ok := recv().(*proto.Done); ok {
			if d.Outcome != proto.TurnAnswered {
				t.Errorf("%+v", d)
			}
			break
		}
	}
}

func TestErrorsOfClients(t *testing.T) {
	h := open(t, true)
	for _, tc := range []struct {
		name string
		req  proto.Message
		want proto.ErrCode
	}{
		{"detail of no session", &proto.GetSession{Session: "chat-none"}, proto.ErrNoSession},
		{"watch of no session", &proto.Watch{Session: "chat-none"}, proto.ErrNoSession},
		{"follow of no session", &proto.Watch{Session: "chat-none", Follow: true}, proto.ErrNoSession},
		{"delivery in no session", &proto.Delivery{Session: "chat-none", Key: "k"}, proto.ErrNoSession},
		{"empty message", &proto.Submit{Session: "chat-a", Origin: "o1", Surface: proto.SurfaceAsk}, proto.ErrEmptyMessage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if e := last[*proto.Error](h, h.all(tc.req)); e.Code != tc.want || e.Runbook == "" {
				t.Errorf("%+v", e)
			}
		})
	}
	if s := last[*proto.Stopped](h, h.all(&proto.Stop{Session: "chat-none"})); s.Running {
		t.Error("stopped nothing")
	}
	if s := last[*proto.Status](h, h.all(&proto.GetStatus{})); s.State != "ready" {
		t.Errorf("%+v", s)
	}
}

// TestAMessageBeforeTheSelfTest: the client hears that it waits, and is served.
func TestAMessageBeforeTheSelfTest(t *testing.T) {
	h := open(t, false)
	c, _ := h.dial(&proto.Submit{Session: "chat-a", Origin: "o1", Text: "hi", Surface: proto.SurfaceAsk})
	m, err := c.Recv()
	if w, ok := m.(*proto.Waiting); err != nil || !ok || w.Reason != proto.WaitModel {
		t.Fatal(m, err)
	}
	h.ready()
	if m, err = c.Recv(); err != nil || m.Tag() != "accepted" {
		t.Fatal(m, err)
	}
}

// TestTheEndIsTold: a client whose turn is cut off by loopd's end hears that its
// message is kept, whatever it waits for.
func TestTheEndIsTold(t *testing.T) {
	for _, ready := range []bool{true, false} {
		h := open(t, ready)
		h.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Role(); s.Text("on and"); s.Hang() })
		c, _ := h.dial(&proto.Submit{Session: "chat-a", Origin: "o1", Text: "hi", Surface: proto.SurfaceAsk})
		for {
			m, err := c.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := m.(*proto.Error); ok {
				if e.Code != proto.ErrNotReady || e.Runbook != "loopd-ending" {
					t.Errorf("%+v", e)
				}
				break
			}
			if m.Tag() == "text" || !ready {
				h.end()
			}
		}
	}
}

func TestStopOverTheSocket(t *testing.T) {
	h := open(t, true)
	h.llm.On(func(_ int, _ []byte, s *testkit.Stream) { s.Role(); s.Text("on and"); s.Hang() })
	c, _ := h.dial(&proto.Submit{Session: "chat-a", Origin: "o1", Text: "hi", Surface: proto.SurfaceAsk})
	for {
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Tag() == "text" {
			break
		}
	}
	if s := last[*proto.Stopped](h, h.all(&proto.Stop{Session: "chat-a"})); !s.Running {
		t.Error("nothing to stop")
	}
	for {
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := m.(*proto.Done); ok {
			if d.Outcome != proto.TurnStopped {
				t.Errorf("%+v", d)
			}
			return
		}
	}
}

// TestAnOpenTurnIsSeenInTheList: from its first record to its last, whoever asks.
func TestAnOpenTurnIsSeenInTheList(t *testing.T) {
	h := open(t, true)
	gate := make(chan struct{})
	h.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.Role()
			s.Call(0, "a", "clock", "{}")
			s.Call(1, "b", "find_tool", `{"query":"x"}`)
			s.Finish("tool_calls")
			s.TrueUsage()
			s.Done()
			return
		}
		<-gate
		s.Answer("ok")
	})
	c, _ := h.dial(&proto.Submit{Session: "chat-a", Origin: "o1", Text: "hi", Surface: proto.SurfaceAsk})
	if m, err := c.Recv(); err != nil || m.Tag() != "accepted" {
		t.Fatal(m, err)
	}
	row := func() proto.SessionInfo {
		return last[*proto.SessionList](h, h.all(&proto.ListSessions{Limit: 1 << 30})).Sessions[0]
	}
	if !row().Open || !last[*proto.SessionDetail](h, h.all(&proto.GetSession{Session: "chat-a"})).Info.Open {
		t.Error("a turn runs and is not seen")
	}
	close(gate)
	h.say("chat-a", "o1", "hi")
	if row().Open {
		t.Error("the turn has ended and is still seen")
	}
	var tools []string
	for _, m := range h.all(&proto.Watch{Session: "chat-a"}) {
		if p, ok := m.(*proto.Past); ok && p.Tool != "" {
			tools = append(tools, p.Role+" "+p.Tool)
		}
	}
	if fmt.Sprint(tools) != "[assistant clock assistant find_tool]" {
		t.Error(tools)
	}
}

// TestADeliveryIsNoted: it stands in the session's log when it is answered.
func TestADeliveryIsNoted(t *testing.T) {
	h := open(t, true)
	last[*proto.Done](h, h.all(&proto.Submit{Session: "chat-a", Origin: "o1", Text: "hi", Surface: proto.SurfaceMattermost}))
	last[*proto.Noted](h, h.all(&proto.Delivery{Session: "chat-a", Key: "k1"}))
	var keys []string
	err := h.store.Read("chat-a", func(_ int, _ proto.Header, r proto.Record) error {
		if d, ok := r.(*proto.Delivered); ok {
			keys = append(keys, d.Key)
		}
		return nil
	})
	if err != nil || len(keys) != 1 || keys[0] != "k1" {
		t.Errorf("%q, %v", keys, err)
	}
}
