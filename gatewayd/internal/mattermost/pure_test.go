package mattermost

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/fakemost"

	"pgregory.net/rapid"
)

// Whatever is lost, sent twice or cut: an event whose number was skipped is
// preceded by a fresh Up, and none is told twice.
func TestTrackNeverHidesAGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr track
		told := map[int64]bool{}
		var server int64 // the number that the server sends next
		id := "aaaaaaaaaaaaaaaaaaaaaaaaaa"
		feed := func(f frame) {
			before := tr.next
			evs, err := tr.feed(f, "")
			if err != nil {
				t.Fatal(err)
			}
			fresh, posted := false, false
			for _, e := range evs {
				switch e := e.(type) {
				case Up:
					fresh = fresh || e.Fresh
				case Posted:
					posted = true
				}
			}
			if f.Event == "hello" {
				told = map[int64]bool{}
			}
			if f.Event != "posted" {
				return
			}
			if f.Seq > before && !fresh {
				t.Fatalf("a gap before %d, after %d, and nobody was told", f.Seq, before)
			}
			if posted == told[f.Seq] {
				t.Fatalf("number %d: told before %v, told now %v", f.Seq, told[f.Seq], posted)
			}
			told[f.Seq] = true
		}
		post := frame{Event: "posted", Data: []byte(`{"post":"{\"id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaa\",\"user_id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaa\",\"channel_id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaa\"}"}`)}
		hello := frame{Event: "hello", Data: []byte(`{"connection_id":"` + id + `"}`)}
		tr.begin()
		feed(hello)
		server = 1
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				post.Seq = server
				feed(post)
				server++
			case 2: // lost
				server++
			case 3: // again
				if server > 1 && told[server-1] {
					post.Seq = server - 1
					evs, err := tr.feed(post, "")
					if err != nil || len(evs) != 0 {
						t.Fatalf("told twice: %v %v", evs, err)
					}
				}
			case 4: // cut and taken up where we ask
				if tr.begin() {
					server = tr.next
				}
			case 5: // cut and begun anew
				tr.begin()
				feed(hello)
				server = 1
			}
		}
	})
}

