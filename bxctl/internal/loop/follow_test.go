package loop

import (
	"context"
	"testing"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func TestFollow(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, req proto.Message, out *ipc.Stream) {
		if w, ok := req.(*proto.Watch); !ok || !w.Follow || w.Session != "chat-x" || w.After == 0 {
			t.Errorf("asked for %+v", req)
		}
		fakeloop.Send(out, &proto.Past{Role: "user", Text: "old", Time: "2026-01-02T15:04:05.000Z", Record: 1, Epoch: 1}, &proto.Text{Text: "a"}, &proto.Done{Outcome: proto.TurnAnswered}, &proto.Text{Text: "of the next turn"})
	})
	var got []proto.Message
	if err := (Client{Path: l.Path}).Follow(t.Context(), "chat-x", func(m proto.Message) { got = append(got, m) }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]proto.Message{&proto.Text{Text: "a"}, &proto.Done{Outcome: proto.TurnAnswered}}, got); d != "" {
		t.Error(d)
	}
}

func TestFollowEndsWithLoopd(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) { fakeloop.Send(out, &proto.Text{Text: "a"}) })
	if err := (Client{Path: l.Path}).Follow(t.Context(), "chat-x", func(proto.Message) {}); err == nil {
		t.Error("an end without Done is no end of a turn")
	}
}
