package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const modelID = "chat-model"

// A model is what the session must hold: the records of each epoch as encoded,
// and the fold of their origins written down in another way.
type model struct {
	epochs  [][]proto.Record
	origins map[string]bool // id to started
	queue   []string
	nextID  int
	body    []byte // newest request that was made from acknowledged records
}

// A world is a session on disk under test beside its model.
type world struct {
	t     *rapid.T
	dir   string
	store *Store
	shut  func()
	c     *Session
	m     model
}

func (w *world) take(recs ...proto.Record) {
	last := len(w.m.epochs) - 1
	w.m.epochs[last] = append(w.m.epochs[last], recs...)
	for _, r := range recs {
		switch r := r.(type) {
		case *proto.Queued:
			w.m.origins[r.Origin] = false
			w.m.queue = append(w.m.queue, r.Origin)
		case *proto.User:
			w.m.origins[r.Origin] = true
			for i, q := range w.m.queue {
				if q == r.Origin {
					w.m.queue = append(w.m.queue[:i:i], w.m.queue[i+1:]...)
					break
				}
			}
		}
	}
}

// draw makes a batch that the session must take.
func (w *world) draw() []proto.Record {
	var recs []proto.Record
	queue := w.m.queue
	for range rapid.IntRange(1, 4).Draw(w.t, "batch") {
		text := rapid.StringN(0, 20, 60).Draw(w.t, "text")
		w.m.nextID++
		id := fmt.Sprintf("o%d", w.m.nextID)
		switch rapid.SampledFrom([]string{"user", "queued", "start", "assistant", "tool", "completion", "turn"}).Draw(w.t, "kind") {
		case "user":
			recs = append(recs, user(id, text))
		case "queued":
			recs = append(recs, queued(id, text))
		case "start":
			if len(queue) > 0 {
				recs = append(recs, user(queue[0], text))
				queue = queue[1:]
			}
		case "assistant":
			recs = append(recs, assistant(text))
		case "tool":
			recs = append(recs, &proto.Tool{Call: modelID + "/1/1/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Message: prompt.ToolMessage(id, text)})
		case "completion":
			recs = append(recs, &proto.Completion{Finish: "stop", CacheN: 1})
		default:
			recs = append(recs, ended(id, 0))
			w.m.origins[id] = false
		}
	}
	return recs
}

func (w *world) append() {
	recs := w.draw()
	if len(recs) == 0 {
		return
	}
	first := appendTo(w.t, w.c, recs...)
	if want := int64(len(w.m.epochs[len(w.m.epochs)-1])); first != want {
		w.t.Fatalf("appended at %d, want %d", first, want)
	}
	w.take(recs...)
}

func (w *world) newEpoch() {
	b := baseline(fmt.Sprint("epoch ", len(w.m.epochs)+1))
	startEpoch(w.t, w.c, b)
	w.m.epochs = append(w.m.epochs, []proto.Record{b})
	w.m.body = nil
}

// kill ends the process while records are written: of their bytes any beginning
// may be on disk.
func (w *world) kill() {
	file := filepath.Join(w.dir, modelID, fmt.Sprintf("%04d.jsonl", len(w.m.epochs)))
	before := readFile(w.t, file)
	recs := w.draw()
	if len(recs) > 0 {
		appendTo(w.t, w.c, recs...)
	}
	after := readFile(w.t, file)
	w.close()
	cut := rapid.IntRange(len(before), len(after)).Draw(w.t, "cut")
	writeFile(w.t, after[:cut], file)
	written := after[len(before):cut]
	whole := bytes.Count(written, []byte("\n"))
	w.take(recs[:whole]...)
	torn := len(written) - (bytes.LastIndexByte(written, '\n') + 1)
	w.reopen()
	rec, ok := w.c.Recovered()
	if ok != (torn > 0) || rec.Bytes != int64(torn) {
		w.t.Fatalf("%d torn bytes: recovered %v, %+v", torn, ok, rec)
	}
}

// killNewEpoch ends the process while an epoch is started.
func (w *world) killNewEpoch() {
	b := baseline("never")
	line, err := proto.EncodeRecord(proto.Header{Time: start}, b)
	if err != nil {
		w.t.Fatal(err)
	}
	w.close()
	temp := filepath.Join(w.dir, newPrefix+modelID, "0001.jsonl")
	if n := len(w.m.epochs); n > 0 {
		temp = filepath.Join(w.dir, newName(epochName(modelID, n+1)))
	}
	if err := os.MkdirAll(filepath.Dir(temp), 0o700); err != nil {
		w.t.Fatal(err)
	}
	cut := rapid.IntRange(0, len(line)).Draw(w.t, "cut")
	writeFile(w.t, line[:cut], temp)
	w.reopen()
}

func (w *world) close() {
	if err := w.c.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.shut()
}

// reopen opens what is on disk and compares it with the model. A recovery's own
// record joins the model.
func (w *world) reopen() {
	w.store, w.shut = openStore(w.t, w.dir)
	var p *prompt.Prompt
	var got []proto.Record
	c, err := w.store.Open(modelID, func(epoch int, h proto.Header, r proto.Record) error {
		if b, ok := r.(*proto.Baseline); ok {
			var err error
			if p, err = prompt.New(b); err != nil {
				return err
			}
		}
		if _, ok := r.(*proto.Recovered); ok && len(got) == len(w.m.epochs[len(w.m.epochs)-1]) {
			w.take(r)
		}
		if epoch != len(w.m.epochs) || h.N != int64(len(got)) {
			return fmt.Errorf("record %d of epoch %d in place %d of epoch %d", h.N, epoch, len(got), len(w.m.epochs))
		}
		got = append(got, r)
		if m := proto.MessageOf(r); m != nil {
			return p.Append(m)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
	if len(w.m.epochs) == 0 {
		if c.Epoch() != 0 || len(got) != 0 {
			w.t.Fatalf("a session that never started has epoch %d", c.Epoch())
		}
		return
	}
	if d := cmp.Diff(w.m.epochs[len(w.m.epochs)-1], got); d != "" {
		w.t.Fatalf("replay differs:\n%s", d)
	}
	if at, context := prompt.FirstDiff(w.m.body, p.Body()); at >= 0 {
		w.t.Fatalf("the request is no extension of the one before: %s", context)
	}
	w.m.body = p.Body()
	w.check()
}

func (w *world) check() {
	if w.c.Epoch() != len(w.m.epochs) {
		w.t.Fatalf("epoch %d, want %d", w.c.Epoch(), len(w.m.epochs))
	}
	for id, started := range w.m.origins {
		o, ok := w.c.Origin(id)
		if ok && o.Started != started {
			w.t.Fatalf("%s: %+v, want started %v", id, o, started)
		}
	}
	for _, epoch := range w.m.epochs {
		for _, r := range epoch {
			if id := originOf(r); id != "" {
				if _, ok := w.c.Origin(id); !ok {
					w.t.Fatalf("origin %s is forgotten", id)
				}
			}
		}
	}
	var pending []string
	for _, q := range w.c.Pending() {
		pending = append(pending, q.Origin)
	}
	if d := cmp.Diff(append([]string(nil), w.m.queue...), pending); d != "" {
		w.t.Fatalf("pending: %s", d)
	}
	open, err := w.store.Unfinished()
	if err != nil {
		w.t.Fatal(err)
	}
	if want := !w.modelRests(); (len(open) == 1) != want {
		w.t.Fatalf("unfinished %v, want %v", open, want)
	}
}

// modelRests is the rule of resting, on the model.
func (w *world) modelRests() bool {
	for i := len(w.m.epochs) - 1; i >= 0; i-- {
		for j := len(w.m.epochs[i]) - 1; j >= 0; j-- {
			switch r := w.m.epochs[i][j].(type) {
			case *proto.Recovered, *proto.Baseline:
				continue
			case *proto.TurnEnd:
				return r.Queued == 0
			default:
				return false
			}
		}
	}
	return true
}

// readAll compares all epochs with the model.
func (w *world) readAll() {
	var got [][]proto.Record
	err := w.store.Read(modelID, func(epoch int, _ proto.Header, r proto.Record) error {
		if epoch > len(got) {
			got = append(got, nil)
		}
		got[epoch-1] = append(got[epoch-1], r)
		return nil
	})
	if len(w.m.epochs) == 0 && errors.Is(err, ErrNoSession) {
		return
	}
	if d := cmp.Diff(w.m.epochs, got); d != "" || err != nil {
		w.t.Fatalf("%v\n%s", err, d)
	}
}

// What was acknowledged is always there, no origin is forgotten, and a replay
// gives the bytes of the request before, over any order of appends, epochs,
// clean ends and kills.
func TestCase_P11_RandomLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memory(), "session")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &world{t: t, dir: dir, m: model{origins: map[string]bool{}}}
		w.reopen()
		defer func() { w.close() }()
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			step := rapid.SampledFrom([]string{"append", "append", "append", "epoch", "close", "kill", "kill", "kill epoch", "read"}).Draw(t, "step")
			if len(w.m.epochs) == 0 && (step == "append" || step == "kill") {
				step = "epoch"
			}
			switch step {
			case "append":
				w.append()
			case "epoch":
				w.newEpoch()
			case "kill":
				w.kill()
			case "kill epoch":
				w.killNewEpoch()
			case "read":
				w.readAll()
			default:
				w.close()
				w.reopen()
			}
		}
		w.close()
		w.reopen()
		w.readAll()
	})
}

