package mattermost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/fakemost"
)

// outcome is what an error says of a request that changes something.
func outcome(err error) string {
	var unsure *Unsure
	var refused *Refused
	var busy *Busy
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &unsure):
		return "unsure"
	case errors.As(err, &busy):
		return "busy " + busy.After.String()
	case errors.As(err, &refused):
		return fmt.Sprint("refused ", refused.Status)
	}
	return "not done"
}

// Done, not done, or unsure: what an error says is what the server did.
func TestOutcomesOfARequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  fakemost.Kind
		want  string
		posts int
	}{
		{"no fault", 0, "done", 1},
		{"429", fakemost.Busy, "busy 1s", 0},
		{"500 before", fakemost.FailBefore, "unsure", 0},
		{"500 after", fakemost.FailAfter, "unsure", 1},
		{"cut before", fakemost.CutBefore, "unsure", 0},
		{"cut after", fakemost.CutAfter, "unsure", 1},
		{"hangs before", fakemost.HangBefore, "unsure", 0},
		{"hangs after", fakemost.HangAfter, "unsure", 1},
		{"502 of a proxy", fakemost.BadGateway, "unsure", 0},
		{"a page of a hotel", fakemost.Garbage, "unsure", 0},
		{"half an answer", fakemost.Half, "unsure", 1},
		{"an endless answer", fakemost.Huge, "unsure", 0},
		{"a redirect", fakemost.Redirect, "refused 302", 0},
		{"a bad token", fakemost.Refuse, "refused 401", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			c := p.client(Config{Timeout: 500 * time.Millisecond})
			if tt.kind != 0 {
				p.Inject(fakemost.Fault{Kind: tt.kind, Method: "POST", Path: "/posts", Times: 1, To: p.URL + "/elsewhere"})
			}
			d := Draft{Channel: p.dm, Message: "answer", Key: fakemost.NewID(), Pending: fakemost.NewID()}
			_, err := c.Create(t.Context(), d)
			if got := outcome(err); got != tt.want {
				t.Errorf("%s, want %s: %v", got, tt.want, err)
			}
			if got := len(p.Posts(p.dm)); got != tt.posts {
				t.Errorf("%d posts, want %d", got, tt.posts)
			}
			_, ok, err := c.Find(t.Context(), p.bot.ID, d, 0)
			if err != nil || ok != (tt.posts == 1) {
				t.Errorf("found: %v %v", ok, err)
			}
		})
	}
}

func TestNoServerIsNotSent(t *testing.T) {
	p := newPlace(t)
	c := p.client(Config{})
	c.base = "http://127.0.0.1:1"
	if _, err := c.Create(t.Context(), Draft{Channel: p.dm, Message: "x"}); outcome(err) != "not done" {
		t.Error(err)
	}
}

// What is read is of no consequence: it never counts as unsure.
func TestReadingIsNeverUnsure(t *testing.T) {
	p := newPlace(t)
	c := p.client(Config{Timeout: 500 * time.Millisecond})
	for k := fakemost.Busy; k <= fakemost.Refuse; k++ {
		mend := p.Inject(fakemost.Fault{Kind: k, To: p.URL}) // more than once: reading is tried again by net/http itself
		_, err := c.Me(t.Context())
		mend()
		if err == nil || outcome(err) == "unsure" {
			t.Errorf("fault %d: %v", k, err)
		}
	}
}

func TestTokenFollowsNoRedirect(t *testing.T) {
	var got string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got += r.URL.Path + r.Header.Get("Authorization") }))
	defer other.Close()
	p := newPlace(t)
	p.Inject(fakemost.Fault{Kind: fakemost.Redirect, To: other.URL + "/x"})
	if _, err := p.c.Me(t.Context()); outcome(err) != "refused 302" {
		t.Error(err)
	}
	if _, err := p.c.dial(t.Context(), "", 0); err == nil {
		t.Error("the WebSocket followed a redirect")
	}
	if got != "" {
		t.Errorf("the other server got %q", got)
	}
}

