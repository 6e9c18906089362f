package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

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
	for _, m := range []proto.Message{&proto.Prefill{Done: 1}, &proto.Prefill{Done: 2}, &proto.Thinking{Text: "a"}, &proto.Thinking{Text: "b"},
		&proto.Text{Text: "c"}, &proto.Text{Text: "d"}, &proto.Waiting{Reason: proto.WaitSlot}, &proto.Text{Text: "e"}} {
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
	h.send(&proto.Text{Text: "half"})
	h.send(&proto.Notice{Kind: proto.NoticeRetry})
	h.send(&proto.Text{Text: "whole"})
	all, err := h.subscribe("o1").Next(t.Context())
	if got := texts(all); err != nil || got != "notice T(whole)" {
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
		h.send(&proto.Waiting{Reason: proto.WaitSlot, Ahead: i})
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
