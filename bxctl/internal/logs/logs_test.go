package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fixed() time.Time { return t0 }

func writer(t *testing.T, dir, role string) *Writer {
	t.Helper()
	w, err := Open(dir, role, fixed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func put(t *testing.T, w *Writer, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if err := w.Line([]byte(l)); err != nil {
			t.Fatal(err)
		}
	}
}

// at is a record, so many seconds after t0.
func at(sec int, msg string) string {
	return fmt.Sprintf(`{"time":%q,"level":"INFO","msg":%q}`, t0.Add(time.Duration(sec)*time.Second).Format(time.RFC3339), msg)
}

func msgs(t *testing.T, q Query) []string {
	t.Helper()
	var out []string
	if err := q.Each(t.Context(), func(e Entry) error {
		out = append(out, e.Role+":"+e.Msg)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLinesBecomeRecords(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, dir, "loopd")
	put(t, w, at(0, "a"), "plain \x1b[2J\xff", `{"broken`, `{"level":"INFO","msg":"no time"}`, `{"time":"yesterday"}`)
	b, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	want := []string{
		at(0, "a"), `{"time":"2026-01-02T03:04:05Z","daemon":"loopd","text":"plain \u001b[2J` + "\uFFFD" + `"}`,
		`{"time":"2026-01-02T03:04:05Z","daemon":"loopd","text":"{\"broken"}`,
		`{"time":"2026-01-02T03:04:05Z","daemon":"loopd","text":"{\"level\":\"INFO\",\"msg\":\"no time\"}"}`,
		`{"time":"2026-01-02T03:04:05Z","daemon":"loopd","text":"{\"time\":\"yesterday\"}"}`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	got := msgs(t, Query{Dir: dir, Last: All})
	if !slices.Equal(got, []string{"loopd:a", "loopd:plain \x1b[2J\uFFFD", `loopd:{"broken`, `loopd:{"level":"INFO","msg":"no time"}`, `loopd:{"time":"yesterday"}`}) {
		t.Errorf("%q", got)
	}
}

func TestFileIsPrivateAndTornLinesEnd(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(Path(dir, "a"), []byte("half a li"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := writer(t, dir, "a")
	put(t, w, at(1, "next"))
	if st, err := os.Stat(w.Path()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if got := msgs(t, Query{Dir: dir, Last: All}); !slices.Equal(got, []string{"a:half a li", "a:next"}) {
		t.Errorf("%q", got)
	}
	if err := os.Symlink("/dev/null", Path(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "b", fixed); err == nil {
		t.Error("a link was opened")
	}
}

func TestRotationKeepsSoMany(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, dir, "a")
	w.max = 140 // two lines
	for i := range 40 {
		put(t, w, at(i, fmt.Sprint(i)))
	}
	files, err := filepath.Glob(dir + "/*")
	if err != nil || len(files) != Kept+1 {
		t.Errorf("%q, %v", files, err)
	}
	got := msgs(t, Query{Dir: dir, Last: All})
	if len(got) < 2*Kept || got[len(got)-1] != "a:39" || got[0] == "a:0" {
		t.Errorf("%q", got)
	}
	for i, m := range got {
		if want := fmt.Sprintf("a:%d", 40-len(got)+i); m != want {
			t.Errorf("line %d is %q, not %q", i, m, want)
		}
	}
	// A rotation that can't be done costs nothing but size.
	if err := os.Remove(old(w.path, Kept)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(old(w.path, Kept), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		_ = w.Line([]byte(at(40+i, fmt.Sprint(40+i))))
	}
	if got := msgs(t, Query{Dir: dir, Last: 4}); !slices.Equal(got, []string{"a:40", "a:41", "a:42", "a:43"}) {
		t.Errorf("%q", got)
	}
}

func TestQueries(t *testing.T) {
	dir := t.TempDir()
	a, b := writer(t, dir, "a"), writer(t, dir, "b")
	a.max = 100
	put(t, a, at(1, "1"), at(3, "3"), at(5, "5"), at(7, "7"))
	put(t, b, at(2, "2"), at(4, "4"), "\n", at(6, "6"), at(6, "6b"))
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		q    Query
		want string
	}{
		{"all", Query{Last: All}, "a:1 b:2 a:3 b:4 b:\n a:5 b:6 b:6b a:7"},
		{"last three", Query{Last: 3}, "b:6 b:6b a:7"},
		{"last of none", Query{Last: 0}, ""},
		{"more than there are", Query{Last: 100, Roles: []string{"a"}}, "a:1 a:3 a:5 a:7"},
		{"across files", Query{Last: 3, Roles: []string{"a"}}, "a:3 a:5 a:7"},
		{"one role", Query{Last: 2, Roles: []string{"b"}}, "b:6 b:6b"},
		{"since", Query{Last: All, Since: t0.Add(6 * time.Second)}, "b:6 b:6b a:7"},
		{"since and last", Query{Last: 1, Since: t0.Add(6 * time.Second)}, "a:7"},
		{"a role that has no file", Query{Last: All, Roles: []string{"c"}}, ""},
		{"no folder", Query{Dir: filepath.Join(dir, "none"), Last: All}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.q.Dir == "" {
				c.q.Dir = dir
			}
			if got := strings.Join(msgs(t, c.q), " "); got != strings.ReplaceAll(c.want, "b:\n", "b:\n") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Whatever is written, rotated and read in between: a reader that follows, and
// is not outrun, gets each line once, in order.
func TestFollowLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		w := writer(t, dir, "a")
		w.max = int64(rapid.IntRange(60, 400).Draw(rt, "size"))
		n, perPoll := 0, 0
		var got, want []string
		write := func() {
			msg := fmt.Sprint(n)
			if rapid.Bool().Draw(rt, "plain") {
				put(t, w, msg)
			} else {
				put(t, w, at(n, msg))
			}
			want = append(want, msg)
			n++
		}
		r := &reading{q: Query{Dir: dir, Last: All, Follow: true}}
		defer r.close()
		visit := func(e Entry) error { got = append(got, e.Msg); return nil }
		for range rapid.IntRange(0, 3).Draw(rt, "before") {
			write()
		}
		if err := errors.Join(r.add(true), r.merge(visit)); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			// At most one line a file: so many rotations are kept.
			if perPoll < Kept && rapid.Bool().Draw(rt, "write") {
				write()
				perPoll++
				continue
			}
			perPoll = 0
			if err := r.poll(visit); err != nil {
				rt.Fatal(err)
			}
		}
		if err := r.poll(visit); err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(got, want) {
			rt.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, dir, "a")
	put(t, w, at(1, "before"))
	ctx, cancel := context.WithCancel(t.Context())
	tick, lines := make(chan time.Time), make(chan string, 100)
	done := make(chan error)
	go func() {
		done <- Query{Dir: dir, Last: 0, Follow: true, Poll: tick}.Each(ctx, func(e Entry) error {
			lines <- e.Role + ":" + e.Msg
			return nil
		})
	}()
	tick <- t0 // it waits: what was there before has been read
	next := func() string {
		t.Helper()
		select { // two ticks are through, so what there was has been visited
		case l := <-lines:
			return l
		default:
			t.Error("no line came")
			return ""
		}
	}
	b := writer(t, dir, "b") // a role that starts now
	put(t, b, at(2, "sooner"))
	put(t, w, at(3, "later")) // last: the visit of the first tick may be under way
	f, err := os.OpenFile(w.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	tick <- t0
	tick <- t0
	if got := []string{next(), next()}; !slices.Equal(got, []string{"b:sooner", "a:later"}) {
		t.Errorf("%q", got)
	}
	if _, err := f.WriteString(" and half\n"); err != nil {
		t.Fatal(err)
	}
	tick <- t0
	tick <- t0
	if got := next(); got != "a:half and half" {
		t.Errorf("%q", got)
	}
	// Emptied by hand: it goes on from the start.
	if err := os.Truncate(w.Path(), 0); err != nil {
		t.Fatal(err)
	}
	put(t, w, at(9, "anew"))
	tick <- t0
	tick <- t0
	if got := next(); got != "a:anew" {
		t.Errorf("%q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	broken := errors.New("no reader any more")
	if err := (Query{Dir: dir, Last: All}).Each(t.Context(), func(Entry) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestForms(t *testing.T) {
	zone := time.FixedZone("x", 2*3600)
	e := Parse("loopd", []byte(`{"time":"2026-01-02T03:04:05.5Z","level":"WARN","msg":"a \u001b[1m","daemon":"loopd","n":[1, 2],"s":"x\u202e\n","role":"other"}`))
	if got, want := e.Human(term.Plain(nil), zone), `2026-01-02 05:04:05.500 WARN  loopd      a ␛[1m n=[1, 2] s=x<U+202E> role=other`; got != want {
		t.Errorf("%q\n%q", got, want)
	}
	if got, want := string(e.JSON()), `{"role":"loopd","time":"2026-01-02T03:04:05.5Z","level":"WARN","msg":"a \u001b[1m","n":[1, 2],"s":"x\u202e\n","attr_role":"other"}`; got != want {
		t.Errorf("%s\n%s", got, want)
	}
	p := Parse("llama", []byte("text"))
	if got, want := p.Human(term.Plain(nil), zone), "                        -     llama      text"; got != want {
		t.Errorf("%q\n%q", got, want)
	}
	if got, want := string(p.JSON()), `{"role":"llama","msg":"text"}`; got != want {
		t.Errorf("%s", got)
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.FixedZone("x", 3600))
	for _, c := range []struct{ in, want string }{
		{"90s", "2026-01-02T14:58:30+01:00"},
		{"2h", "2026-01-02T13:00:00+01:00"},
		{"1.5d", "2026-01-01T03:00:00+01:00"},
		{"14:30", "2026-01-02T14:30:00+01:00"},
		{"2026-01-01", "2026-01-01T00:00:00+01:00"},
		{"2026-01-01 10:20", "2026-01-01T10:20:00+01:00"},
		{"2026-01-01T10:20:30Z", "2026-01-01T10:20:30Z"},
		{"yesterday", ""},
		{"-5m", ""},
		{"", ""},
	} {
		got, err := ParseSince(c.in, now)
		if c.want == "" && err == nil || c.want != "" && (err != nil || got.Format(time.RFC3339) != c.want) {
			t.Errorf("%q is %v, %v", c.in, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"a","k":[1,{"a":"b"}]}`))
	f.Add([]byte("{\"level\":1,\"msg\":\"\xff\""))
	f.Add([]byte(`{"text":"\u009b","msg":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e := Parse("r", line)
		for _, s := range []string{e.Text(), e.Human(term.Plain(nil), time.UTC), string(e.JSON())} {
			if strings.ContainsAny(s, "\x1b\n\r\u009b\u202e") {
				t.Errorf("%q gives %q", line, s)
			}
		}
		dir := t.TempDir()
		w := writer(t, dir, "r")
		put(t, w, strings.ReplaceAll(string(line), "\n", " "))
		b, err := os.ReadFile(w.Path())
		if err != nil || bytes.Count(b, []byte("\n")) != 1 || Parse("r", bytes.TrimSpace(b)).Time.IsZero() {
			t.Errorf("%q became %q, %v", line, b, err)
		}
	})
}
