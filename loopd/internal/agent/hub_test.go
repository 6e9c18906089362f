package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

func texts(all []proto.Message) string {
	var b strings.Builder
	for _, m := range all {
		switch m := m.(type) {
		case *proto.Text:
			b.WriteString("T(" + m.Text + ")")
		case *proto.Thinking:
			b.WriteString("R(" + m.Text + ")")
		default:
			b.WriteString(m.Tag() + " ")
		}
	}
	return b.String()
}

func TestPiecesAreJoinedWhileNobodyReads(t *testing.T) {
	h := newHub()
	s := h.subscribe("")
	h.begin("o1")
	for _, m := range []proto.Message{
		&proto.Prefill{Done: 1}, &proto.Prefill{Done: 2}, &proto.Thinking{Text: "a"}, &proto.Thinking{Text: "b"},
		&proto.Text{Text: "c"}, &proto.Text{Text: "d"}, &proto.Waiting{Reason: proto.WaitSlot}, &proto.Text{Text: "e"},
	} {
		h.send(m)
	}
	all, err := s.Next(t.Context())
	if got := texts(all); err != nil || got != "prefill R(ab)T(cd)waiting T(e)" {
		t.Error(got, err)
	}
}

func TestALateStreamGetsTheTurnWithoutWhatARetryMadeVoid(t *testing.T) {
	h := newHub()
	h.begin("o1")
	h.send(&proto.Thinking{Text: "old"})
	h.send(&proto.Text{Text: "I look."})
	h.send(&proto.ToolStarted{})
	h.send(&proto.Result{})
	h.send(&proto.Thinking{Text: "new"})
	h.send(&proto.Text{Text: "half"})
	h.send(&proto.Notice{Kind: proto.NoticeIncomplete})
	h.send(&proto.Notice{Kind: proto.NoticeRetry})
	h.send(&proto.Text{Text: "whole"})
	all, err := h.subscribe("o1").Next(t.Context())
	if got := texts(all); err != nil || got != "R(old)T(I look.)tool result notice notice T(whole)" {
		t.Error(got, err)
	}
	other, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.subscribe("o2").Next(other); !errors.Is(err, context.Canceled) {
		t.Error("another origin sees the turn")
	}
}

func TestASlowStreamIsEndedNotTheTurn(t *testing.T) {
	h := newHub()
	slow, quick := h.subscribe(""), h.subscribe("")
	h.begin("o1")
	for i := range maxBehind + 10 {
		h.send(&proto.Result{MS: int64(i)})
		if _, err := quick.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := slow.Next(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	if e, ok := all[0].(*proto.Error); !ok || e.Code != proto.ErrSlowClient {
		t.Errorf("%#v", all[0])
	}
}

func TestClosedStreamIsGone(t *testing.T) {
	h := newHub()
	s := h.subscribe("")
	if !h.watched() {
		t.Error("not watched")
	}
	s.Close()
	if h.watched() {
		t.Error("still watched")
	}
}

// TestALongTurnCanBeJoined: what a late client has to catch up on does not count as
// its being slow.
func TestALongTurnCanBeJoined(t *testing.T) {
	h := newHub()
	h.begin("o1")
	for i := range 2 * maxBehind {
		h.send(&proto.Result{MS: int64(i)})
	}
	s := h.subscribe("o1")
	h.send(&proto.Text{Text: "now"})
	all, err := s.Next(t.Context())
	if err != nil || len(all) != 2*maxBehind+1 {
		t.Fatalf("%d events, the last is %#v (%v)", len(all), all[len(all)-1], err)
	}
	for range maxBehind + 1 { // from now on it may be slow like any other
		h.send(&proto.Result{})
	}
	all, err = s.Next(t.Context())
	if _, ok := all[0].(*proto.Error); err != nil || !ok {
		t.Errorf("%d events (%v)", len(all), err)
	}
}

// TestPlacesInALineReplaceEachOther: an hour in a long line is one event to a
// client that comes back.
func TestPlacesInALineReplaceEachOther(t *testing.T) {
	h := newHub()
	h.begin("o1")
	for i := 100; i > 0; i-- {
		h.send(&proto.Waiting{Reason: proto.WaitSlot, Ahead: i})
	}
	h.send(&proto.Waiting{Reason: proto.WaitModel})
	all, err := h.subscribe("o1").Next(t.Context())
	if err != nil || len(all) != 2 || all[0].(*proto.Waiting).Ahead != 1 {
		t.Errorf("%d events, %v", len(all), err)
	}
}

// TestPiecesFitAFrame: however much text is joined, each event can be sent.
func TestPiecesFitAFrame(t *testing.T) {
	h := newHub()
	h.begin("o1")
	const each, n = 1000, 5000
	for range n {
		h.send(&proto.Text{Text: strings.Repeat("\x01", each)})
	}
	huge := strings.Repeat("\x01☃", 1<<20)
	h.send(&proto.Text{Text: huge})
	all, err := h.subscribe("o1").Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range all {
		b, err := proto.Encode(m)
		if err != nil || len(b) > frame.MaxBytes {
			t.Fatalf("%d bytes (%v)", len(b), err)
		}
		total += len(m.(*proto.Text).Text)
	}
	if total != each*n+len(huge) || len(all) > n/10 {
		t.Errorf("%d bytes in %d events", total, len(all))
	}
}

// TestTheLastWordComesBeforeTheEnd: events that are there are read even if the
// reader's context has ended.
func TestTheLastWordComesBeforeTheEnd(t *testing.T) {
	h := newHub()
	for range 500 { // which of the two a select picks is chance
		s := h.subscribe("")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := s.Next(ctx)
			got <- err
		}()
		h.fail(errEnding)
		cancel()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}
