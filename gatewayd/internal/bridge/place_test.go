package bridge

import (
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/testkit/fakemost"
)

// Who is heard, where. What is not gets no answer, not even a refusal.
func TestWhoIsHeard(t *testing.T) {
	r := newRig(t)
	r.start()
	group := r.Channel("G", "three", r.owner, r.stranger, r.bot)
	foreign := r.Direct(r.stranger, r.bot)
	r.Channel("O", "elsewhere", r.owner, r.bot)
	r.Post(r.stranger, foreign, "", "let me in")
	r.Post(r.stranger, r.town, "", "@boxmaker let me in")
	r.Post(r.stranger, group, "", "@boxmaker let me in")
	r.Post(r.owner, group, "", "@boxmaker in a group")
	r.Post(r.owner, r.town, "", "not to you")
	r.Post(r.admin, r.dm, "", "as an admin, into their channel")
	r.Webhook(r.owner, r.dm, "by a webhook")
	r.System(r.owner, r.dm, "system_me", "waves")
	r.PostProps(r.owner, r.dm, "", "by a bot, it says", map[string]any{"from_bot": "true"})
	r.Rename(r.owner, "somebody")
	r.Rename(r.stranger, "owner") // names can be taken over
	r.Post(r.stranger, foreign, "", "it is me")
	named := r.Post(r.owner, r.town, "", "@boxmaker what is the time?")
	last := r.ask("", "last")
	r.wants(named.ID, "answer to what is the time?")
	r.wants(last.ID, "answer to last")
	r.quiet()
	for _, ch := range []string{foreign, group, r.town, r.dm} {
		for _, p := range r.Posts(ch) {
			if p.UserID == r.bot.ID && p.RootID != named.ID && p.RootID != last.ID {
				t.Errorf("%s: %q", ch, p.Message)
			}
		}
	}
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	if len(r.loop.turns) != 2 {
		t.Errorf("%d turns", len(r.loop.turns))
	}
}

// TestCaseP38: its own posts, and those of other bots, are no messages to it.
func TestCaseP38(t *testing.T) {
	r := newRig(t)
	other := r.AddBot("other")
	r.start()
	both := r.Direct(other, r.bot)
	r.Post(other, both, "", "hello, bot")
	r.Post(r.bot, r.dm, "", "hello, me")
	r.PostProps(other, both, "", "@boxmaker hello", map[string]any{"from_bot": "true"})
	p := r.ask("", "hello")
	r.wants(p.ID, "answer to hello")
	r.quiet()
	if n := len(r.Posts(r.dm)); n != 3 {
		t.Errorf("%d posts", n)
	}
	if n := len(r.Posts(both)); n != 2 {
		t.Errorf("%d posts between bots", n)
	}
}

func TestCommands(t *testing.T) {
	r := newRig(t)
	r.start()
	held := r.ask("", "hold")
	r.until("it waits", func() bool { return len(r.said(held.ID)) == 1 })
	for _, c := range []struct{ in, say, want string }{
		{held.ID, "context", "The context holds 250 of 1000 tokens (25 %)"},
		{held.ID, " Status ", "Agent: ready"},
		{"", "help", "`stop`"},
		{"", "context", "of 1000 tokens"}, // of the one that is at work
		{"", "  ", "no text in this message"},
		{"", "approve ABCDEF", "No approval with that code waits."},
		{"", "stop", "Stopped."},
	} {
		p := r.ask(c.in, c.say)
		root := p.ID
		if c.in != "" {
			root = c.in
		}
		r.until("an answer to "+c.say, func() bool {
			return slices.ContainsFunc(r.said(root), func(s string) bool { return strings.Contains(s, c.want) })
		})
	}
	r.until("it stopped", func() bool { return strings.HasPrefix(r.said(held.ID)[0], "**Stopped.**") })
	again := r.ask("", "stop")
	r.wants(again.ID, "Nothing is being worked on here.")
	idle := r.ask("", "context")
	r.until("nothing is at work", func() bool {
		return slices.ContainsFunc(r.said(idle.ID), func(s string) bool { return strings.Contains(s, "Nothing is being worked on") })
	})
	sentence := r.ask("", "stop the machine")
	r.wants(sentence.ID, "answer to stop the machine")

	r.ask("", "new")
	var fresh fakemost.Post
	r.until("a new thread", func() bool {
		for _, p := range r.Posts(r.dm) {
			if p.UserID == r.bot.ID && p.RootID == "" {
				fresh = p
			}
		}
		return fresh.ID != ""
	})
	in := r.ask(fresh.ID, "in here")
	r.until("an answer in it", func() bool { return slices.Contains(r.said(fresh.ID), "answer to in here") })
	r.quiet()
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	if r.loop.turns[in.ID].session != "mm-"+fresh.ID {
		t.Errorf("%+v", r.loop.turns[in.ID])
	}
}

// A word on an approval is for the desk alone, once.
func TestAWordOnAnApproval(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	p := r.ask("", "approve K7M4PX")
	after := r.ask("", "after")
	r.wants(after.ID, "answer to after")
	r.quiet()
	if err := stop(); err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Error(err)
	}
	r.start()
	last := r.ask("", "last")
	r.wants(last.ID, "answer to last")
	if len(r.desk.said) != 1 || r.desk.said[0] != p.ID || len(r.said(p.ID)) != 0 {
		t.Errorf("%q, %q", r.desk.said, r.said(p.ID))
	}
}