// memory is a folder where a sync costs nothing, if there is one.
func memory() string {
	const shm = "/dev/shm"
	if fi, err := os.Stat(shm); err == nil && fi.IsDir() && unix.Access(shm, unix.W_OK) == nil {
		return shm
	}
	return ""
}

// A line that this program never wrote is an error, not a crash.
func FuzzOpen(f *testing.F) {
	for n, r := range []proto.Record{user("o1", "x"), assistant("y"), ended("o1", 0), baseline("z")} {
		line, err := proto.EncodeRecord(proto.Header{N: int64(n + 1), Time: start}, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		dir, err := os.MkdirTemp(memory(), "session")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s, shut := openStore(t, dir)
		defer shut()
		c, _ := open(t, s, "chat-1")
		startEpoch(t, c, baseline("x"))
		c.Close()
		log, _, err := appendlog.Open(appendlog.Config{Root: s.root, Name: "chat-1/0001.jsonl"})
		if err != nil {
			t.Fatal(err)
		}
		err = log.Append(line)
		log.Close()
		if errors.Is(err, appendlog.ErrRecord) {
			t.Skip()
		}
		c, err = s.Open("chat-1", nil)
		if err == nil {
			c.Close()
		}
		var known *Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("not an Error: %v", err)
		}
		if _, err := s.List(); err != nil {
			t.Error(err)
		}
		if _, err := s.Unfinished(); err != nil {
			t.Error(err)
		}
	})
}