func TestBackOff(t *testing.T) {
	for _, r := range []float64{0, 0.5, 0.999} {
		c, err := New(Config{URL: "https://x", Token: secret.NewText("12345678"), Rand: func() float64 { return r }})
		if err != nil {
			t.Fatal(err)
		}
		last := time.Duration(0)
		for n := range 1000 {
			d := c.backOff(n, errSilent)
			if d < last || d < 250*time.Millisecond || d > time.Minute {
				t.Fatalf("attempt %d: %s after %s", n, d, last)
			}
			last = d
		}
		if last < 30*time.Second {
			t.Errorf("%s in the end", last)
		}
		if d := c.backOff(0, &Busy{After: 90 * time.Second}); d < 90*time.Second {
			t.Errorf("%s where the server asks for 90 s", d)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"": time.Second, "0": time.Second, "-5": time.Second, "x": time.Second, "7": 7 * time.Second, " 2 ": 2 * time.Second,
		"999999999": pauseLimit, "99999999999999999999": time.Second, "Wed, 21 Oct 2026 07:28:00 GMT": time.Second,
	} {
		if got := pause(map[string][]string{"Retry-After": {in}}); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// History is complete and in order, however the posts' times fall together.
func TestSinceMoreThanTheServerGives(t *testing.T) {
	p := newPlace(t)
	var want []string
	for range 1500 {
		want = append(want, p.Post(p.owner, p.dm, "", "x").ID)
	}
	b, err := p.c.Since(t.Context(), p.dm, 0)
	var got []string
	for _, post := range b.Posts {
		got = append(got, post.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || b.Cut || !slices.Equal(got, want) {
		t.Errorf("%d of %d posts, cut %v: %v", len(got), len(want), b.Cut, err)
	}
	if !slices.IsSortedFunc(b.Posts, func(a, b Post) int { return int(a.CreateAt - b.CreateAt) }) {
		t.Error("not in order")
	}
}

// Old texts are passed over, deleted posts are told, and a reaction brings its post again.
func TestSinceAfterChanges(t *testing.T) {
	p := newPlace(t)
	a := p.Post(p.owner, p.dm, "", "a")
	b := p.Post(p.owner, p.dm, "", "b")
	c := p.Post(p.owner, p.dm, "", "c")
	p.Edit(p.owner, a.ID, "a, edited")
	p.Delete(p.owner, b.ID)
	p.React(p.owner, c.ID, "+1")
	batch, err := p.c.Since(t.Context(), p.dm, a.CreateAt-1)
	if err != nil || len(batch.Posts) != 2 || batch.Posts[0].Message != "a, edited" || batch.Posts[1].ID != c.ID || !slices.Equal(batch.Deleted, []string{b.ID}) {
		t.Errorf("%+v %v", batch, err)
	}
	now, _ := p.Get(c.ID)
	if batch.Until != now.UpdateAt {
		t.Errorf("until %d, want %d", batch.Until, now.UpdateAt)
	}
	if batch, err = p.c.Since(t.Context(), p.dm, batch.Until); err != nil || len(batch.Posts) != 0 {
		t.Errorf("again: %+v %v", batch, err)
	}
}

func TestThreadOfManyPages(t *testing.T) {
	p := newPlace(t)
	root := p.Post(p.owner, p.dm, "", "root")
	for range 450 {
		p.Post(p.owner, p.dm, root.ID, "reply")
	}
	ps, err := p.c.Thread(t.Context(), root.ID)
	if err != nil || len(ps) != 451 || ps[0].ID != root.ID {
		t.Errorf("%d posts: %v", len(ps), err)
	}
}

// An id goes into a path only if it is one.
func TestIDs(t *testing.T) {
	p := newPlace(t)
	for _, bad := range []string{"", "me", "../users/me", strings.Repeat("A", 26), strings.Repeat("a", 25) + "/", strings.Repeat("a", 27)} {
		for name, err := range map[string]error{
			"Get": second(p.c.Get(t.Context(), bad)), "User": second(p.c.User(t.Context(), bad)), "Since": second(p.c.Since(t.Context(), bad, 1)),
			"Thread": second(p.c.Thread(t.Context(), bad)), "Patch": second(p.c.Patch(t.Context(), bad, "")), "Delete": p.c.Delete(t.Context(), bad),
			"Channel": second(p.c.Channel(t.Context(), bad)), "Create": second(p.c.Create(t.Context(), Draft{Channel: bad})),
		} {
			if err == nil {
				t.Errorf("%s takes %q", name, bad)
			}
		}
	}
	if got := p.Requests("", ""); len(got) != 0 {
		t.Errorf("asked: %+v", got)
	}
	for _, bad := range []string{"", "..", ".", "a/b", "a?b", "é", "@"} {
		if _, err := p.c.UserByName(t.Context(), bad); err == nil {
			t.Errorf("the name %q is taken", bad)
		}
	}
}

func TestTextThatIsNoUTF8(t *testing.T) {
	p := newPlace(t)
	if _, err := p.c.Create(t.Context(), Draft{Channel: p.dm, Message: "\xff"}); outcome(err) != "not done" {
		t.Error(err)
	}
	f, err := decodeFrame([]byte("{\"event\":\"x\xff\",\"seq\":1}"))
	if err != nil || f.Event != "x\ufffd" {
		t.Error(f, err)
	}
}

// What decodes keeps to what is promised of it; nothing panics.
func FuzzFrame(f *testing.F) {
	s := fakemost.NewID()
	post, _ := json.Marshal(map[string]any{"id": s, "user_id": s, "channel_id": s, "props": map[string]any{"from_webhook": "true", keyProp: "k"}})
	for _, ev := range []string{"posted", "post_edited", "post_deleted", "reaction_added", "hello", "typing"} {
		b, _ := json.Marshal(map[string]any{"event": ev, "seq": 1, "data": map[string]any{"post": string(post), "reaction": `{"user_id":"` + s + `","post_id":"` + s + `"}`, "mentions": `["` + s + `"]`, "connection_id": s}})
		f.Add(b)
	}
	f.Add([]byte(`{"status":"FAIL","seq_reply":1,"error":{"status_code":401}}`))
	f.Add([]byte(`{"event":"posted","seq":1,"data":{"post":"{\"props\":null}"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := decodeFrame(b)
		if err != nil {
			return
		}
		var tr track
		tr.begin()
		evs, err := tr.feed(fr, "me")
		if err != nil && errors.Is(err, errSession) && len(evs) > 0 {
			t.Error("events of a lost session")
		}
		for _, e := range evs {
			var p Post
			switch e := e.(type) {
			case Posted:
				p = e.Post
			case Edited:
				p = e.Post
			case Deleted:
				p = e.Post
			default:
				continue
			}
			if err == nil && (!ValidID(p.ID) || !ValidID(p.User) || !ValidID(p.Channel)) {
				t.Errorf("a post without its ids: %+v", p)
			}
		}
	})
}

func TestPort(t *testing.T) {
	for address, want := range map[string]uint16{
		"https://chat.example.com": 443, "http://127.0.0.1": 80, "https://chat.example.com:8443/sub": 8443, "http://[::1]:8065": 8065,
	} {
		if got := Port(address); got != want {
			t.Errorf("%s: %d", address, got)
		}
	}
}
