package queue

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"boxmaker/internal/appendlog"

	"pgregory.net/rapid"
)

func rootOf(t interface{ Fatal(...any) }, dir string) *os.Root {
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func must(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func heard(n int) *Heard {
	return &Heard{Post: fmt.Sprintf("p%d", n), Root: fmt.Sprintf("p%d", n), Channel: "c", At: int64(1_000_000_000_000 + n), Key: fmt.Sprintf("k%d", n), Text: "hello\n\"ü\""}
}

func all() []Record {
	return []Record{
		&First{At: 5}, &Mark{"c", 7}, heard(1), &Heard{Post: "p2", Root: "p1", Channel: "c", At: 9, Key: "k2", Command: "stop", Files: true},
		&Placed{Post: "p1", Key: "k1", ID: "s1"}, &Reply{Post: "p1", Parts: []Part{{Key: "k1", Text: "a"}, {Key: "k3", Text: "b", File: "c", Top: true}}},
		&Reply{Post: "p1", Parts: []Part{{Key: "k1"}, {Key: "k4", Text: "a"}}},
		&Placed{Post: "p1", Key: "k1", ID: "s1", Final: true}, &Done{Post: "p2"}, &Done{Post: "p0", Channel: "c", At: 3},
	}
}

// TestLines holds the form on disk: a change of it is a new version.
func TestLines(t *testing.T) {
	want, err := os.ReadFile("testdata/lines.jsonl")
	must(t, err)
	var got bytes.Buffer
	for _, r := range all() {
		line, err := encode(r)
		must(t, err)
		got.Write(append(line, '\n'))
		back, err := decode(line)
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("%s came back as %+v, %v", line, back, err)
		}
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s", &got)
	}
}

// TestPage holds the page on the format to the records: the same kinds and members, in
// the same order.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/gateway-state.md")
	must(t, err)
	for _, r := range []Record{
		&First{At: 1}, &Mark{"c", 1}, &Heard{Post: "p", Root: "p", Channel: "c", At: 1, Key: "k", Text: "t", Command: "c", Files: true},
		&Reply{Post: "p", Parts: []Part{{Key: "k"}}}, &Placed{Post: "p", Key: "k", ID: "i", Final: true}, &Done{Post: "p", Channel: "c", At: 1},
	} {
		must(t, r.Validate())
		row := "| `" + r.kind() + "` |"
		for f := range reflect.TypeOf(r).Elem().Fields() {
			name, opt, _ := strings.Cut(f.Tag.Get("json"), ",")
			if opt != "" {
				name += "?"
			}
			row += " `" + name + "`"
		}
		if !strings.Contains(string(page), row+" |") {
			t.Errorf("the page has no row %s", row)
		}
	}
}

