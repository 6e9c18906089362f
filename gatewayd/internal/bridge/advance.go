package bridge

import (
	"slices"
	"time"

	"boxmaker/gatewayd/internal/queue"
)

// advance does what can be done for a message now.
func (m *Machine) advance(now time.Time, t *task) error {
	if t.Parts == nil {
		m.ask(now, t)
	}
	if t.parked {
		return m.outlast(now, t)
	}
	if t.flying || now.Before(t.retry) || now.Before(m.pause) || m.follows(t) {
		return nil
	}
	if t.Parts == nil {
		m.progress(now, t)
		return nil
	}
	for _, p := range t.Parts {
		if t.Final[p.Key] || p.Stays() {
			continue
		}
		m.place(t, p)
		return nil
	}
	return m.posted(now, t)
}

// follows reports whether the first post for a message waits for that of an earlier one:
// in a thread they stand in the order of the messages.
func (m *Machine) follows(t *task) bool {
	if _, there := t.Placed[t.Key]; there || t.Command != "" {
		return false
	}
	for _, i := range m.cfg.Queue.Open() {
		if i.Post == t.Post {
			break
		}
		if _, there := i.Placed[i.Key]; !there && i.Root == t.Root && i.Command == "" {
			return true
		}
	}
	return false
}

// posted ends a message whose answer stands.
func (m *Machine) posted(now time.Time, t *task) error {
	if t.Command != "" {
		return m.cfg.Queue.Put(&queue.Done{Post: t.Post})
	}
	if !now.Before(t.loopRetry) && !t.asked {
		t.asked = true
		m.want(Tell{t.Post, Session(t.Root), t.Key})
	}
	return nil
}

// ask brings the message to who answers it.
func (m *Machine) ask(now time.Time, t *task) {
	if t.asked || now.Before(t.loopRetry) {
		return
	}
	if t.Command != "" {
		t.asked = true
		m.want(Command{t.Post, t.Command, m.running(t), m.cfg.Queue.Len() - 1})
		return
	}
	for _, i := range m.cfg.Queue.Open() { // in the order in which they were written
		if i.Post == t.Post {
			break
		}
		other := m.tasks[i.Post]
		if i.Root == t.Root && i.Command == "" && i.Parts == nil && (other == nil || !other.accepted) {
			return
		}
	}
	t.asked = true
	m.want(Submit{t.Post, Session(t.Root), t.Text})
}

// running gives the sessions that a command is about: that of its thread, or, if
// it opens one, those of its channel that are at work, the newest first.
func (m *Machine) running(t *task) []string {
	if t.Root != t.Post {
		return []string{Session(t.Root)}
	}
	var out []string
	for _, i := range slices.Backward(m.cfg.Queue.Open()) {
		if i.Channel == t.Channel && i.Command == "" && i.Parts == nil && !slices.Contains(out, Session(i.Root)) {
			out = append(out, Session(i.Root))
		}
	}
	return out
}

// progress keeps the post that says to wait.
func (m *Machine) progress(now time.Time, t *task) {
	if t.Command != "" {
		return // answered at once
	}
	text := t.view.text(now.Sub(t.began), t.Files)
	id, there := t.Placed[t.Key]
	switch {
	case !there:
		m.fly(t, Do{Kind: Create, Key: t.Key, Root: t.Root, Text: text})
	case text != t.shown && !t.frozen && !now.Before(t.nextEdit):
		m.fly(t, Do{Kind: Patch, Key: t.Key, ID: id, Root: t.Root, Text: text})
		t.edits++
		t.nextEdit = now.Add(editPause(t.edits))
	case t.view.works() && now.Sub(t.typed) >= typingEvery:
		t.typed = now
		m.want(Typing{t.Channel, t.Root})
	}
}

// editPause stands behind the nth edit of a post: each leaves a row in the
// server's history. Some 20 fit into five minutes.
func editPause(n int) time.Duration {
	d := 2 * time.Second
	for range n {
		d = d * 6 / 5
	}
	return min(d, 30*time.Second)
}

// place brings a part of the answer to the server.
func (m *Machine) place(t *task, p queue.Part) {
	if id, there := t.Placed[p.Key]; there {
		m.fly(t, Do{Kind: Patch, Key: p.Key, ID: id, Root: t.Root, Text: p.Text, Final: true})
		return
	}
	root := t.Root
	if p.Top {
		root = ""
	}
	m.fly(t, Do{Kind: Create, Key: p.Key, Root: root, Text: p.Text, File: p.File, Final: true})
}

// fly sends a request off. One that makes a post is a search first, unless it is
// sure that there is none.
func (m *Machine) fly(t *task, d Do) {
	d.Post, d.Channel, d.Since = t.Post, t.Channel, t.At
	if d.Kind == Create && !t.sure[d.Key] {
		d.Kind = Find
	}
	t.flying = true
	m.want(d)
}
