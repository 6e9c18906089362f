package approve

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/fakemost"
)

// The desk behind the real client, on a server that behaves as the recorded one
// does. Each row is what people and the server's admin can do there.
func TestCaseP56OnAServer(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  func(w *world)
		want proto.Verdict
		text string // in the card afterwards
	}{
		{name: "the owner's yes", act: func(w *world) { w.React(w.owner, w.card.ID, EmojiYes) }, want: proto.VerdictApproved},
		{name: "the owner's yes, twice", act: func(w *world) { w.React(w.owner, w.card.ID, EmojiYes); w.React(w.owner, w.card.ID, EmojiYes) }, want: proto.VerdictApproved},
		{name: "the owner's no", act: func(w *world) { w.React(w.owner, w.card.ID, EmojiNo) }, want: proto.VerdictDenied},
		{name: "a yes that was taken back", act: func(w *world) { w.React(w.owner, w.card.ID, EmojiYes); w.Unreact(w.owner, w.card.ID, EmojiYes) }},
		{name: "plus one with a skin tone", act: func(w *world) { w.React(w.owner, w.card.ID, "+1_medium_skin_tone"); w.React(w.owner, w.card.ID, "+1") }},
		{name: "an admin's yes", act: func(w *world) { w.React(w.admin, w.card.ID, EmojiYes) }},
		{name: "the owner's yes on a look-alike of the admin", act: func(w *world) {
			p := w.Post(w.admin, w.dm, "", w.card.Message)
			w.React(w.owner, p.ID, EmojiYes)
		}},
		{name: "the owner's yes on an old card", act: func(w *world) { w.React(w.owner, w.old, EmojiYes) }},
		{name: "a card that the admin edited", act: func(w *world) {
			w.Edit(w.admin, w.card.ID, "harmless")
			w.React(w.owner, w.card.ID, EmojiYes)
		}, text: "Somebody changed this message"},
		{name: "a card that the admin edited and edited back", act: func(w *world) {
			w.Edit(w.admin, w.card.ID, "harmless")
			w.Edit(w.admin, w.card.ID, w.card.Message)
			w.React(w.owner, w.card.ID, EmojiYes)
		}, text: "Somebody changed this message"},
		{name: "a card that was pinned", act: func(w *world) { w.Pin(w.admin, w.card.ID); w.React(w.owner, w.card.ID, EmojiYes) }, want: proto.VerdictApproved},
		{name: "a card that was deleted", act: func(w *world) { w.React(w.owner, w.card.ID, EmojiYes); w.Delete(w.admin, w.card.ID) }},
		{name: "the owner's word", act: func(w *world) { w.say(w.Post(w.owner, w.dm, "", "approve K7M4PX")) }, want: proto.VerdictApproved},
		{name: "the owner's word in the card's thread", act: func(w *world) { w.say(w.Post(w.owner, w.dm, w.card.ID, "deny K7M4PX")) }, want: proto.VerdictDenied},
		{name: "the admin's word", act: func(w *world) { w.say(w.Post(w.admin, w.dm, "", "approve K7M4PX")) }},
		{name: "a webhook with the owner's id", act: func(w *world) { w.say(w.Webhook(w.owner, w.dm, "approve K7M4PX")) }},
		{name: "a word that the admin put into the owner's post", act: func(w *world) {
			p := w.Post(w.owner, w.dm, "", "what is the time?")
			w.say(w.Edit(w.admin, p.ID, "approve K7M4PX"))
		}},
		{name: "a system message", act: func(w *world) { w.say(w.System(w.owner, w.dm, "system_me", "approve K7M4PX")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.act(w)
			w.desk.hintAll()
			w.drain()
			i := w.desk.items["a1"]
			if i == nil || i.Answer.Verdict != tc.want || tc.want != "" && i.Answer.By != w.owner.ID {
				t.Errorf("%+v", i)
			}
			if p, _ := w.Get(w.card.ID); tc.text != "" && !strings.Contains(p.Message, tc.text) {
				t.Error(p.Message)
			}
		})
	}
}

type world struct {
	*fakemost.Server
	t                 *testing.T
	owner, admin, bot *fakemost.User
	dm, old           string
	card              fakemost.Post
	c                 *mattermost.Client
	desk              *Desk
}

// newWorld has a card of an approval that ended, and one that waits.
func newWorld(t *testing.T) *world {
	t.Helper()
	s := fakemost.New(t)
	w := &world{Server: s, t: t, owner: s.AddUser("owner"), admin: s.AddAdmin("admin"), bot: s.AddBot("boxmaker")}
	w.dm = s.Direct(w.owner, w.bot)
	var err error
	if w.c, err = mattermost.New(mattermost.Config{URL: s.URL, Token: secret.NewText(w.bot.Token)}); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if w.desk, _, err = Open(Config{
		Chat: w.c, Owners: []string{w.owner.ID}, Self: func() (Self, bool) { return Self{Me: w.bot.ID, Home: w.dm, Limit: 16383}, true },
		Place: func(string) (string, string, bool) { return "", "", false }, Root: root, Now: noon, Zone: time.UTC,
		Log: slog.New(slog.DiscardHandler), Status: func() *proto.GatewayStatus { return &proto.GatewayStatus{} },
	}); err != nil {
		t.Fatal(err)
	}
	before := question()
	before.Approval, before.Code = "a0", "ABCDEF"
	w.keep(before)
	w.old = w.Posts(w.dm)[0].ID
	if err := w.desk.retract(&proto.Retract{Approval: "a0", Verdict: proto.VerdictExpired}); err != nil {
		t.Fatal(err)
	}
	w.keep(question())
	for _, p := range w.Posts(w.dm) {
		if p.ID != w.old {
			w.card = p
		}
	}
	return w
}

func (w *world) keep(a proto.Ask) {
	w.t.Helper()
	if _, err := w.desk.keep(&a); err != nil {
		w.t.Fatal(err)
	}
	w.drain()
}

func (w *world) drain() {
	w.t.Helper()
	if _, err := w.desk.round(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// say brings a post to the desk as the client reads it.
func (w *world) say(p fakemost.Post) {
	w.t.Helper()
	got, err := w.c.Get(context.Background(), p.ID)
	if err == nil {
		_, _, err = w.desk.Reply(got, true)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A long card's file, and a post of unknown fate, through the real client.
func TestACardOfUnknownFate(t *testing.T) {
	w := newWorld(t)
	mend := w.Inject(fakemost.Fault{Method: "POST", Path: "/posts", Kind: fakemost.CutAfter, Times: 1})
	a := question()
	a.Approval, a.Code, a.Fields[1].Value = "b1", "ABCDEG", strings.Repeat("long\n", 300)
	w.keep(a)
	mend()
	if i := w.desk.items["b1"]; i.Post != "" || !i.Tried {
		t.Fatalf("%+v", i)
	}
	w.desk.hintAll()
	w.drain()
	n := 0
	for _, p := range w.Posts(w.dm) {
		if strings.Contains(p.Message, "ABCDEG") {
			n++
			if name, text := w.File(p.FileIDs[0]); name != "approval-ABCDEG.txt" || strings.Count(string(text), "long") != 300 {
				t.Errorf("%s %d", name, len(text))
			}
		}
	}
	if n != 1 {
		t.Errorf("%d posts", n)
	}
}
