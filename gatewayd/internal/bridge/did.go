package bridge

import (
	"slices"
	"time"
	"unicode/utf8"

	"boxmaker/gatewayd/internal/queue"
	"boxmaker/gatewayd/internal/split"
)

// did takes the end of a request to the server.
func (m *Machine) did(now time.Time, e Did) error {
	t := m.tasks[e.Post]
	if t == nil {
		return nil // ended meanwhile
	}
	t.flying = false
	switch e.Fault {
	case None:
		t.fails, t.refused = 0, 0
		return m.done(now, t, e)
	case Unsure:
		t.sure[e.Key] = false
		m.later(now, t, e.After)
	case Away:
		if e.After > 0 {
			m.pause = now.Add(e.After)
		}
		m.later(now, t, e.After)
	case Refused:
		return m.refused(now, t, e)
	}
	return nil
}

func (m *Machine) later(now time.Time, t *task, least time.Duration) {
	t.fails++
	t.retry = now.Add(max(backOff(t.fails, backMax), least))
}

func (m *Machine) done(now time.Time, t *task, e Did) error {
	waits := e.Key == t.Key // the post that says to wait, whose text is not the last for certain
	switch e.Kind {
	case Find:
		if e.ID == "" {
			t.sure[e.Key] = true
			return nil
		}
		return m.cfg.Queue.Put(&queue.Placed{Post: t.Post, Key: e.Key, ID: e.ID, Final: !waits})
	case Create:
		t.shown, t.nextEdit = e.Text, now.Add(editPause(0))
		return m.cfg.Queue.Put(&queue.Placed{Post: t.Post, Key: e.Key, ID: e.ID, Final: e.Final})
	default:
		t.shown = e.Text
		if !e.Final {
			return nil
		}
		return m.cfg.Queue.Put(&queue.Placed{Post: t.Post, Key: e.Key, ID: e.ID, Final: true})
	}
}

// refused looks for another way when the server says no.
func (m *Machine) refused(now time.Time, t *task, e Did) error {
	if e.Closed {
		if !t.parked {
			m.want(Warn{"an answer waits for its channel, which is archived or without the bot", t.Post})
		}
		t.parked = true
		return nil
	}
	t.refused++
	n := slices.IndexFunc(t.Parts, func(p queue.Part) bool { return p.Key == e.Key })
	switch {
	case e.Root:
		return m.gone(t.Root)
	case e.Kind == Patch && !e.Final:
		t.frozen = true // the answer comes as a post of its own
		return nil
	case e.Kind == Find: // nobody looked at the post itself
	case e.Final && e.File != "":
		return m.instead(t, n, text(split.Harmless(e.File), smallPost))
	case e.Final && utf8.RuneCountInString(e.Text) > smallPost && t.refused <= 2:
		return m.instead(t, n, text(e.Text, smallPost))
	case e.Final && e.Kind == Patch:
		return m.anew(t, n)
	}
	if t.refused >= refusals {
		m.want(Warn{"an answer is given up, since the server refuses it; the session's log has it", t.Post})
		return m.cfg.Queue.Put(&queue.Done{Post: t.Post})
	}
	m.later(now, t, 0)
	return nil
}

// mostPosts bounds an answer that cannot be a file.
const mostPosts = 40

// text gives the posts of a text that the server did not take as it was.
func text(s string, limit int) []queue.Part {
	var out []queue.Part
	for _, p := range split.Parts(s, limit) {
		if len(out) == mostPosts {
			out = append(out, queue.Part{Text: "_The rest is left out here; the session's log has it._"})
			break
		}
		out = append(out, queue.Part{Text: p})
	}
	return out
}

// instead puts others in the place of the nth part.
func (m *Machine) instead(t *task, n int, parts []queue.Part) error {
	if n < 0 {
		return nil
	}
	for i := range parts {
		parts[i].Top = t.Parts[n].Top
		if parts[i].Key = t.Parts[n].Key; i > 0 {
			parts[i].Key = m.cfg.Key()
			t.sure[parts[i].Key] = true
		}
	}
	return m.cfg.Queue.Put(&queue.Reply{Post: t.Post, Parts: slices.Concat(t.Parts[:n], parts, t.Parts[n+1:])})
}

// anew leaves the post that said to wait as it is, and has the answer follow it. One
// record says both: of two only the first may be on disk.
func (m *Machine) anew(t *task, n int) error {
	if n < 0 {
		return nil
	}
	next := t.Parts[n]
	next.Key = m.cfg.Key()
	t.sure[next.Key] = true
	stays := queue.Part{Key: t.Parts[n].Key}
	return m.cfg.Queue.Put(&queue.Reply{Post: t.Post, Parts: slices.Concat(t.Parts[:n], []queue.Part{stays, next}, t.Parts[n+1:])})
}