func TestBadLines(t *testing.T) {
	for _, line := range []string{
		``, `{}`, `null`, `{"v":2,"kind":"first","at":1}`, `{"v":1,"kind":"fist","at":1}`, `{"kind":"first","v":1,"at":1}`, `{"v":1,"kind":"first","at":-1}`,
		`{"v":1,"kind":"first", "at":1}`, `{"v":1,"kind":"first","at":1,"more":1}`, `{"v":1,"kind":"first"}`, `{"v":1,"kind":"done","post":"../x"}`,
		`{"v":1,"kind":"reply","post":"p","parts":[]}`, `{"v":1,"kind":"first","at":1}x`,
	} {
		if r, err := decode([]byte(line)); err == nil {
			t.Errorf("%s is taken for %+v", line, r)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range all() {
		line, err := encode(r)
		must(f, err)
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decode(line)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil || !bytes.Equal(again, line) {
			t.Errorf("%q came back as %q, %v", line, again, err)
		}
		_ = NewState().Apply(r)
	})
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		name string
		recs []Record
	}{
		{"heard twice", []Record{heard(1), heard(1)}},
		{"heard after it was done with", []Record{heard(1), &Done{Post: "p1"}, heard(1)}},
		{"an answer to nothing", []Record{&Reply{Post: "p1", Parts: []Part{{Key: "k1"}}}}},
		{"an answer in another place", []Record{heard(1), &Reply{Post: "p1", Parts: []Part{{Key: "k2"}}}}},
		{"a post for nothing", []Record{&Placed{Post: "p1", Key: "k1", ID: "x"}}},
		{"done with what was not heard", []Record{&Done{Post: "p1"}}},
		{"two starts", []Record{&First{1}, &First{2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewState()
			var err error
			for _, r := range c.recs {
				must(t, err)
				err = s.Apply(r)
			}
			if err == nil {
				t.Error("it is taken")
			}
		})
	}
}

// TestCaseP34: what was answered is known after a restart and a new log, also if the
// server tells of it again with another time of change.
func TestCaseP34(t *testing.T) {
	root := rootOf(t, t.TempDir())
	q, _, err := Open(root)
	must(t, err)
	must(t, q.Put(&First{1000}))
	for n := range 300 {
		must(t, q.Put(heard(n)))
		if n < 290 {
			must(t, q.Put(&Reply{Post: fmt.Sprintf("p%d", n), Parts: []Part{{Key: fmt.Sprintf("k%d", n), Text: "x"}}}, &Done{Post: fmt.Sprintf("p%d", n)}))
		}
	}
	must(t, q.Put(&Mark{"c", heard(300).At}))
	before := q.log.Len()
	must(t, q.Close())
	q, _, err = Open(root)
	must(t, err)
	defer q.Close()
	if q.log.Len() >= before || q.Len() != 10 {
		t.Errorf("%d records of %d, %d open", q.log.Len(), before, q.Len())
	}
	for n := range 300 {
		if h := heard(n); q.Fresh(h.Post, h.Channel, h.At) {
			t.Errorf("message %d would be heard again", n)
		}
	}
	if h := heard(301); !q.Fresh(h.Post, h.Channel, h.At) || q.Fresh("old", "c", 1000) || q.Fresh("old", "c", h.At-overlap-10) {
		t.Error("a new message is not heard, or an old one is")
	}
	// Far behind the mark nothing need be kept, and nothing is heard.
	must(t, q.Put(&Mark{"c", heard(0).At + 3*overlap}))
	if len(q.past) != 0 || q.Fresh("p1", "c", heard(1).At) {
		t.Errorf("%d are kept", len(q.past))
	}
}

// A crash at any byte of any write leaves the state after a whole number of
// records, with none of those that were acknowledged missing.
func TestCrashAlways(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "queue")
		must(rt, err)
		defer os.RemoveAll(dir)
		root := rootOf(rt, dir)
		defer root.Close()
		q, _, err := Open(root)
		must(rt, err)
		model := NewState()
		next := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			batch := draw(rt, model, &next)
			sizeBefore := q.log.Size()
			must(rt, q.Put(batch...))
			if !rapid.Bool().Draw(rt, "crash") {
				for _, r := range batch {
					must(rt, model.Apply(r))
				}
				continue
			}
			cut := rapid.Int64Range(sizeBefore, q.log.Size()).Draw(rt, "at")
			must(rt, q.Close())
			must(rt, os.Truncate(filepath.Join(dir, name), cut))
			if rapid.Bool().Draw(rt, "left") {
				must(rt, os.WriteFile(filepath.Join(dir, nextName), []byte("half"), 0o600))
			}
			q, _, err = Open(root)
			must(rt, err)
			for _, r := range batch { // as many of the batch as came through
				if reflect.DeepEqual(model.records(), q.records()) {
					break
				}
				must(rt, model.Apply(r))
			}
			if !reflect.DeepEqual(model.records(), q.records()) {
				rt.Fatalf("%+v\nbecame\n%+v", model.records(), q.records())
			}
		}
		must(rt, q.Close())
	})
}

func clone(t *rapid.T, s *State) *State {
	out := NewState()
	for _, r := range s.records() {
		line, err := encode(r)
		must(t, err)
		back, err := decode(line)
		must(t, err)
		must(t, out.Apply(back))
	}
	return out
}

// draw gives records that fit the state.
func draw(t *rapid.T, s *State, next *int) []Record {
	s = clone(t, s)
	var out []Record
	for range rapid.IntRange(1, 4).Draw(t, "batch") {
		var r Record
		open := s.Open()
		switch k := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case k == 0 && !s.started:
			r = &First{At: 1}
		case k == 1:
			r = &Mark{"c", int64(rapid.IntRange(1, 1<<40).Draw(t, "mark"))}
		case k == 2 && len(open) > 0:
			i := rapid.SampledFrom(open).Draw(t, "item")
			r = &Reply{i.Post, []Part{{Key: i.Key, Text: strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "n"))}, {Key: i.Key + "b", Text: "y"}}}
		case k == 3 && len(open) > 0:
			i := rapid.SampledFrom(open).Draw(t, "item")
			r = &Placed{i.Post, i.Key, "s" + i.Post, rapid.Bool().Draw(t, "final")}
		case k == 4 && len(open) > 0:
			r = &Done{Post: rapid.SampledFrom(open).Draw(t, "item").Post}
		default:
			r = heard(*next)
			*next++
		}
		must(t, s.Apply(r))
		out = append(out, r)
	}
	return out
}

// TestDiskFull: it is a clear stop, and what was acknowledged is there afterwards.
func TestDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	dir := t.TempDir()
	root := rootOf(t, dir)
	q, _, err := Open(root)
	must(t, err)
	must(t, q.Put(&First{1}, heard(1)))
	small := limit
	small.Cur = uint64(q.log.Size()) + 10
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	err = q.Put(heard(2))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if !errors.Is(err, appendlog.ErrBroken) || !strings.Contains(err.Error(), "see runbook: disk-full") {
		t.Errorf("a full disk gives %v", err)
	}
	if err := q.Put(heard(3)); !errors.Is(err, appendlog.ErrBroken) {
		t.Errorf("and then %v", err)
	}
	must(t, q.Close())
	q, rec, err := Open(root)
	must(t, err)
	defer q.Close()
	if _, ok := q.Get("p1"); !ok || q.Len() != 1 || rec.Torn == 0 {
		t.Errorf("%d open, %+v", q.Len(), rec)
	}
}
