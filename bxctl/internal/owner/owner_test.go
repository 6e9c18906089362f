package owner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"boxmaker/bxctl/internal/fakeowner"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func approval(id, code string) proto.Approval {
	return proto.Approval{
		Approval: id, Code: code, Digest: fakeowner.Hash, Asked: "2026-01-02T15:04:05.000Z", Expires: "2026-01-02T15:19:05.000Z",
		Call: "chat-a/1/3/0", Session: "chat-a", Tool: "run", Fields: []proto.Field{}, Read: []string{}, Write: []string{}, Hosts: []string{},
		Secrets: []string{}, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "50-run",
	}
}

// wantsFault checks what the owner is told.
func wantsFault(t *testing.T, err error, key string, code int) {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Key != key || fault.Code(err) != code {
		t.Errorf("got %v (code %d), want key %s, code %d", err, fault.Code(err), key, code)
	}
}

func TestAnswer(t *testing.T) {
	b := fakeowner.New(t)
	c := owner.Client{Path: b.Path}
	ctx := t.Context()
	b.Ask(approval("idoneidoneidone", "k7q2"))
	b.Ask(approval("idtwoidtwoidtwo", "m3xx"))
	for _, word := range []string{"m3xx", "M3XX", "idtwoidtwoidtwo"} {
		if a, err := c.Find(ctx, word); err != nil || a.Code != "m3xx" {
			t.Errorf("%s finds %v, %v", word, a, err)
		}
	}
	_, err := c.Find(ctx, "zzzz")
	wantsFault(t, err, "approval-gone", fault.Usage)
	a, err := c.Find(ctx, "k7q2")
	if err != nil {
		t.Fatal(err)
	}
	wrong := *a
	wrong.Digest = "ff" + wrong.Digest[2:]
	_, err = c.Answer(ctx, &wrong, proto.VerdictApproved, owner.ChannelCLI)
	wantsFault(t, err, "approval-changed", fault.Failed)
	got, err := c.Answer(ctx, a, proto.VerdictApproved, owner.ChannelCLI)
	if d := cmp.Diff(&proto.Answered{Approval: a.Approval, Verdict: proto.VerdictApproved, By: "owner", Channel: "cli", First: true}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	got, err = c.Answer(ctx, a, proto.VerdictDenied, owner.ChannelChat)
	if err != nil || got.First || got.Verdict != proto.VerdictApproved {
		t.Errorf("a second answer gives %+v, %v", got, err)
	}
	a.Approval = "nosuchnosuchnosuch"
	_, err = c.Answer(ctx, a, proto.VerdictDenied, owner.ChannelChat)
	wantsFault(t, err, "approval-gone", fault.Usage)
}

func TestFollow(t *testing.T) {
	b := fakeowner.New(t)
	b.Ask(approval("idoneidoneidone", "k7q2"))
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := owner.Client{Path: b.Path}.Follow(ctx, nil, func(m proto.Message) {
		switch m := m.(type) {
		case *proto.Approval:
			got = append(got, "asks "+m.Code)
			if m.Code == "k7q2" {
				b.Ask(approval("idtwoidtwoidtwo", "m3xx"))
			} else {
				b.End("idoneidoneidone", proto.VerdictExpired, "", "")
			}
		case *proto.Retracted:
			got = append(got, string(m.Verdict))
			cancel()
		}
	})
	if d := cmp.Diff([]string{"asks k7q2", "asks m3xx", "expired"}, got); d != "" || !errors.Is(err, context.Canceled) {
		t.Error(d, err)
	}
}

func TestFollowEnds(t *testing.T) {
	b := fakeowner.New(t)
	b.Ask(approval("idoneidoneidone", "k7q2"))
	stopped := make(chan struct{})
	err := owner.Client{Path: b.Path}.Follow(t.Context(), nil, func(proto.Message) {
		go func() { defer close(stopped); b.Stop() }()
	})
	wantsFault(t, err, "brokerd-connection", fault.Failed)
	<-stopped
	b.Start()
}

func TestHaltAndStatus(t *testing.T) {
	b := fakeowner.New(t)
	c := owner.Client{Path: b.Path}
	st, err := c.Halt(t.Context(), "odd\x1b[2J")
	if err != nil || !st.Halted || st.HaltReason != "odd\x1b[2J" {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err = c.Status(t.Context()); err != nil || !st.Halted {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err = c.Resume(t.Context()); err != nil || st.Halted {
		t.Errorf("%+v, %v", st, err)
	}
	_, err = c.Head(t.Context())
	wantsFault(t, err, "", fault.Usage)
}

func TestAway(t *testing.T) {
	dir := t.TempDir()
	_, err := owner.Client{Path: filepath.Join(dir, "owner.sock")}.Tools(t.Context())
	wantsFault(t, err, "brokerd-away", fault.NotRunning)
	if !owner.Away(err) {
		t.Error("not away")
	}
	if err := os.WriteFile(filepath.Join(dir, "owner.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = owner.Client{Path: filepath.Join(dir, "owner.sock")}.Tools(t.Context())
	wantsFault(t, err, "brokerd-away", fault.NotRunning)
}
