package policy

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"boxmaker/brokerd/internal/audit"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func reads(mode string) string {
	return "tool = \"read_file\"\nmode = \"" + mode + "\"\n[paths]\nread = [\"/home/me/notes\", \"/data\"]\n"
}

const (
	readNote  = `{"path":"/home/me/notes/a"}`
	writeNote = `{"path":"/home/me/notes/a","content":"x","mode":"create"}`
	askWrite  = "tool = \"write_file\"\nmode = \"ask\"\nresult_class = \"public\"\n[paths]\nwrite = [\"/home/me/notes\", \"/data\"]\n"
)

func TestZeroValueDenies(t *testing.T) {
	if _, err := (Decision{}).Spend(); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if _, err := (Decision{p: &permit{spec: Spec{Call: "x"}}}).Spend(); !errors.Is(err, ErrDenied) {
		t.Errorf("without a record: %v", err)
	}
}

// One permit for all copies, whoever comes first.
func TestSpentOnceAcrossCopies(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": reads("auto")})
	a := b.decide(b.call("s", "read_file", readNote)).(Allowed) //nolint:forcetypeassert // a failure is one of the test
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if copied := a; true {
				if _, err := copied.Decision.Spend(); err == nil {
					won.Add(1)
				} else if !errors.Is(err, ErrSpent) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("spent %d times", won.Load())
	}
}

func TestAllowed(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": reads("auto")})
	c := b.call("s", "read_file", ` { "path" : "/home/me/notes/../notes/a" } `)
	r := b.decide(c)
	s := b.allowed(r)
	want := Spec{
		Call: c.ID, Tool: tool.Find("read_file"), Args: `{"path":"/home/me/notes/a"}`, Read: []string{"/home/me/notes"},
		Class: proto.ClassPrivate, Untrusted: true, Grant: "10-a.toml", Userland: proto.UserlandNone,
	}
	opts := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *tool.Tool) bool { return a == b })}
	if d := cmp.Diff(want, s, opts); d != "" {
		t.Error(d)
	}
	rec, ok := b.last().(*proto.AuditDecision)
	if !ok || rec.ID != c.ID || rec.Args != c.Args || rec.Verdict != proto.VerdictAllow || rec.Grant != "10-a.toml" || rec.Digest != Digest(c) || rec.Taint != proto.ClassPrivate {
		t.Errorf("%+v", rec)
	}
	if f := r.(Allowed).Facts; f.Grant == nil || f.Grant.Hash != rec.GrantHash || f.Digest != rec.Digest || f.Call.Canonical != want.Args { //nolint:forcetypeassert // checked by allowed
		t.Errorf("%+v", f)
	}
}

