package tui

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/fakeowner"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// TestApprovalOnATerminal: a call waits, the owner answers, while brokerd goes
// away and comes back in between.
func TestApprovalOnATerminal(t *testing.T) {
	p := newPTY(t, 80, 40)
	b := fakeowner.New(t)
	ended := make(chan struct{})
	l := answering(t, func(ctx context.Context, m *proto.Submit, out *ipc.Stream) {
		call := m.Session + "/1/3/0"
		a := proto.Approval{
			Approval: "idoneidoneidone", Code: "k7q2", Digest: fakeowner.Hash, Asked: "2026-01-02T15:04:05.000Z", Expires: proto.Time(time.Now().Add(10 * time.Minute)),
			Call: call, Session: m.Session, Tool: "run", Fields: []proto.Field{{Name: "argv", Value: "[\"ls\x1b]0;evil\x07\"]"}}, Read: []string{}, Write: []string{}, Hosts: []string{},
			Secrets: []string{}, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "50-run",
		}
		b.Ask(a)
		fakeloop.Send(out, &proto.Accepted{Record: 1}, &proto.ToolStarted{Call: call, Tool: "run", Args: "{}"},
			&proto.Asked{Call: call, Approval: a.Approval, Expires: a.Expires}, &proto.Waiting{Reason: proto.WaitApproval})
		select {
		case <-ended:
			fakeloop.Send(out, &proto.Result{Call: call, Outcome: proto.CallOK, Class: proto.ClassPrivate}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "it ran"})
		case <-ctx.Done():
		}
	})
	dir := t.TempDir()
	cfg := Config{
		Client: loop.Client{Path: l.Path}, Owner: owner.Client{Path: b.Path}, In: p.slave, Out: p.slave, Screen: term.Open(p.slave, func(string) string { return "" }),
		Environ: []string{"TERM=xterm"}, Now: time.Now, Dir: filepath.Join(dir, "sessions"), History: filepath.Join(dir, "chat-history"),
	}
	cfg.Screen.Colour = false
	end := make(chan error, 1)
	go func() { end <- Run(context.Background(), cfg) }()
	p.wait("model fake")
	p.typed("run it\r")
	p.wait("run wants your approval · code k7q2")
	p.wait("ls␛]0;evil␇")
	p.wait("run (k7q2) waits for you · Ctrl-X answers · expires in 10 min")
	b.Stop()
	p.typed("/approve k7q2\r")
	p.wait("brokerd does not listen here")
	b.Start()
	p.typed("/approve k7q2\r")
	p.wait("✓ run (k7q2) was approved by owner in chat")
	close(ended)
	p.wait("it ran")
	p.typed("\x04")
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if got := b.Answers()[0]; got.Verdict != proto.VerdictApproved || got.Digest != fakeowner.Hash || got.Channel != "chat" {
		t.Errorf("answered with %+v", got)
	}
}
