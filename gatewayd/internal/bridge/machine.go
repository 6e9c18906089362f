// Package bridge is the bot: messages of the owner become turns of loopd, and what
// comes of them becomes posts.
//
// The [Machine] decides; it is pure but for the log of package queue, into which it
// writes before it wants anything done. It guarantees that each message that was
// heard starts at most one turn (loopd knows it by its post's id) and gets exactly
// one answer, over every restart and failure, as far as the server can be asked
// whether a post with an unguessable key is there. A post that says to wait stands
// from the first moment, is edited seldom, and becomes the answer. It never drops a
// message but where its thread was deleted or the server refuses the answer for
// good; the session's log then has it.
//
// The [Bot] carries out what the machine wants. It judges posts by package allow
// alone. No text of a post is in its log.
package bridge

import (
	"strings"
	"time"

	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/proto"
)

// Pauses and limits.
const (
	backMin     = time.Second
	backMax     = time.Minute
	loopMax     = 15 * time.Second
	typingEvery = 5 * time.Second
	// refusals is how often a refused post is tried, with growing pauses: rights
	// and channels can come back within half an hour.
	refusals = 40
	// smallPost is what every server takes.
	smallPost = 4000
	// commandsOpen is how many commands are answered at a time.
	commandsOpen = 8
	// editsBefore is the pace of a post that an earlier process may have edited.
	editsBefore = 10
)

// Config is what a Machine works with.
type Config struct {
	Queue *queue.Queue
	Limit int           // runes of a post
	Parts int           // posts of an answer
	Open  int           // messages that are worked on at a time
	Key   func() string // that nobody can guess
}

// A Machine is the state of all messages. [Machine.Step] is not for several
// goroutines.
type Machine struct {
	cfg   Config
	tasks map[string]*task // the messages that are worked on
	fresh map[string]bool  // those that were heard since the start and have no task: nothing is on the server
	pause time.Time        // the server wants no request before
	out   []Effect
}

// A task is what is known of a message in this process.
type task struct {
	*queue.Item
	began    time.Time
	sure     map[string]bool // keys under which nothing is on the server
	flying   bool            // a request is under way
	retry    time.Time
	fails    int
	refused  int
	frozen   bool // the waiting post takes no edit
	parked   bool // its channel takes nothing: it waits for Opened
	shown    string
	edits    int
	nextEdit time.Time
	typed    time.Time

	asked     bool // loopd follows its turn, or its command runs
	accepted  bool
	loopRetry time.Time
	loopFails int
	view      view
}

// NewMachine takes over what the queue holds.
func NewMachine(cfg Config) *Machine {
	return &Machine{cfg: cfg, tasks: map[string]*task{}, fresh: map[string]bool{}}
}

// Session gives the session of a thread.
func Session(root string) string { return "mm-" + root }

// Step takes an event and gives what is to be done. An error means that the log
// failed: nothing more may be done.
func (m *Machine) Step(now time.Time, e Event) ([]Effect, error) {
	m.out = nil
	if err := m.take(now, e); err != nil {
		return nil, err
	}
	messages, commands := 0, 0
	for _, item := range m.cfg.Queue.Open() {
		n, most := &messages, m.cfg.Open
		if item.Command != "" { // those do not wait behind messages
			n, most = &commands, commandsOpen
		}
		if t := m.tasks[item.Post]; t == nil || !t.parked { // which holds nobody up
			*n++
		}
		if *n > most {
			continue
		}
		if m.tasks[item.Post] == nil {
			m.tasks[item.Post] = m.begin(now, item)
		}
		if err := m.advance(now, m.tasks[item.Post]); err != nil {
			return nil, err
		}
	}
	for post := range m.tasks {
		if _, ok := m.cfg.Queue.Get(post); !ok {
			delete(m.tasks, post)
		}
	}
	return m.out, nil
}

// begin takes a message up. Of one that was heard before the start it is not known
// what is on the server, nor how often its post was edited.
func (m *Machine) begin(now time.Time, item *queue.Item) *task {
	t := &task{Item: item, began: now, sure: map[string]bool{}}
	if m.fresh[item.Post] {
		delete(m.fresh, item.Post)
		t.sure[item.Key] = true
		return t
	}
	t.edits = editsBefore
	t.nextEdit = now.Add(editPause(t.edits))
	return t
}

func (m *Machine) want(e Effect) { m.out = append(m.out, e) }