func TestProgramsSeeTheWholeGrant(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": `tool = "run"
mode = "auto"
untrusted = false
result_class = "secret"
[paths]
read = ["/a", "/b"]
write = ["/w"]
[net]
hosts = ["*.example.org:443", "10.0.0.1:80"]
local = ["10.0.0.1:80"]
[secrets]
names = ["key"]
[limits]
time = "1500ms"
memory = "64MiB"
output = "1KiB"
pids = 9
[userland]
kind = "root"
root = "/srv/fs"
`})
	s := b.allowed(b.decide(b.call("s", "run", `{"argv":["ls"]}`)))
	want := Spec{
		Call: "s/1/1/0", Tool: tool.Find("run"), Args: `{"argv":["ls"]}`, Read: []string{"/a", "/b"}, Write: []string{"/w"},
		Hosts: []string{"*.example.org:443", "10.0.0.1:80"}, Local: []string{"10.0.0.1:80"}, Secrets: []string{"key"},
		Limits: proto.Limits{MS: 1500, Memory: 64 << 20, Output: 1024, PIDs: 9}, Userland: proto.UserlandRoot, Root: "/srv/fs",
		Class: proto.ClassSecret, Grant: "10-a.toml",
	}
	opts := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *tool.Tool) bool { return a == b })}
	if d := cmp.Diff(want, s, opts); d != "" {
		t.Error(d)
	}
}

// A secret that is added outside is not handed in as well.
func TestInjectedSecretsStayOutside(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": `tool = "http_fetch"
mode = "auto"
[net]
hosts = ["a.org:443"]
[secrets]
names = ["key", "other"]
[[secrets.inject]]
name = "key"
host = "a.org:443"
header = "Authorization"
`})
	s := b.allowed(b.decide(b.call("s", "http_fetch", `{"url":"https://a.org/"}`)))
	if d := cmp.Diff([]string{"other"}, s.Secrets); d != "" {
		t.Error(d)
	}
	if len(s.Inject) != 1 || s.Inject[0] != (grant.Inject{Name: "key", Host: "a.org:443", Header: "Authorization"}) {
		t.Errorf("%+v", s.Inject)
	}
}

func TestDenied(t *testing.T) {
	all := map[string]string{"10-a.toml": reads("auto"), "20-b.toml": "tool = \"shell\"\nmode = \"deny\"\n"}
	for _, tc := range []struct {
		name, tool, args string
		halted           bool
		code             proto.Code
	}{
		{"unknown tool", "format_disk", `{}`, false, proto.CodeUnknownTool},
		{"bad arguments", "read_file", `{"path":"/home/me/notes/a","path":"/x"}`, false, proto.CodeInvalidArguments},
		{"other case", "read_file", `{"Path":"/home/me/notes/a"}`, false, proto.CodeInvalidArguments},
		{"no JSON", "read_file", "\xff", false, proto.CodeInvalidArguments},
		{"nothing granted", "list_files", `{"path":"/home/me/notes"}`, false, proto.CodeNoGrant},
		{"elsewhere", "read_file", `{"path":"/etc/passwd"}`, false, proto.CodeNoGrant},
		{"denied", "shell", `{"command":"ls"}`, false, proto.CodeDeniedByGrant},
		{"halted", "read_file", readNote, true, proto.CodeHalted},
		{"halted, and no such tool", "format_disk", readNote, true, proto.CodeHalted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t, all)
			r := b.request(b.call("s", tc.tool, tc.args))
			r.Halted = tc.halted
			got, err := b.engine.Decide(r)
			if err != nil {
				t.Fatal(err)
			}
			d := b.denied(got, tc.code)
			if !strings.HasPrefix(d.Text, string(tc.code)+": ") || strings.Count(d.Text, "\n") > 0 {
				t.Errorf("text: %q", d.Text)
			}
			rec, ok := b.last().(*proto.AuditDecision)
			if !ok || rec.Verdict != proto.VerdictDeny || rec.Code != tc.code {
				t.Errorf("%+v", rec)
			}
		})
	}
}

// Whatever cannot be read denies, and somebody is told.
func TestFailsClosed(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": reads("auto")})
	b.allowed(b.decide(b.call("s", "read_file", readNote)))
	if err := os.WriteFile(filepath.Join(b.dir, "state", "taint", "d.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := b.denied(b.decide(b.call("d", "read_file", readNote)), proto.CodeTaintTooHigh)
	if d.Taint != proto.ClassSecret || !d.Untrusted || len(b.trouble) != 1 {
		t.Errorf("%+v %v", d, b.trouble)
	}
	if err := os.Chmod(filepath.Join(b.dir, "grants"), 0o777); err != nil {
		t.Fatal(err)
	}
	b.denied(b.decide(b.call("s", "read_file", readNote)), proto.CodeNoGrant)
	if len(b.trouble) != 2 {
		t.Errorf("%v", b.trouble)
	}
}

// Without a record nothing is allowed, neither by a grant nor by the owner, and
// not even to look.
func TestNoRecordNoRight(t *testing.T) {
	for _, broken := range []error{errors.New("disk full"), errNoRef} {
		b := newBox(t, map[string]string{"10-a.toml": reads("auto"), "20-b.toml": askWrite})
		w := b.call("s", "write_file", writeNote)
		b.asks(b.decide(w))
		b.broken = broken
		for _, c := range []*proto.Call{b.call("s", "read_file", readNote), b.call("s", "write_file", writeNote), b.call("s", "none", "")} {
			if r, err := b.engine.Decide(b.request(c)); err == nil || r != nil {
				t.Errorf("%v: %#v %v", broken, r, err)
			}
		}
		if r, err := b.settle(w, proto.VerdictApproved); err == nil || r != nil {
			t.Errorf("%v: %#v %v", broken, r, err)
		}
	}
}

// A long text is cut in the record, never in the digest.
func TestLongArguments(t *testing.T) {
	b := newBox(t, map[string]string{"20-b.toml": askWrite})
	long := `{"path":"/home/me/notes/a","content":"` + strings.Repeat("ä", proto.MaxAuditArgs) + `","mode":"create"}`
	c := b.call("s", "write_file", long)
	b.asks(b.decide(c))
	rec, ok := b.last().(*proto.AuditDecision)
	if !ok || !strings.HasPrefix(long, rec.Args) || len(rec.Args) < proto.MaxAuditArgs-2 || rec.Digest != Digest(c) {
		t.Errorf("%d bytes, %v", len(rec.Args), rec.Digest)
	}
	other := *c
	other.Args = long[:len(long)-2] + ` }`
	if Digest(&other) == Digest(c) {
		t.Error("the digest does not cover the end")
	}
}

// The parts of a call can't be moved into each other.
func TestDigestIsUnambiguous(t *testing.T) {
	seen := map[string]*proto.Call{}
	for _, c := range []*proto.Call{
		{ID: "a/1/1/0", Session: "a", Tool: "run", Args: "{}"},
		{ID: "a/1/1/1", Session: "a", Tool: "run", Args: "{}"},
		{ID: "a/1/1/0", Session: "a", Tool: "ru", Args: "n{}"},
		{ID: "a/1/1/0", Session: "a", Tool: "run", Args: "{} "},
		{ID: "a/1/1/0", Session: "a", Tool: "run", Args: ""},
		{ID: "a/1/1/0", Session: "a", Tool: "run", Args: ",2:{},"},
	} {
		if other := seen[Digest(c)]; other != nil {
			t.Errorf("%+v and %+v", c, other)
		}
		seen[Digest(c)] = c
	}
	const want = "boxmaker call\n7:a/1/1/0,1:a,3:run,2:{},"
	if got := Canonical(&proto.Call{ID: "a/1/1/0", Session: "a", Tool: "run", Args: "{}"}); got != want {
		t.Errorf("%q", got)
	}
}

func TestPreviewOnlyReads(t *testing.T) {
	b := newBox(t, map[string]string{"20-b.toml": askWrite, "30-c.toml": "tool = \"write_file\"\nmode = \"deny\"\n[paths]\nwrite = [\"/home/me/notes/x\"]\n", "40-d.toml": reads("ask")})
	c := b.call("s", "write_file", writeNote)
	a := b.asks(b.decide(c))
	if !a.HasPreview || a.Approval != approvalID || !a.Expires.Equal(b.now.Add(15*time.Minute)) {
		t.Errorf("%+v", a)
	}
	s, err := a.Preview.Spend()
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Call: c.ID, Tool: tool.Find("write_file"), Args: s.Args, Read: []string{"/home/me/notes"}, Hidden: []string{"/home/me/notes/x"},
		Userland: proto.UserlandNone, Class: proto.ClassPublic, Untrusted: true, Grant: "20-b.toml", Preview: true,
	}
	opts := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *tool.Tool) bool { return a == b })}
	if d := cmp.Diff(want, s, opts); d != "" {
		t.Error(d)
	}
	if _, err := a.Preview.Spend(); !errors.Is(err, ErrSpent) {
		t.Error(err)
	}
	rec, ok := b.last().(*proto.AuditDecision)
	if !ok || rec.Verdict != proto.VerdictAsk || rec.Approval != approvalID || rec.Expires != proto.Time(a.Expires) {
		t.Errorf("%+v", rec)
	}
	r := b.asks(b.decide(b.call("s", "read_file", readNote)))
	if _, err := r.Preview.Spend(); r.HasPreview || !errors.Is(err, ErrDenied) {
		t.Errorf("a preview of a reading: %v", err)
	}
}

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }
func encode(from any) ([]byte, error)    { return json.Marshal(from) }

// There is no way to read a decision from bytes: it has one method, and what
// decoders make of it denies.
func TestNoDecoding(t *testing.T) {
	if n := reflect.TypeFor[*Decision]().NumMethod(); n != 1 {
		t.Errorf("a decision has %d methods, want Spend alone", n)
	}
	for _, text := range []string{`{}`, `{"p":{}}`, `{"P":{"spec":{}}}`, `{"p":{"ref":{"head":{"n":1}},"spec":{"Call":"x"}}}`} {
		var d Decision
		err := decode(text, &d)
		if _, spend := d.Spend(); !errors.Is(spend, ErrDenied) {
			t.Errorf("%s: %v, %v", text, err, spend)
		}
	}
	var buf bytes.Buffer
	b := newBox(t, map[string]string{"10-a.toml": reads("auto")})
	a := b.decide(b.call("s", "read_file", readNote)).(Allowed) //nolint:forcetypeassert // a failure is one of the test
	if err := gob.NewEncoder(&buf).Encode(a.Decision); err == nil {
		var d Decision
		_ = gob.NewDecoder(&buf).Decode(&d)
		if _, err := d.Spend(); !errors.Is(err, ErrDenied) {
			t.Errorf("through gob: %v", err)
		}
	}
	if text, err := encode(a.Decision); err == nil && strings.Contains(string(text), "notes") {
		t.Errorf("a decision shows what it holds: %s", text)
	}
}

func TestNoPermitWithoutAReference(t *testing.T) {
	if d := permits(audit.Ref{}, Spec{Call: "x"}); d.p != nil {
		t.Error("there is a permit that no record allows")
	}
}

// liar is a taint that gives little, and an error.
type liar struct{}

func (liar) Get(string) (proto.Class, bool, error) {
	return proto.ClassPublic, false, errors.New("not readable")
}

func TestTaintWithAnErrorIsTheWorst(t *testing.T) {
	b := newBox(t, map[string]string{"10-a.toml": reads("auto")})
	b.engine.cfg.Taint = liar{}
	if d := b.denied(b.decide(b.call("s", "read_file", readNote)), proto.CodeTaintTooHigh); d.Taint != proto.ClassSecret || !d.Untrusted {
		t.Errorf("%+v", d.Facts)
	}
}