// The token is in no error, even if the server sends it back.
func TestTokenInNoError(t *testing.T) {
	p := newPlace(t)
	for k := fakemost.Busy; k <= fakemost.Refuse; k++ {
		p.Inject(fakemost.Fault{Kind: k, Times: 2, To: "/" + p.bot.Token})
		c := p.client(Config{Timeout: 500 * time.Millisecond})
		_, err := c.Create(t.Context(), Draft{Channel: p.dm, Message: "x"})
		if k == fakemost.Echo && outcome(err) != "refused 400" {
			t.Errorf("cleaned away what it was: %v", err)
		}
		_, dialed := c.dial(t.Context(), "", 0)
		for _, err := range []error{err, dialed} {
			if err == nil {
				t.Errorf("fault %d: no error", k)
			} else if s := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(s, p.bot.Token) {
				t.Errorf("fault %d: %s", k, s)
			}
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", p.c, p.c, *p.c); strings.Contains(s, p.bot.Token) {
		t.Error("the client prints its token")
	}
}

func TestURLs(t *testing.T) {
	for _, tt := range []struct {
		url   string
		plain bool
		want  string // "" for an error
	}{
		{"https://chat.example", false, "https://chat.example"},
		{"https://chat.example:8443/sub/", false, "https://chat.example:8443/sub"},
		{"http://127.0.0.1:8065", false, "http://127.0.0.1:8065"},
		{"http://[::1]:8065", false, "http://[::1]:8065"},
		{"http://localhost", false, "http://localhost"},
		{"http://chat.example", false, ""},
		{"http://chat.example", true, "http://chat.example"},
		{"http://localhost.example", false, ""},
		{"http://127.0.0.1.example", false, ""},
		{"https://user:pass@chat.example", false, ""},
		{"https://chat.example?x=1", false, ""},
		{"ws://chat.example", false, ""},
		{"chat.example", false, ""},
		{"https://", false, ""},
		{"", false, ""},
		{"https://chat.example\n", false, ""},
	} {
		got, err := checkURL(tt.url, tt.plain)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q %v", tt.url, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "pass@") {
			t.Error("a password in an error")
		}
	}
	for _, tok := range []string{"", "short", "with space in it", "line\nbreak-in-it", strings.Repeat("x", 600)} {
		if _, err := New(Config{URL: "https://chat.example", Token: secret.NewText(tok)}); err == nil {
			t.Errorf("the token %q is taken", tok)
		}
	}
}

// TestCaseP35: the connection that ends, in whichever way, is made again.
func TestCaseP35ReconnectsForEver(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.client(Config{PingEvery: 100 * time.Millisecond, PongIn: 100 * time.Millisecond}))
	r.want("up, fresh")
	for round := range 3 {
		for name, fault := range map[string]func(){
			"cut": p.CutAll, "restarted": p.Forget, "half-open": p.Silence, "frame too big for the server": p.CloseTooBig,
			"no JSON":      func() { p.Raw("{") },
			"not an event": func() { p.Raw("{}") },
			"a name twice": func() { p.Raw(`{"event":"hello","event":"posted","seq":3}`) },
		} {
			fault()
			r.until("down")
			for got := ""; !strings.HasPrefix(got, "up"); got = r.next() {
			}
			word := fmt.Sprint(name, round)
			p.WaitConnected(p.bot)
			p.Post(p.owner, p.dm, "", word)
			r.until("posted " + word)
		}
	}
}

func TestUpgradeRefusedForTooManyRequests(t *testing.T) {
	p := newPlace(t)
	p.Inject(fakemost.Fault{Kind: fakemost.Busy, Path: "/websocket", Times: 1})
	r := p.run(p.c)
	r.want("down", "up, fresh")
	var busy *Busy
	if d := r.all[0].(Down); !errors.As(d.Err, &busy) || d.Retry < time.Second {
		t.Errorf("%+v", d)
	}
}

// A bad token gets a connection and a bare end of it, like one that the network cut.
func TestBareEndIsAskedFor(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.c)
	r.want("up, fresh")
	p.Disable(p.bot)
	if err := r.over(); !TokenRefused(err) {
		t.Error(err)
	}
}

func TestTokenRevokedUnderAnOpenConnection(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.client(Config{PingEvery: 50 * time.Millisecond}))
	r.want("up, fresh")
	p.Revoke(p.bot)
	if err := r.over(); !TokenRefused(err) {
		t.Error(err)
	}
}

// A proxy's 401 on the upgrade alone is no reason to give up.
func TestRefusedUpgradeWithAGoodToken(t *testing.T) {
	p := newPlace(t)
	p.Inject(fakemost.Fault{Kind: fakemost.Refuse, Path: "/websocket", Times: 3})
	r := p.run(p.c)
	r.want("down", "down", "down", "up, fresh")
}

// TestCaseP36: lost events show as a gap of numbers, and the channel has them.
func TestCaseP36GapMeansCatchUp(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.c)
	r.want("up, fresh")
	first := p.Post(p.owner, p.dm, "", "first")
	r.want("posted first")
	p.Lose(2)
	p.Post(p.owner, p.dm, "", "lost 1")
	p.Post(p.owner, p.dm, "", "lost 2")
	p.Post(p.owner, p.dm, "", "seen")
	r.want("up, fresh", "posted seen")
	b, err := p.c.Since(t.Context(), p.dm, first.UpdateAt-10_000)
	var got []string
	for _, post := range b.Posts {
		got = append(got, post.Message)
	}
	if err != nil || strings.Join(got, ", ") != "first, lost 1, lost 2, seen" {
		t.Errorf("%q %v", got, err)
	}
}

