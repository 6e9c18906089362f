package gateway

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/internal/proto"
)

func TestAnAnswerOfTheChatCounts(t *testing.T) {
	r := newRig(t)
	old := r.hold("s/1/1/0")
	r.serve()
	r.run()
	if m := next[*proto.Ask](r); m.Approval != old.Approval.Approval || m.Digest != old.Approval.Digest || m.Code != old.Approval.Code || len(m.Fields) != 1 {
		t.Errorf("%+v", m)
	}
	late := r.hold("s/1/2/0")
	next[*proto.Ask](r)
	for _, tc := range []struct {
		h *approval.Held
		v proto.Verdict
	}{{late, proto.VerdictDenied}, {old, proto.VerdictApproved}} {
		m := yes(tc.h)
		m.Verdict = tc.v
		r.say(tc.h, m)
		if end := r.wait(tc.h); end.Verdict != tc.v || end.By != m.By || end.Channel != "mattermost" {
			t.Errorf("%+v", end)
		}
		if got := next[*proto.Retract](r); got.Approval != m.Approval || got.Verdict != tc.v || got.By != m.By || got.Channel != "mattermost" {
			t.Errorf("%+v", got)
		}
	}
}

// P56: gatewayd can answer what it was asked, and nothing else.
func TestCaseP56GatewaydAnswersOnlyWhatItWasAsked(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(m *proto.ChatAnswer, other *approval.Held)
	}{
		{"another approval", func(m *proto.ChatAnswer, o *approval.Held) { m.Approval = o.Approval.Approval }},
		{"another approval with its digest", func(m *proto.ChatAnswer, o *approval.Held) {
			m.Approval, m.Digest = o.Approval.Approval, o.Approval.Digest
		}},
		{"the digest of another call", func(m *proto.ChatAnswer, o *approval.Held) { m.Digest = o.Approval.Digest }},
		{"a digest without the nonce", func(m *proto.ChatAnswer, _ *approval.Held) { m.Digest = approval.Digest("canonical of s/1/1/0", "") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			h, other := r.hold("s/1/1/0"), r.hold("s/1/2/0")
			r.serve()
			r.run()
			next[*proto.Ask](r)
			next[*proto.Ask](r)
			m := yes(h)
			tc.spoil(m, other)
			r.say(h, m)
			next[*proto.Ask](r) // the connection was given up, and all is asked anew
			next[*proto.Ask](r)
			for _, h := range []*approval.Held{h, other} { // whoever is first now counts
				no := &proto.Answer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: proto.VerdictDenied, Channel: "cli"}
				go func() { _, _ = r.desk.Answer(context.Background(), no, "uid 0") }()
				if end := r.wait(h); end.Verdict != proto.VerdictDenied || end.Channel != "cli" {
					t.Errorf("%+v", end)
				}
			}
		})
	}
}

func TestWhatMayNotBeAnsweredInTheChatIsNewsThere(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rules Rules
		tool  string
		taint proto.Class
	}{
		{"switched off", Rules{MaxTaint: proto.ClassSecret}, "write_file", proto.ClassPublic},
		{"the session has seen secrets", Rules{Approve: true, MaxTaint: proto.ClassPrivate}, "write_file", proto.ClassSecret},
		{"the tool", Rules{Approve: true, MaxTaint: proto.ClassPrivate, Never: []string{"run", "shell"}}, "shell", proto.ClassPublic},
		{"no rules", Rules{}, "write_file", proto.ClassPublic},
		{"no class in the rules", Rules{Approve: true}, "write_file", proto.ClassPublic},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.rules = tc.rules
			h := r.holdAs("s/1/1/0", tc.tool, tc.taint)
			r.serve()
			r.run()
			m := next[*proto.Ask](r)
			if err := m.Validate(); err != nil || !m.Elsewhere() || m.Tool != tc.tool || len(m.Fields)+len(m.Write)+len(m.Secrets) > 0 || m.Diff != "" {
				t.Errorf("%+v %v", m, err)
			}
			r.say(h, yes(h)) // it cannot know the digest; even so
			next[*proto.Ask](r)
			if r.desk.Get(h.Approval.Approval) == nil {
				t.Fatal("it was answered")
			}
			no := &proto.Answer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: proto.VerdictDenied, Channel: "cli"}
			go func() { _, _ = r.desk.Answer(context.Background(), no, "uid 0") }()
			if end := r.wait(h); end.Channel != "cli" {
				t.Errorf("%+v", end)
			}
		})
	}
}

func TestEndsOfOtherChannelsAreTakenBack(t *testing.T) {
	r := newRig(t)
	h := r.hold("s/1/1/0")
	r.serve()
	r.run()
	next[*proto.Ask](r)
	if err := r.desk.Settled(proto.Answered{Approval: h.Approval.Approval, Verdict: proto.VerdictDenied, By: "uid 7", Channel: "chat"}); err != nil {
		t.Fatal(err)
	}
	if m := next[*proto.Retract](r); m.Verdict != proto.VerdictDenied || m.By != "uid 7" || m.Channel != "chat" {
		t.Errorf("%+v", m)
	}
	select {
	case id := <-r.ends:
		if id != h.Approval.Approval {
			t.Error(id)
		}
	case <-time.After(20 * time.Second):
		t.Error("the question is still open")
	}
}

