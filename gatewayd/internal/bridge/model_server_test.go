package bridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"boxmaker/gatewayd/internal/split"
	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

// perform changes the server.
func (w *model) perform(d Do) (id string, ok bool) {
	switch d.Kind {
	case Find:
		for _, p := range w.posts {
			if p.key == d.Key {
				return p.id, true
			}
		}
		return "", true
	case Create:
		if d.File != "" && w.noFiles {
			return "", false
		}
		for _, p := range w.posts {
			if p.key == d.Key {
				w.t.Fatalf("a second post under one key: %+v", d)
			}
		}
		w.inOrder(d)
		p := &mpost{id: fmt.Sprint("s", len(w.posts)), key: d.Key, msg: d.Post, root: d.Root, text: d.Text, file: d.File}
		w.posts = append(w.posts, p)
		return p.id, true
	default:
		for _, p := range w.posts {
			if p.id != d.ID {
				continue
			}
			if p.key != d.Key || p.msg != d.Post {
				w.t.Fatalf("an edit of another's post: %+v of %+v", d, p)
			}
			if p.locked {
				return d.ID, false
			}
			if p.text = d.Text; !d.Final {
				p.edits = append(p.edits, w.now)
				if n := len(p.edits); n > 30 && w.now.Sub(p.edits[n-31]) < 5*time.Minute {
					w.t.Fatalf("31 edits of a post within %s", w.now.Sub(p.edits[n-31]))
				}
			}
			return d.ID, true
		}
		w.t.Fatalf("an edit of no post of ours: %+v", d)
		return "", false
	}
}

// inOrder checks that the first post for a message stands behind those for earlier
// ones of its thread.
func (w *model) inOrder(d Do) {
	h := w.heard[d.Post]
	if i, ok := w.q.Get(d.Post); !ok || i.Key != d.Key || h.Command != "" {
		return
	}
	for _, i := range w.q.Open() {
		if i.Post == d.Post {
			return
		}
		if i.Root == h.Root && i.Command == "" && !slices.ContainsFunc(w.posts, func(p *mpost) bool { return p.key == i.Key }) {
			w.t.Fatalf("the post for %s comes before that for %s", d.Post, i.Post)
		}
	}
}

// end ends a request in some way.
func (w *model) end(d Do) {
	delete(w.flying, d.Post)
	did := Did{Do: d, ID: d.ID}
	fault := 0
	if !w.good {
		fault = rapid.IntRange(0, 7).Draw(w.t, "fault")
	}
	switch fault {
	case 1:
		did.Fault = Away
	case 2:
		did.Fault, did.After = Away, time.Duration(rapid.IntRange(1, 90).Draw(w.t, "after"))*time.Second
	case 3:
		did.Fault = Unsure
	case 4:
		did.Fault = Unsure
		w.perform(d)
	default:
		if w.closed {
			did.Fault, did.Closed = Refused, true
			break
		}
		id, ok := w.perform(d)
		if did.ID = id; !ok {
			did.Fault = Refused
		}
	}
	w.step(did)
}

// stands reports whether the answer to a message is on the server, whole and once.
func (w *model) stands(post string) bool {
	want := w.want(post)
	if want == nil {
		return false
	}
	var got []string
	for _, p := range w.posts {
		if p.msg == post && !(p.locked && strings.HasPrefix(p.text, "⏳")) {
			got = append(got, p.text+p.file)
		}
	}
	return slices.Equal(got, want)
}

// show prints an answer as it is and as it should be.
func (w *model) show(post string) {
	for _, p := range w.posts {
		if p.msg == post {
			w.t.Logf("is   %s %s %v %q %q", p.id, p.key, p.locked, p.text, p.file)
		}
	}
	for _, s := range w.want(post) {
		w.t.Logf("want %q", s)
	}
}

// want gives the posts that an answer should have.
func (w *model) want(post string) (out []string) {
	h := w.heard[post]
	if h.Command != "" {
		return []string{"said " + post}
	}
	t := w.turns[post]
	switch {
	case t == nil:
		return nil
	case t.refused:
		return []string{"refused: " + post}
	}
	for _, p := range w.m.answer(&proto.Done{Outcome: proto.TurnAnswered, Answer: t.answer}, h.Files) {
		if p.File != "" && w.noFiles {
			for _, p := range text(split.Harmless(p.File), smallPost) {
				out = append(out, p.Text)
			}
			continue
		}
		out = append(out, p.Text+p.File)
	}
	return out
}
