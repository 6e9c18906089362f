package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

// A model is all that is around a machine: a server that fails in every way, a loopd,
// the disk, and the clock.
type model struct {
	t    *rapid.T
	dir  string
	root *os.Root
	q    *queue.Queue
	m    *Machine
	now  time.Time
	keys int
	good bool // nothing fails any more

	posts   []*mpost
	noFiles bool
	closed  bool              // the channel takes nothing
	turns   map[string]*mturn // by message
	heard   map[string]queue.Heard
	gone    map[string]bool // messages whose thread was deleted
	told    map[string]bool
	alive   map[string]bool // messages with a Submit, Command or Tell under way in this life
	flying  map[string]bool // messages with a Do under way in this life
	pending []Effect
}

// An mpost is a post on the server.
type mpost struct {
	id, key, msg, root, text, file string
	locked                         bool        // every edit is refused
	edits                          []time.Time // but for the last
}

// An mturn is a turn in loopd.
type mturn struct {
	accepted, refused bool
	answer            string
}

const modelLimit = 200

func newModel(t *rapid.T) *model {
	base := "/dev/shm" // the log is synced at every step
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "bridge")
	must(t, err)
	root, err := os.OpenRoot(dir)
	must(t, err)
	w := &model{
		t: t, dir: dir, root: root, now: time.Unix(1_000_000_000, 0), turns: map[string]*mturn{}, heard: map[string]queue.Heard{},
		gone: map[string]bool{}, told: map[string]bool{},
	}
	w.open()
	return w
}

func (w *model) close() {
	must(w.t, w.q.Close())
	must(w.t, w.root.Close())
	must(w.t, os.RemoveAll(w.dir))
}

