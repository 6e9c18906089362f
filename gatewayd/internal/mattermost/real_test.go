package mattermost

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/realmost"
)

// real is the one real server of these tests.
var real realmost.Pool

func TestMain(m *testing.M) {
	code := m.Run()
	real.Close()
	os.Exit(code)
}

// A realPlace is a place on the real server, with accounts of its own.
type realPlace struct {
	t                    *testing.T
	s                    *realmost.Server
	owner, stranger, bot *realmost.User
	dm                   string
	c                    *Client
}

func newRealPlace(t *testing.T) *realPlace {
	s := real.Get(t)
	p := &realPlace{t: t, s: s, owner: s.Person(t, "owner"), stranger: s.Person(t, "stranger"), bot: s.Bot(t, "boxmaker")}
	p.dm = s.Direct(t, p.owner, p.bot)
	c, err := New(Config{URL: s.URL, Token: secret.NewText(p.bot.Token), BackMin: 10 * time.Millisecond, BackMax: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.c = c
	return p
}

func (p *realPlace) run() *run { return (&place{t: p.t}).run(p.c) }

func TestRealEvents(t *testing.T) {
	p := newRealPlace(t)
	r := p.run()
	r.want("up, fresh")
	root := p.owner.Post(t, p.dm, "", "hello")
	r.want("posted hello")
	p.owner.Post(t, p.dm, root, "in the thread")
	r.want("posted in the thread")
	p.owner.Must(t, "PUT", "/posts/"+root+"/patch", map[string]any{"message": "hullo"}, nil)
	p.s.Admin.Must(t, "PUT", "/posts/"+root+"/patch", map[string]any{"message": "changed by the admin"}, nil)
	r.want("edited hullo", "edited changed by the admin")
	if e := r.all[len(r.all)-1].(Edited); e.Post.User != p.owner.ID {
		t.Errorf("an admin's edit shows %s", e.Post.User)
	}
	p.owner.Must(t, "POST", "/reactions", map[string]any{"user_id": p.owner.ID, "post_id": root, "emoji_name": "+1_medium_skin_tone"}, nil)
	r.want("reacted +1_medium_skin_tone")
	if status, b, err := p.owner.Call("POST", p.s.Hook(t, p.owner, p.s.Channel(t, "ops", p.owner)), map[string]any{"channel": "@" + p.bot.Name, "text": "approve"}, nil); status != 200 {
		t.Fatal(status, string(b), err)
	}
	r.want("posted approve")
	e := r.all[len(r.all)-1].(Posted)
	if e.Post.User != p.owner.ID || !e.Post.Props.FromWebhook || e.Post.ByHand() {
		t.Errorf("a webhook's post: %+v", e)
	}
	p.owner.Must(t, "DELETE", "/posts/"+root, nil, nil)
	r.want("deleted changed by the admin")
	for _, e := range r.all {
		if e, ok := e.(Posted); ok && (e.ChannelType != Direct || !e.Mentioned) {
			t.Errorf("in the direct channel: %+v", e)
		}
	}
}

func TestRealRequests(t *testing.T) {
	ctx := t.Context()
	p := newRealPlace(t)
	me, err := p.c.Me(ctx)
	if err != nil || me.ID != p.bot.ID || !me.Bot {
		t.Fatal(me, err)
	}
	u, err := p.c.UserByName(ctx, "@"+p.owner.Name)
	if err != nil || u.ID != p.owner.ID || u.Bot {
		t.Fatal(u, err)
	}
	if _, err := p.c.UserByName(ctx, "nobody-of-that-name"); !isGone(err) {
		t.Error(err)
	}
	cfg, err := p.c.Config(ctx)
	if err != nil || cfg.PostSize != 16383 || cfg.FileSize == 0 || !strings.HasPrefix(cfg.Version, "11.1") {
		t.Fatal(cfg, err)
	}
	ch, err := p.c.Direct(ctx, me.ID, u.ID)
	if err != nil || ch.ID != p.dm || ch.Type != Direct {
		t.Fatal(ch, err)
	}
	chs, err := p.c.Channels(ctx)
	if err != nil || !slices.ContainsFunc(chs, func(c Channel) bool { return c.ID == p.dm }) {
		t.Fatal(chs, err)
	}
	root := p.owner.Post(t, p.dm, "", "question")
	d := Draft{Channel: p.dm, Root: root, Message: "Working…", Key: "k1", Pending: "p-unguessable-1"}
	post, err := p.c.Create(ctx, d)
	if err != nil || post.Props.Key != "k1" || !post.Props.FromBot || post.Root != root {
		t.Fatal(post, err)
	}
	again, err := p.c.Create(ctx, d)
	if err != nil || again.ID != post.ID {
		t.Fatal("the same pending id made a second post", err)
	}
	post, err = p.c.Patch(ctx, post.ID, "done")
	if err != nil || post.Message != "done" || post.Props.Key != "k1" {
		t.Fatal("a patch of the text has to keep the props", post, err)
	}
	found, ok, err := p.c.Find(ctx, me.ID, d, 0)
	if err != nil || !ok || found.ID != post.ID {
		t.Fatal(found, ok, err)
	}
	if err := p.c.React(ctx, me.ID, post.ID, "white_check_mark"); err != nil {
		t.Fatal(err)
	}
	rs, err := p.c.Reactions(ctx, post.ID)
	if err != nil || len(rs) != 1 || rs[0].Emoji != "white_check_mark" {
		t.Fatal(rs, err)
	}
	if err := p.c.Unreact(ctx, me.ID, post.ID, "white_check_mark"); err != nil {
		t.Fatal(err)
	}
	if rs, err = p.c.Reactions(ctx, post.ID); err != nil || len(rs) != 0 {
		t.Fatal(rs, err)
	}
	if err := p.c.Typing(ctx, p.dm, root); err != nil {
		t.Fatal(err)
	}
	file, err := p.c.Upload(ctx, p.dm, "out.log", bytes.NewReader(bytes.Repeat([]byte("line\n"), 6000)))
	if err != nil {
		t.Fatal(err)
	}
	with, err := p.c.Create(ctx, Draft{Channel: p.dm, Root: root, Files: []string{file}, Key: "k2"})
	if err != nil || !slices.Equal(with.Files, []string{file}) {
		t.Fatal(with, err)
	}
	if err := p.c.Delete(ctx, with.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.c.Get(ctx, with.ID); !isGone(err) {
		t.Error(err)
	}
	var no *Refused
	for name, err := range map[string]error{
		"a reply to a reply":    second(p.c.Create(ctx, Draft{Channel: p.dm, Root: post.ID, Message: "x"})),
		"16,384 runes":          second(p.c.Create(ctx, Draft{Channel: p.dm, Message: strings.Repeat("😀", 16384)})),
		"an emoji of no name":   p.c.React(ctx, me.ID, post.ID, "no_such_emoji"),
		"the owner's post":      second(p.c.Patch(ctx, root, "changed")),
		"a stranger's channel":  second(p.c.Since(ctx, p.s.Direct(t, p.owner, p.stranger), 1)),
		"props above the limit": second(p.c.Create(ctx, Draft{Channel: p.dm, Message: "x", Key: strings.Repeat("k", 301_000)})),
	} {
		if !asRefused(err, &no) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.c.Create(ctx, Draft{Channel: p.dm, Message: strings.Repeat("😀", 16383)}); err != nil {
		t.Error(err)
	}
	if _, err := p.c.Create(ctx, Draft{Channel: p.dm, Message: "p", Key: strings.Repeat("k", 290_000)}); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func asRefused(err error, into **Refused) bool {
	for ; err != nil; err = unwrap(err) {
		if r, ok := err.(*Refused); ok {
			*into = r
			return true
		}
	}
	return false
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	if u, ok := err.(interface{ Unwrap() []error }); ok && len(u.Unwrap()) > 0 {
		return u.Unwrap()[0]
	}
	return nil
}

// The owner's longest message with the widest props passes as an event.
func TestRealLargestFrame(t *testing.T) {
	p := newRealPlace(t)
	r := p.run()
	r.want("up, fresh")
	long := strings.Repeat("<", 16383)
	p.owner.Must(t, "POST", "/posts", map[string]any{"channel_id": p.dm, "message": long, "props": map[string]any{"x": strings.Repeat("<", 25_000)}}, nil)
	r.want("posted " + long)
}

func TestRealSinceMoreThanAThousand(t *testing.T) {
	p := newRealPlace(t)
	ctx := t.Context()
	first := p.owner.Post(t, p.dm, "", "first")
	at, err := p.c.Get(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 1234 {
		want = append(want, p.owner.Post(t, p.dm, "", fmt.Sprint("big ", i)))
	}
	b, err := p.c.Since(ctx, p.dm, at.UpdateAt)
	if err != nil || b.Cut {
		t.Fatal(b.Cut, err)
	}
	var got []string
	for _, post := range b.Posts {
		got = append(got, post.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d posts, want %d in order", len(got), len(want))
	}
	p.owner.Must(t, "PUT", "/posts/"+want[1200]+"/patch", map[string]any{"message": "edited"}, nil)
	p.owner.Must(t, "DELETE", "/posts/"+want[1201], nil, nil)
	b, err = p.c.Since(ctx, p.dm, b.Until)
	if err != nil || len(b.Posts) != 1 || b.Posts[0].Message != "edited" || !slices.Equal(b.Deleted, want[1201:1202]) {
		t.Errorf("after an edit and a deletion: %+v %v", b, err)
	}
}

func TestRealThreadOfManyPages(t *testing.T) {
	p := newRealPlace(t)
	root := p.owner.Post(t, p.dm, "", "root")
	want := []string{root}
	for i := range 450 {
		want = append(want, p.owner.Post(t, p.dm, root, fmt.Sprint("reply ", i)))
	}
	ps, err := p.c.Thread(t.Context(), root)
	var got []string
	for _, post := range ps {
		got = append(got, post.ID)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d posts, want %d in order: %v", len(got), len(want), err)
	}
}

func TestRealTokenRevoked(t *testing.T) {
	p := newRealPlace(t)
	p.c.cfg.PingEvery = 200 * time.Millisecond
	r := p.run()
	r.want("up, fresh")
	p.s.Admin.Must(t, "POST", "/users/tokens/revoke", map[string]any{"token_id": p.bot.TokenID}, nil)
	if err := r.over(); !TokenRefused(err) {
		t.Error(err)
	}
}

func TestRealBotDisabled(t *testing.T) {
	p := newRealPlace(t)
	r := p.run()
	r.want("up, fresh")
	p.s.Admin.Must(t, "POST", "/bots/"+p.bot.ID+"/disable", nil, nil)
	if err := r.over(); !TokenRefused(err) {
		t.Error(err)
	}
}

func TestRealServerRestarted(t *testing.T) {
	p := newRealPlace(t)
	r := p.run()
	r.want("up, fresh")
	p.s.Stop(syscall.SIGKILL)
	r.want("down")
	if err := p.s.Start(); err != nil {
		t.Fatal(err)
	}
	r.until("up, fresh")
	p.owner.Post(t, p.dm, "", "again")
	r.until("posted again")
}

// A connection that is cut is taken up again, and brings what was missed.
func TestRealResume(t *testing.T) {
	p := newRealPlace(t)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	r := runner{c: p.c, tell: func(Event) {}, me: p.bot.ID}
	for round, missed := range []int{0, 3, 100} {
		var got []string
		cut, stop := context.WithCancel(ctx)
		r.tell = func(e Event) {
			got = append(got, short(e))
			if short(e) == "up, fresh" && round == 0 || strings.HasPrefix(short(e), "posted last") {
				stop()
			}
		}
		if round > 0 {
			for i := range missed {
				p.owner.Post(t, p.dm, "", fmt.Sprint("missed ", i))
			}
			p.owner.Post(t, p.dm, "", "last")
		}
		_ = r.connection(cut)
		stop()
		if round == 0 {
			continue
		}
		if len(got) != missed+2 || got[0] != "up" || got[1] != "posted missed 0" {
			t.Fatalf("round %d: %q", round, got)
		}
	}
}
