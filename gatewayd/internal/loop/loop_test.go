package loop

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// serve is a loopd that answers each request with these events and then closes.
func serve(t *testing.T, events ...proto.Message) Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "loop.sock")
	ln, err := ipc.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	srv := ipc.Server{Listener: ln, Requests: proto.LoopRequests, Peers: []uint32{uint32(os.Getuid())}, MaxConns: 8, Handle: func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		for _, e := range events {
			if err := out.Send(e); err != nil {
				return
			}
		}
	}}
	go func() { defer close(done); _ = srv.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return Client{path}
}

func TestTurn(t *testing.T) {
	submit := &proto.Submit{Session: "mm-x", Origin: "x", Text: "hello", Surface: proto.SurfaceMattermost}
	for _, c := range []struct {
		name   string
		events []proto.Message
		tags   string
		again  bool
		check  func(error) bool
	}{
		{"answered", []proto.Message{&proto.Accepted{}, &proto.Text{Text: "hi"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "hi"}}, "accepted text done", false, func(err error) bool { return err == nil }},
		{"cut", []proto.Message{&proto.Accepted{}}, "accepted", true, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"ending", []proto.Message{&proto.Error{Code: proto.ErrNotReady, Text: "ending"}}, "", true, nil},
		{"queue full", []proto.Message{&proto.Error{Code: proto.ErrQueueFull, Text: "full"}}, "", true, nil},
		{"refused", []proto.Message{&proto.Error{Code: proto.ErrMessageLarge, Text: "large"}}, "", false, nil},
		{"another answer", []proto.Message{&proto.Stopped{}}, "", true, func(err error) bool { return strings.Contains(err.Error(), "version-mismatch") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tags []string
			err := serve(t, c.events...).Turn(t.Context(), submit, func(m proto.Message) { tags = append(tags, m.Tag()) })
			if strings.Join(tags, " ") != c.tags || err != nil && Again(err) != c.again || c.check != nil && !c.check(err) {
				t.Errorf("%v, %v", tags, err)
			}
		})
	}
}

func TestQueries(t *testing.T) {
	now := "2026-03-04T05:06:07.089Z"
	if running, err := serve(t, &proto.Stopped{Running: true}).Stop(t.Context(), "mm-x"); err != nil || !running {
		t.Errorf("%v %v", running, err)
	}
	if s, err := serve(t, &proto.Status{State: "ready", Since: now, Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{}}).Status(t.Context()); err != nil || s.State != "ready" {
		t.Errorf("%v %v", s, err)
	}
	if s, err := serve(t, &proto.SessionDetail{Info: proto.SessionInfo{Session: "mm-x", Modified: now}, Turns: 2}).Session(t.Context(), "mm-x"); err != nil || s.Turns != 2 {
		t.Errorf("%v %v", s, err)
	}
	if err := serve(t, &proto.Noted{}).Delivered(t.Context(), "mm-x", "k"); err != nil {
		t.Error(err)
	}
	if err := serve(t, &proto.Error{Code: proto.ErrNoSession, Text: "none"}).Delivered(t.Context(), "mm-x", "k"); err == nil || Again(err) {
		t.Errorf("%v", err)
	}
	if _, err := serve(t, &proto.Stopped{}).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "version-mismatch") {
		t.Errorf("%v", err)
	}
	if _, err := (Client{filepath.Join(t.TempDir(), "none.sock")}).Status(t.Context()); err == nil || !Again(err) {
		t.Errorf("%v", err)
	}
}
