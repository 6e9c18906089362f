package talk

import (
	"context"
	"os"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/bxctl/internal/fakeowner"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

func waitingCall(id, code, session string) proto.Approval {
	return proto.Approval{
		Approval: id, Code: code, Digest: fakeowner.Hash, Asked: "2026-01-02T15:04:05.000Z", Expires: "2026-01-02T15:19:05.000Z",
		Call: session + "/1/3/0", Session: session, Tool: "run", Fields: []proto.Field{{Name: "argv", Value: "[\"ls\x1b[2J\"]"}}, Read: []string{}, Write: []string{},
		Hosts: []string{}, Secrets: []string{}, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "50-run",
	}
}

// TestChatApproval: what waits is shown in full, whatever loopd says of it, and
// is answered by its code.
func TestChatApproval(t *testing.T) {
	b := fakeowner.New(t)
	ended := make(chan struct{})
	l := fakeloop.New(t, func(ctx context.Context, req proto.Message, out *ipc.Stream) {
		if _, ok := req.(*proto.Watch); ok {
			<-ctx.Done()
			return
		}
		m, ok := req.(*proto.Submit)
		if !ok {
			fakeloop.Send(out, &proto.Status{
				Version: "t", State: "ready", Since: "2026-01-02T15:04:05.000Z", Server: proto.Server{Practice: true},
				Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{},
			})
			return
		}
		call := m.Session + "/1/3/0"
		b.Ask(waitingCall("idoneidoneidone", "k7q2", m.Session))
		fakeloop.Send(out, &proto.Accepted{Record: 1}, &proto.Asked{Call: call, Approval: "idoneidoneidone", Expires: "2026-01-02T15:19:05.000Z"})
		select {
		case <-ended:
		case <-ctx.Done(): // the test has failed
		}
		fakeloop.Send(out, &proto.Result{Call: call, Outcome: proto.CallOK, Class: proto.ClassPrivate}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "it ran"})
	})
	lines, signals, screen := make(chan string), make(chan os.Signal), &shared{}
	c := Chat{
		Client: loop.Client{Path: l.Path}, Owner: owner.Client{Path: b.Path}, Screen: term.Screen{W: screen, Terminal: true, Width: func() int { return 80 }},
		Lines: lines, Interrupts: signals, Now: newClock().now, Sessions: "/s",
	}
	end := make(chan error, 1)
	go func() { end <- c.Run(t.Context()) }()
	b.Ask(waitingCall("idtwoidtwoidtwo", "m3xx", "chat-other")) // known before the other one is shown
	lines <- "run it\n"
	await(t, screen, "┆ [\"ls␛[2J\"]")
	await(t, screen, "└─ answer with /approve k7q2 or /deny k7q2")
	await(t, screen, "· a call waits for your approval, until 15:19\n")
	lines <- "/approve zzzz\n"
	await(t, screen, "(no approval with that code waits")
	lines <- "/approvals\n"
	await(t, screen, "code m3xx")
	lines <- "/approve K7Q2\n"
	await(t, screen, "· run (k7q2): it was approved by owner in chat")
	lines <- "/deny m3xx\n"
	await(t, screen, "· run (m3xx): it was denied by owner in chat")
	close(ended)
	await(t, screen, "it ran")
	close(lines)
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if got := screen.String(); strings.Contains(got, "\x1b[2J") || strings.Contains(got, "bxctl approve idone") {
		t.Errorf("%q", got)
	}
	if got := b.Answers(); len(got) != 2 || got[0].Channel != "chat" {
		t.Errorf("answers %+v", got)
	}
}

// TestAskNamesTheCommand: without brokerd's socket the owner learns where to
// answer, and nothing that loopd made up.
func TestAskNamesTheCommand(t *testing.T) {
	v, notes := &View{Now: newClock().now}, &shared{}
	v.Answer, v.Notes = term.Plain(&shared{}), term.Screen{W: notes, Terminal: true, Width: func() int { return 80 }}
	v.Event(&proto.Asked{Call: "chat-a/1/3/0", Approval: "id\x1b[2J\nApproved", Expires: "2026-01-02T15:19:05.000Z"})
	if got := visible(notes.String()); got != "· a call waits for your approval, until 15:19: bxctl approve id␛[2J Approved\n" {
		t.Errorf("%q", got)
	}
}
