package loop

import (
	"context"
	"errors"
	"testing"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func past(epoch int, record int64, role string) *proto.Past {
	return &proto.Past{Role: role, Text: "t", Time: "2026-01-02T15:04:05.000Z", Record: record, Epoch: epoch}
}

// TestFollow: a session that is not there yet is waited for, a connection that
// goes is made again, behind the last message of the owner.
func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked []*proto.Watch
	l := fakeloop.New(t, func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		w := req.(*proto.Watch)
		asked = append(asked, w)
		switch len(asked) {
		case 1:
			fakeloop.Send(out, &proto.Error{Code: proto.ErrNoSession, Text: "there is none"})
		case 2:
			fakeloop.Send(out, past(1, 1, "user"), past(1, 2, "assistant"), past(1, 3, "turn"), past(2, 7, "user"), past(2, 8, "assistant"), &proto.Text{Text: "half"})
		case 3:
			fakeloop.Send(out, &proto.Error{Code: proto.ErrSlowClient, Text: "too slow"})
		default:
			fakeloop.Send(out, past(2, 8, "assistant"), &proto.Done{Outcome: proto.TurnAnswered}, past(3, 1, "user"))
			<-ctx.Done()
		}
	})
	var got []string
	err := Client{Path: l.Path}.Follow(ctx, "chat-x", Place{1, 0}, Hooks{
		Event: func(m proto.Message) {
			if p, ok := m.(*proto.Past); ok {
				got = append(got, p.Role)
				if p.Epoch == 3 {
					cancel()
				}
				return
			}
			got = append(got, m.Tag())
		},
		Lost: func(error) { got = append(got, "LOST") },
		Back: func() { got = append(got, "BACK") },
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"user", "assistant", "turn", "user", "assistant", "text", "LOST", "BACK", "assistant", "done", "user"}, got); d != "" {
		t.Error(d)
	}
	want := []*proto.Watch{
		{Session: "chat-x", Epoch: 1, Follow: true},
		{Session: "chat-x", Epoch: 1, Follow: true},
		{Session: "chat-x", Epoch: 2, After: 7, Follow: true},
		{Session: "chat-x", Epoch: 2, After: 7, Follow: true},
	}
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
}

// In an idle session, and in one that is not there yet, nothing is heard; that loopd
// is back is told all the same.
func TestFollowIdle(t *testing.T) {
	for _, unborn := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		l := fakeloop.New(t, func(ctx context.Context, _ proto.Message, out *ipc.Stream) {
			switch n++; {
			case n == 1: // it goes away at once
			case unborn:
				fakeloop.Send(out, &proto.Error{Code: proto.ErrNoSession, Text: "there is none"})
			default:
				<-ctx.Done()
			}
		})
		var got []string
		err := Client{Path: l.Path}.Follow(ctx, "chat-x", Place{}, Hooks{
			Lost: func(error) { got = append(got, "LOST") },
			Back: func() { got = append(got, "BACK"); cancel() },
		})
		if d := cmp.Diff([]string{"LOST", "BACK"}, got); d != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("unborn %v: %v\n%s", unborn, err, d)
		}
	}
}

func TestFollowOfADamagedSessionEnds(t *testing.T) {
	l := fakeloop.New(t, func(_ context.Context, _ proto.Message, out *ipc.Stream) {
		fakeloop.Send(out, &proto.Error{Code: proto.ErrSessionLog, Text: "damaged", Runbook: "session-log"})
	})
	err := Client{Path: l.Path}.Follow(t.Context(), "chat-x", Place{}, Hooks{})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Key != "session-log" {
		t.Error(err)
	}
}