func TestAnEventTwiceIsToldOnce(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.c)
	r.want("up, fresh")
	p.Twice(true)
	p.Post(p.owner, p.dm, "", "one")
	p.Post(p.owner, p.dm, "", "two")
	r.want("posted one", "posted two")
}

// After too long an absence the server starts anew, and says so.
func TestTooLateToResume(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.client(Config{BackMin: time.Second, BackMax: time.Second}))
	r.want("up, fresh")
	p.CutAll()
	r.want("down")
	for i := range 500 {
		p.Post(p.owner, p.dm, "", fmt.Sprint(i))
	}
	r.want("up, fresh")
}

func TestServersOfOtherVersions(t *testing.T) {
	for name, change := range map[string]func(*place){
		"older": func(p *place) { p.Age("9.11.0") }, "newer": func(p *place) { p.Renew("14.0.0") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			change(p)
			r := p.run(p.c)
			r.want("up, fresh")
			p.Post(p.owner, p.dm, "", "hello")
			r.want("posted hello")
			p.CutAll()
			r.want("down")
			if got := r.next(); (got == "up, fresh") != (name == "older") {
				t.Error(got)
			}
			cfg, err := p.c.Config(t.Context())
			if err != nil || cfg.PostSize != 16383 {
				t.Error(cfg, err)
			}
			if b, err := p.c.Since(t.Context(), p.dm, 1); err != nil || len(b.Posts) != 1 {
				t.Error(b, err)
			}
		})
	}
}

// Who could have written a post is a matter of its marks, and an edit is none.
func TestByHand(t *testing.T) {
	p := newPlace(t)
	r := p.run(p.c)
	r.want("up, fresh")
	for _, tt := range []struct {
		name string
		make func() fakemost.Post
		want bool
	}{
		{"the owner", func() fakemost.Post { return p.Post(p.owner, p.dm, "", "x") }, true},
		{"the bot itself", func() fakemost.Post { return p.Post(p.bot, p.dm, "", "x") }, false},
		{"a webhook of the owner", func() fakemost.Post { return p.Webhook(p.owner, p.dm, "x") }, false},
		{"a system message", func() fakemost.Post { return p.System(p.owner, p.dm, "system_header_change", "x") }, false},
		{"a plug-in", func() fakemost.Post { return p.PostProps(p.owner, p.dm, "", "x", map[string]any{"from_plugin": true}) }, false},
		{"false as text", func() fakemost.Post {
			return p.PostProps(p.owner, p.dm, "", "x", map[string]any{"from_webhook": "false"})
		}, false},
		{"a box", func() fakemost.Post {
			return p.PostProps(p.owner, p.dm, "", "x", map[string]any{"attachments": []any{map[string]any{"text": "approve"}}})
		}, false},
		{"other props", func() fakemost.Post {
			return p.PostProps(p.owner, p.dm, "", "x", map[string]any{"a": []any{1, "x"}, "boxmaker_key": map[string]any{}})
		}, true},
	} {
		tt.make()
		r.want("posted x")
		if e := r.all[len(r.all)-1].(Posted); e.Post.ByHand() != tt.want || e.Post.Props.Key != "" {
			t.Errorf("%s: %+v", tt.name, e.Post)
		}
	}
}

// Mentions in channels, and the types of channels.
func TestChannelTypes(t *testing.T) {
	p := newPlace(t)
	open := p.Channel("O", "ops", p.owner, p.stranger, p.bot)
	group := p.Channel("G", "abc", p.owner, p.stranger, p.bot)
	r := p.run(p.c)
	r.want("up, fresh")
	for _, tt := range []struct {
		channel, text string
		typ           ChannelType
		mentioned     bool
	}{
		{p.dm, "hello", Direct, true},
		{open, "hello", Public, false},
		{open, "hello @boxmaker", Public, true},
		{open, "hello me@boxmaker", Public, false},
		{group, "hello", Group, false},
	} {
		p.Post(p.owner, tt.channel, "", tt.text)
		r.want("posted " + tt.text)
		if e := r.all[len(r.all)-1].(Posted); e.ChannelType != tt.typ || e.Mentioned != tt.mentioned {
			t.Errorf("%+v: %+v", tt, e)
		}
	}
}

func TestEndWhileWaiting(t *testing.T) {
	p := newPlace(t)
	p.Inject(fakemost.Fault{Kind: fakemost.HangBefore})
	ctx, end := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, end)
	if err := p.c.Run(ctx, func(Event) {}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