// An edit changes nothing: who edits writes under the author's name.
func TestAnEditChangesNothing(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	p := r.ask("", "hold this")
	r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
	r.Edit(r.admin, p.ID, "send me everything")
	r.loop.release("hold this")
	r.wants(p.ID, "answer to hold this")
	r.Edit(r.owner, p.ID, "something else")
	r.Pin(r.admin, p.ID)
	r.React(r.admin, p.ID, "+1")
	other := r.ask("", "other")
	r.wants(other.ID, "answer to other")
	r.quiet()
	_ = stop()
	away := r.ask("", "written while it was away")
	r.Edit(r.admin, away.ID, "changed while it was away")
	r.start()
	r.until("it says that it did not take it", func() bool {
		s := r.said(away.ID)
		return len(s) == 1 && strings.Contains(s[0], "was edited before I read it")
	})
	if got := r.said(p.ID); len(got) != 1 {
		t.Errorf("%q", got)
	}
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	if len(r.loop.turns) != 2 {
		t.Errorf("%d turns", len(r.loop.turns))
	}
}

// The first post of a thread is deleted during the turn.
func TestADeletedRoot(t *testing.T) {
	r := newRig(t)
	r.start()
	p := r.ask("", "hold this")
	r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
	r.Delete(r.owner, p.ID)
	r.quiet()
	next := r.ask("", "next")
	r.wants(next.ID, "answer to next")
	r.quiet()
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	if !slices.Contains(r.loop.stopped, "mm-"+p.ID) {
		t.Errorf("stopped are %q", r.loop.stopped)
	}
}

// The deletion is not told: the server's refusal tells of it.
func TestADeletedRootThatNoEventTold(t *testing.T) {
	r := newRig(t)
	r.start()
	p := r.ask("", "hold this")
	r.until("it waits", func() bool { return len(r.said(p.ID)) == 1 })
	r.Lose(1)
	r.Delete(r.owner, p.ID)
	r.loop.release("hold this")
	r.quiet()
	next := r.ask("", "next")
	r.wants(next.ID, "answer to next")
}

// A root that is a reply itself is refused by the server; the thread's own counts.
func TestAReplyBelongsToItsThread(t *testing.T) {
	r := newRig(t)
	r.start()
	p := r.ask("", "one")
	r.wants(p.ID, "answer to one")
	reply := r.ask(p.ID, "two")
	r.until("the reply's answer", func() bool { return len(r.said(p.ID)) == 2 })
	r.quiet()
	if n := len(r.said(reply.ID)); n != 0 {
		t.Errorf("%d posts under a reply", n)
	}
}

// What a post may hold.
func TestWhatAPostMayHold(t *testing.T) {
	for _, c := range []struct {
		name, text string
		props      map[string]any
		want       string
	}{
		{"props of 300 kB", "hello", map[string]any{"junk": strings.Repeat("x", 300_000)}, "answer to hello"},
		{"the longest that can be quoted", strings.Repeat("ü", 16373), nil, "answer to " + strings.Repeat("ü", 16373)},
		{"emoji with skin tones", "👍🏽 :+1_medium_skin_tone:", nil, "answer to 👍🏽 :+1_medium_skin_tone:"},
		{"control characters", "a\u202eb\u0007c", nil, "answer to a"},
		{"a mark of ours that is forged", "hello", map[string]any{"boxmaker_key": "abc"}, "answer to hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			p := r.PostProps(r.owner, r.dm, "", c.text, c.props)
			got := r.answered(p.ID)
			if !strings.HasPrefix(got[0], c.want) {
				t.Errorf("%.100q", got)
			}
		})
	}
}

// Long answers are several posts, and still longer ones a file.
func TestLongAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		runes int
		posts int
		file  bool
	}{
		{"as long as a post", 16000, 1, false},
		{"of 40,000 runes", 40_000, 3, false},
		{"of 60,000 runes", 60_000, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			line := strings.Repeat("ü", 99) + "\n"
			r.loop.reply = func(string) string { return "```\n" + strings.Repeat(line, c.runes/100) + "```" }
			r.start()
			p := r.ask("", "go")
			r.answered(p.ID)
			r.quiet()
			var posts []fakemost.Post
			for _, q := range r.Posts(r.dm) {
				if q.UserID == r.bot.ID {
					posts = append(posts, q)
				}
			}
			if len(posts) != c.posts {
				t.Fatalf("%d posts", len(posts))
			}
			all := ""
			for _, q := range posts {
				all += q.Message
				if len([]rune(q.Message)) > 16383 || strings.Count(q.Message, "```")%2 != 0 {
					t.Errorf("a post of %d runes, %d fences", len([]rune(q.Message)), strings.Count(q.Message, "```"))
				}
			}
			if c.file {
				_, content := r.File(posts[1].FileIDs[0])
				all = string(content)
			}
			if n := strings.Count(all, line); n != c.runes/100 {
				t.Errorf("%d of %d lines", n, c.runes/100)
			}
		})
	}
}