func (m *Machine) take(now time.Time, e Event) error {
	switch e := e.(type) {
	case Heard:
		return m.heard(now, e.Heard)
	case Gone:
		return m.gone(e.Post)
	case Turn:
		return m.turn(e)
	case Lost:
		return m.lost(now, e)
	case Said:
		return m.said(e)
	case Did:
		return m.did(now, e)
	case Told:
		return m.told(now, e)
	case Caught:
		if e.At > m.cfg.Queue.Mark(e.Channel) {
			return m.cfg.Queue.Put(&queue.Mark{Channel: e.Channel, At: e.At})
		}
	case Opened:
		m.opened(e.Channel)
	case Up:
		for _, t := range m.tasks {
			t.retry, t.fails = time.Time{}, 0
		}
	case Tick:
	}
	return nil
}

func (m *Machine) heard(now time.Time, h queue.Heard) error {
	if !m.cfg.Queue.Fresh(h.Post, h.Channel, h.At) {
		return nil
	}
	h.Key = m.cfg.Key()
	if h.Command == commandNone {
		return m.cfg.Queue.Put(&h, &queue.Done{Post: h.Post})
	}
	if err := m.cfg.Queue.Put(&h); err != nil {
		return err
	}
	m.fresh[h.Post] = true
	return nil
}

// gone ends what was said in a thread whose first post is deleted.
func (m *Machine) gone(root string) error {
	running := false
	var done []queue.Record
	for _, i := range m.cfg.Queue.Open() {
		if i.Root != root {
			continue
		}
		running = running || i.Command == "" && i.Parts == nil // also if this process has not asked for it yet
		delete(m.fresh, i.Post)
		done = append(done, &queue.Done{Post: i.Post})
	}
	if len(done) == 0 {
		return nil
	}
	if running {
		m.want(Stop{Session(root)})
	}
	return m.cfg.Queue.Put(done...)
}

// reply makes the answer durable. It begins in the post that said to wait.
func (m *Machine) reply(t *queue.Item, texts []queue.Part) error {
	texts[0].Key = t.Key
	for n := range texts {
		if texts[n].Stays() || trimmed(texts[n].Text) && texts[n].File == "" {
			texts[n].Text = "_The answer is empty._"
		}
		if n > 0 {
			texts[n].Key = m.cfg.Key()
			if task := m.tasks[t.Post]; task != nil {
				task.sure[texts[n].Key] = true
			}
		}
	}
	if task := m.tasks[t.Post]; task != nil {
		task.asked, task.loopRetry, task.loopFails = false, time.Time{}, 0
	}
	return m.cfg.Queue.Put(&queue.Reply{Post: t.Post, Parts: texts})
}

// open gives the task of a message that has no answer yet.
func (m *Machine) open(post string) *task {
	if t := m.tasks[post]; t != nil && t.Parts == nil {
		return t
	}
	return nil
}

func (m *Machine) turn(e Turn) error {
	t := m.open(e.Post)
	if t == nil {
		return nil
	}
	t.loopFails = 0
	if d, ok := e.M.(*proto.Done); ok {
		return m.reply(t.Item, m.answer(d, t.Files))
	}
	if _, ok := e.M.(*proto.Accepted); ok {
		t.accepted = true
	}
	t.view.see(e.M)
	return nil
}

func (m *Machine) lost(now time.Time, e Lost) error {
	t := m.open(e.Post)
	if t == nil {
		return nil
	}
	t.asked = false
	if e.Final {
		return m.reply(t.Item, []queue.Part{{Text: e.Text}})
	}
	t.loopFails++
	t.loopRetry = now.Add(backOff(t.loopFails, loopMax))
	t.view.away = true
	return nil
}

func (m *Machine) said(e Said) error {
	t := m.open(e.Post)
	if t == nil {
		return nil
	}
	return m.reply(t.Item, []queue.Part{{Text: e.Text, Top: e.Top}})
}

func (m *Machine) told(now time.Time, e Told) error {
	t := m.tasks[e.Post]
	if t == nil || !t.Posted() {
		return nil
	}
	if e.OK {
		return m.cfg.Queue.Put(&queue.Done{Post: e.Post})
	}
	t.asked = false
	t.loopFails++
	t.loopRetry = now.Add(backOff(t.loopFails, loopMax))
	return nil
}

func backOff(fails int, most time.Duration) time.Duration {
	return min(backMin<<min(fails-1, 10), most)
}

// trimmed reports whether text would show as nothing.
func trimmed(text string) bool { return strings.TrimSpace(text) == "" }