func must(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// open starts a machine on what is on disk.
func (w *model) open() {
	q, _, err := queue.Open(w.root)
	must(w.t, err)
	w.q = q
	if _, ok := q.First(); !ok {
		must(w.t, q.Put(&queue.First{At: 1}))
	}
	w.m = NewMachine(Config{Queue: q, Limit: modelLimit, Parts: 3, Open: 3, Key: func() string { w.keys++; return fmt.Sprint("k", w.keys) }})
	w.pending, w.alive, w.flying = nil, map[string]bool{}, map[string]bool{}
}

// crash ends the process. Requests under way are done or not. since is the size of
// the log from which on nothing is sure to be there; no effect of it was begun.
func (w *model) crash(since int64) {
	for _, e := range w.pending {
		if d, ok := e.(Do); ok && w.draw("done before the crash") {
			w.perform(d)
		}
	}
	size := w.size()
	must(w.t, w.q.Close())
	cut := size
	if since < size {
		cut = rapid.Int64Range(since, size).Draw(w.t, "cut")
	}
	must(w.t, os.Truncate(filepath.Join(w.dir, "queue.jsonl"), cut))
	w.open()
}

func (w *model) size() int64 {
	fi, err := os.Stat(filepath.Join(w.dir, "queue.jsonl"))
	must(w.t, err)
	return fi.Size()
}

func (w *model) draw(what string) bool { return !w.good && rapid.IntRange(0, 3).Draw(w.t, what) == 0 }

// step has the machine take an event, or the process ends within.
func (w *model) step(e Event) {
	before := w.size()
	effects, err := w.m.Step(w.now, e)
	must(w.t, err)
	if !w.good && rapid.IntRange(0, 30).Draw(w.t, "crash") == 0 {
		w.crash(before)
		return
	}
	for _, f := range effects {
		w.begin(f)
	}
	w.pending = append(w.pending, effects...)
}

// begin checks what must hold whenever something is wanted.
func (w *model) begin(f Effect) {
	once := func(set map[string]bool, post string) {
		if set[post] {
			w.t.Fatalf("two at a time for %s: %#v", post, f)
		}
		set[post] = true
	}
	switch f := f.(type) {
	case Do:
		once(w.flying, f.Post)
		if w.gone[f.Post] {
			w.t.Fatalf("a request for a deleted thread: %+v", f)
		}
		if n := len([]rune(f.Text)); n > modelLimit && n > smallPost {
			w.t.Fatalf("a post of %d runes", n)
		}
	case Submit:
		once(w.alive, f.Post)
		if h := w.heard[f.Post]; f.Text != h.Text || f.Session != "mm-"+h.Root || h.Command != "" {
			w.t.Fatalf("%+v of %+v", f, h)
		}
	case Command:
		once(w.alive, f.Post)
	case Tell:
		once(w.alive, f.Post)
		if !w.stands(f.Post) {
			w.show(f.Post)
			w.t.Fatalf("loopd is told of an answer that does not stand: %+v", f)
		}
	}
}

// turn lets loopd say something on a message.
func (w *model) turn(s Submit) (over bool) {
	t := w.turns[s.Post]
	if t == nil {
		t = &mturn{refused: w.draw("refuse")}
		n := rapid.IntRange(0, 700).Draw(w.t, "answer")
		t.answer = strings.Repeat("x", n%7) + " answer to " + s.Post + "\n\n" + strings.Repeat("word ", n)
		w.turns[s.Post] = t
	}
	kind := 9
	if !w.good {
		kind = rapid.IntRange(0, 9).Draw(w.t, "turn")
	}
	switch {
	case t.refused:
		w.step(Lost{Post: s.Post, Final: true, Text: "refused: " + s.Post})
		return true
	case kind == 0:
		w.step(Lost{Post: s.Post})
		return true
	case kind == 1 || kind == 2:
		t.accepted = true
		w.step(Turn{s.Post, &proto.Accepted{Queued: kind - 1}})
	case kind == 3:
		w.step(Turn{s.Post, &proto.Text{Text: "x"}})
	case kind == 4:
		w.step(Turn{s.Post, &proto.ToolStarted{Tool: "read_file"}})
	case kind == 5:
		w.step(Turn{s.Post, &proto.Prefill{Done: int64(rapid.IntRange(0, 100).Draw(w.t, "prefill")), Total: 100}})
	default:
		w.step(Turn{s.Post, &proto.Done{Outcome: proto.TurnAnswered, Answer: t.answer}})
		return true
	}
	return false
}

// goOn takes the nth thing that is under way on.
func (w *model) goOn(n int) {
	e := w.pending[n]
	w.pending = slices.Delete(w.pending, n, n+1)
	life := w.m
	switch e := e.(type) {
	case Do:
		w.end(e)
	case Submit:
		delete(w.alive, e.Post)
		if !w.turn(e) && w.m == life { // it goes on
			w.alive[e.Post] = true
			w.pending = append(w.pending, e)
		}
	case Command:
		delete(w.alive, e.Post)
		w.step(Said{Post: e.Post, Text: "said " + e.Post, Top: e.Command == "new"})
	case Tell:
		delete(w.alive, e.Post)
		ok := !w.draw("tell fails")
		w.told[e.Post] = w.told[e.Post] || ok
		w.step(Told{e.Post, ok})
	}
}

// hear brings a message, maybe for the second time.
func (w *model) hear() {
	n := len(w.heard)
	if n > 0 && w.draw("again") {
		n = rapid.IntRange(0, n-1).Draw(w.t, "which")
	}
	post := fmt.Sprint("p", n)
	h, known := w.heard[post]
	if !known {
		h = queue.Heard{Post: post, Root: post, Channel: "c", At: w.now.UnixMilli(), Text: "text " + post}
		if n > 0 && w.draw("in a thread") {
			h.Root = w.heard[fmt.Sprint("p", rapid.IntRange(0, n-1).Draw(w.t, "root"))].Root
		}
		if w.draw("command") {
			h.Command, h.Text = rapid.SampledFrom([]string{"stop", "new", "say"}).Draw(w.t, "kind"), ""
		}
		w.heard[post] = h
	}
	life := w.m
	w.step(Heard{h})
	if w.m != life && !known { // the process ended within: the history brings it once more
		if _, ok := w.q.Get(post); !ok && w.q.Fresh(post, h.Channel, h.At) {
			delete(w.heard, post)
		}
	}
}

// deleteRoot deletes the first post of a thread.
func (w *model) deleteRoot() {
	if len(w.heard) == 0 {
		return
	}
	root := w.heard[fmt.Sprint("p", rapid.IntRange(0, len(w.heard)-1).Draw(w.t, "deleted"))].Root
	for post, h := range w.heard {
		if h.Root == root {
			w.gone[post] = true
		}
	}
	for life := (*Machine)(nil); life != w.m; { // one that ended within is told once more, by the history
		life = w.m
		w.step(Gone{root})
	}
}

// settle lets everything come to an end.
func (w *model) settle() {
	w.good, w.closed = true, false
	w.step(Opened{"c"})
	for range 5000 {
		if w.q.Len() == 0 && len(w.pending) == 0 {
			return
		}
		if len(w.pending) > 0 {
			w.goOn(0)
			continue
		}
		w.now = w.now.Add(time.Second)
		w.step(Tick{})
	}
	for _, i := range w.q.Open() {
		w.t.Logf("open: %+v %+v", i, w.m.tasks[i.Post])
	}
	w.t.Fatal("it comes to no end")
}

// TestAlwaysOneAnswer: whatever fails, and wherever the process ends, each message
// gets its answer once, and nothing else is touched.
func TestAlwaysOneAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newModel(t)
		defer w.close()
		w.noFiles = w.draw("no files")
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "act") {
			case 0, 1:
				w.hear()
			case 2:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
				w.step(Tick{})
			case 3:
				if w.draw("power cut") {
					w.crash(w.size())
				}
			case 4:
				if w.draw("delete") {
					w.deleteRoot()
				} else if w.draw("close or open") {
					if w.closed = !w.closed; !w.closed {
						w.step(Opened{"c"})
					}
				} else if len(w.posts) > 0 && w.draw("lock") {
					p := w.posts[rapid.IntRange(0, len(w.posts)-1).Draw(t, "locked")]
					p.locked = p.locked || strings.HasPrefix(p.text, "⏳")
				}
			case 5:
				w.step(Up{})
			default:
				if len(w.pending) > 0 {
					w.goOn(rapid.IntRange(0, len(w.pending)-1).Draw(t, "goes on"))
				}
			}
		}
		w.settle()
		for post := range w.heard {
			if !w.gone[post] && !w.stands(post) {
				w.show(post)
				t.Fatalf("the answer to %+v does not stand", w.heard[post])
			}
			if !w.gone[post] && w.heard[post].Command == "" && !w.told[post] {
				t.Fatalf("loopd is not told of %s", post)
			}
		}
		before := len(w.posts)
		for _, h := range w.heard { // events that come late
			w.step(Heard{h})
		}
		w.settle()
		if len(w.posts) != before {
			t.Fatal("a message was answered twice")
		}
	})
}