// Whatever either side missed is made good when both are there again.
func TestBreaks(t *testing.T) {
	r := newRig(t)
	a, b := r.hold("s/1/1/0"), r.hold("s/1/2/0")
	stopGateway, stopClient := r.serve(), r.run()
	next[*proto.Ask](r)
	next[*proto.Ask](r)

	stopGateway() // one ends, one comes while gatewayd is away
	if err := r.desk.Settled(proto.Answered{Approval: a.Approval.Approval, Verdict: proto.VerdictExpired, Channel: "brokerd"}); err != nil {
		t.Fatal(err)
	}
	c := r.hold("s/1/3/0")
	stopGateway = r.serve()
	if m := next[*proto.Retract](r); m.Approval != a.Approval.Approval || m.Verdict != proto.VerdictExpired {
		t.Errorf("%+v", m)
	}
	asked := map[string]bool{next[*proto.Ask](r).Approval: true, next[*proto.Ask](r).Approval: true}
	if !asked[b.Approval.Approval] || !asked[c.Approval.Approval] {
		t.Errorf("%v", asked)
	}

	stopClient() // one ends while brokerd does not follow; it remembers one end and has lost the other
	for _, h := range []*approval.Held{b, c} {
		if err := r.desk.Discard(h.Approval.Approval); err != nil {
			t.Fatal(err)
		}
	}
	r.newDesk(map[string]proto.Answered{b.Approval.Approval: {Approval: b.Approval.Approval, Verdict: proto.VerdictApproved, By: "uid 7", Channel: "cli"}})
	r.run()
	ends := map[string]proto.Verdict{}
	for range 2 {
		m := next[*proto.Retract](r)
		ends[m.Approval] = m.Verdict
	}
	if ends[b.Approval.Approval] != proto.VerdictApproved || ends[c.Approval.Approval] != proto.VerdictWithdrawn {
		t.Errorf("%v", ends)
	}
	stopGateway()
}

func TestAnAnswerAfterTheEndCountsForNothing(t *testing.T) {
	r := newRig(t)
	h := r.hold("s/1/1/0")
	r.serve()
	r.run()
	next[*proto.Ask](r)
	no := &proto.Answer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: proto.VerdictDenied, Channel: "cli"}
	first := make(chan bool)
	go func() {
		got, err := r.desk.Answer(context.Background(), no, "uid 0")
		first <- err == nil && got.First
	}()
	end, err := r.desk.Wait(t.Context(), h.Approval.Approval)
	if err != nil {
		t.Fatal(err)
	}
	r.say(h, yes(h)) // after the answer, before its record
	if err := r.desk.Settled(end); err != nil {
		t.Fatal(err)
	}
	if m := next[*proto.Retract](r); m.Verdict != proto.VerdictDenied || m.Channel != "cli" || !<-first {
		t.Errorf("%+v", m)
	}
}

func TestWithoutGatewaydNothingWaitsForIt(t *testing.T) {
	r := newRig(t)
	r.run() // nobody listens
	h := r.hold("s/1/1/0")
	go func() {
		_, _ = r.desk.Answer(context.Background(), &proto.Answer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: proto.VerdictApproved, Channel: "cli"}, "uid 0")
	}()
	if end := r.wait(h); end.Verdict != proto.VerdictApproved {
		t.Errorf("%+v", end)
	}
}

func TestAFalseGatewaydIsLeft(t *testing.T) {
	r := newRig(t)
	h := r.hold("s/1/1/0")
	c := New(Config{Desk: r.desk})
	if c.Trouble() == nil {
		t.Error("well before it was asked")
	}
	r.mu.Lock()
	r.notes = func(proto.Message) proto.Message { return &proto.Shown{Approval: "a"} }
	r.mu.Unlock()
	r.serve()
	r.run()
	next[*proto.Ask](r)
	if err := r.desk.Settled(proto.Answered{Approval: h.Approval.Approval, Verdict: proto.VerdictExpired, Channel: "brokerd"}); err != nil {
		t.Fatal(err)
	}
	next[*proto.Retract](r)
	r.mu.Lock()
	r.notes, r.known[h.Approval.Approval] = nil, nil // it was not noted
	r.mu.Unlock()
	if m := next[*proto.Retract](r); m.Approval != h.Approval.Approval { // after a new start
		t.Errorf("%+v", m)
	}
}

func TestTheHeadIsPostedOnceADay(t *testing.T) {
	r := newRig(t)
	r.serve()
	day := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	c := New(Config{
		Socket: r.dir + "/g.sock", Desk: r.desk, State: r.root, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return day }, Head: func() proto.AuditHead { return r.head },
		Checkpoint: func() (*proto.Head, error) {
			r.sums++
			return &proto.Head{Head: r.head, Checkpoint: strings.Repeat("x", r.sums)}, nil
		},
	})
	for i, tc := range []struct {
		name  string
		after time.Duration
		grown int64
		anew  bool // brokerd started anew
		posts bool
	}{
		{"the first", 0, 0, false, true},
		{"at once again", 0, 10, false, false},
		{"after a restart", 0, 0, true, false},
		{"half a day later", 12 * time.Hour, 10, false, false},
		{"a day later", 12 * time.Hour, 10, false, true},
		{"a day later, with the checkpoint's own record alone", 25 * time.Hour, 1, true, false},
		{"and one more", 0, 1, false, true},
		{"the clock is set back by a year", -365 * 24 * time.Hour, 10, true, true},
		{"a moment later", time.Minute, 10, true, false},
	} {
		day = day.Add(tc.after)
		r.head.N += tc.grown
		if tc.anew {
			c.posted = nil
		}
		before := r.sums
		if err := c.anchor(t.Context()); err != nil {
			t.Fatal(err)
		}
		if posted := r.sums > before; posted != tc.posts {
			t.Errorf("%d %s: posted %v", i, tc.name, posted)
		}
		if tc.posts {
			<-r.got
		}
	}
}
