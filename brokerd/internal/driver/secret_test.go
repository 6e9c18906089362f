package driver

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/brokerd/internal/policy"
	"boxmaker/brokerd/internal/scan"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

const grantFetch = `tool = "http_fetch"
mode = "auto"
[net]
hosts = ["api.example.com:443"]
[secrets]
names = ["token"]
[[secrets.inject]]
name = "token"
host = "api.example.com:443"
header = "Authorization"
prefix = "Bearer "
`

func fetch(id string) *proto.Call {
	c, _ := proto.ParseCallID(id)
	return &proto.Call{ID: id, Session: c.Session, Tool: "http_fetch", Args: `{"url":"https://api.example.com/x"}`}
}

func TestACallWithHostsGetsADoor(t *testing.T) {
	w := setUp(t)
	w.grant("30-fetch.toml", grantFetch)
	if r := w.call(fetch("s/1/1/0")); r.Outcome != proto.CallOK {
		t.Fatalf("%+v", r)
	}
	if len(w.doors.opened) != 1 || w.doors.closed != 1 {
		t.Fatalf("%d opened, %d closed", len(w.doors.opened), w.doors.closed)
	}
	o := w.doors.opened[0]
	if o.Call != "s/1/1/0" || len(o.Hosts) != 1 || o.Bytes != w.limits.Egress || len(o.Inject) != 1 || o.Inject[0].Value.Reveal() != "hunter2-hunter2" || o.Inject[0].Prefix != "Bearer " {
		t.Errorf("%+v", o)
	}
	if w.runner.door != "egressd/doors/x.sock" || len(w.runner.got) != 0 {
		t.Errorf("door %q; the tool got %d secrets, of which one is only added outside", w.runner.door, len(w.runner.got))
	}
	for _, r := range w.records() {
		if r, ok := r.(*proto.AuditOutcome); ok && (len(r.Egress) != 1 || r.Egress[0].Sent != 9) {
			t.Errorf("not on record: %+v", r)
		}
	}
}

func TestWithoutAWayOutTheCallFailsClosed(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(w *world)
		code proto.Code
	}{
		{"egressd is away", func(w *world) { w.doors.err = errors.New("nobody listens") }, proto.CodeNoEgress},
		{"there is none", func(w *world) { w.d.cfg.Doors = nil }, proto.CodeNoEgress},
		{"the store is shut", func(w *world) { w.vault.err = errors.New("another key") }, proto.CodeNotConfigured},
		{"the secret is not set", func(w *world) { delete(w.vault.values, "token") }, proto.CodeNotConfigured},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := setUp(t)
			w.grant("30-fetch.toml", grantFetch)
			tc.do(w)
			r := w.call(fetch("s/1/1/0"))
			if r.Outcome != proto.CallFailed || r.Code != tc.code || !strings.HasPrefix(r.Text, string(tc.code)+": ") || w.runner.count("s/1/1/0") != 0 {
				t.Errorf("%+v", r)
			}
			if shut := strings.Contains(r.Text, "store of the secrets cannot be opened"); shut != (w.vault.err != nil) {
				t.Errorf("%s", r.Text)
			}
			if tc.code == proto.CodeNotConfigured && w.vault.err == nil && !strings.Contains(r.Text, "bxctl secret set token") {
				t.Errorf("it does not say how to mend it: %s", r.Text)
			}
			if got := w.story(); got != "decision allow, outcome failed "+string(tc.code) {
				t.Errorf("%s", got)
			}
		})
	}
}

const grantShell = `tool = "shell"
mode = "auto"
result_class = "public"
untrusted = false
[secrets]
names = ["token"]
`

// scanned is a vault with the real scanner.
type scanned struct{ *fakeVault }

func (v scanned) Clean(text string) string {
	var all []secret.Named
	for name, value := range v.values {
		all = append(all, secret.Named{Name: name, Value: secret.NewText(value)})
	}
	clean, _ := scan.New(all).Clean(text)
	return clean
}

// P54: a tool that prints its secret, in any of the usual forms, gives away nothing:
// not in the result, not in what is kept, not in the audit log.
func TestCaseP54SecretsLeaveInNoForm(t *testing.T) {
	w := setUp(t)
	w.grant("30-shell.toml", grantShell)
	w.d.cfg.Secrets = scanned{w.vault}
	const value = "hunter2-hunter2"
	reversed := []byte(value)
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	forms := map[string]string{
		"plain": value, "base64": base64.StdEncoding.EncodeToString([]byte(value)), "hex": hex.EncodeToString([]byte(value)), "reversed": string(reversed),
	}
	w.runner.set(func(_ context.Context, s policy.Spec) (Ran, error) {
		text := ""
		for name, f := range forms {
			text += name + ": " + f + "\n"
		}
		r := said(text)
		r.Ended.Detail = "the runtime quotes " + value
		return r, nil
	})
	r := w.call(&proto.Call{ID: "s/1/1/0", Session: "s", Tool: "shell", Args: `{"command":"echo"}`})
	if len(w.runner.got) != 1 || w.runner.got[0].Value != value {
		t.Fatalf("the tool did not get its secret: %d", len(w.runner.got))
	}
	everything := r.Text
	for _, glob := range []string{"audit/*", "state/*/*"} {
		files, err := filepath.Glob(filepath.Join(w.dir, filepath.FromSlash(glob)))
		if err != nil || len(files) == 0 {
			t.Fatal(glob, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			everything += string(text)
		}
	}
	for name, f := range forms {
		if strings.Contains(everything, f) {
			t.Errorf("it got out in the form %s", name)
		}
	}
	if !strings.Contains(r.Text, "[secret token]") {
		t.Errorf("%q", r.Text)
	}
}

func TestResultsOfAContainer(t *testing.T) {
	ends := func(r proto.EndReason) Ran { return Ran{Ended: proto.Ended{Reason: r, Detail: "words of the runtime"}} }
	tool := said("tool-failed: no such file")
	tool.Output.Code = proto.CodeToolFailed
	odd := said("x")
	odd.Output.Code = "made-up"
	for _, tc := range []struct {
		name    string
		ran     Ran
		err     error
		outcome proto.CallOutcome
		code    proto.Code
		tainted bool // it has the grant's class, since a tool's words are in it
	}{
		{"done", said("x"), nil, proto.CallOK, "", true},
		{"the tool failed", tool, nil, proto.CallFailed, proto.CodeToolFailed, true},
		{"a code that a tool made up", odd, nil, proto.CallFailed, proto.CodeToolFailed, true},
		{"timeout", ends(proto.EndTimeout), nil, proto.CallFailed, proto.CodeToolTimeout, false},
		{"memory", ends(proto.EndMemory), nil, proto.CallFailed, proto.CodeToolFailed, false},
		{"output", ends(proto.EndOutput), nil, proto.CallFailed, proto.CodeTooLarge, false},
		{"limit", ends(proto.EndLimit), nil, proto.CallFailed, proto.CodeLimitNotEnforceable, false},
		{"mount", ends(proto.EndMount), nil, proto.CallFailed, proto.CodeToolFailed, false},
		{"no runtime", ends(proto.EndNoRuntime), nil, proto.CallFailed, proto.CodeNoRuntime, false},
		{"no userland", ends(proto.EndNoUserland), nil, proto.CallFailed, proto.CodeNotConfigured, false},
		{"no room", ends(proto.EndNoRoom), nil, proto.CallFailed, proto.CodeTooLarge, false},
		{"disk", ends(proto.EndDisk), nil, proto.CallFailed, proto.CodeTooLarge, false},
		{"internal", ends(proto.EndInternal), nil, proto.CallFailed, proto.CodeInternal, false},
		{"killed by somebody else", ends(proto.EndKilled), nil, proto.CallUnknown, proto.CodeUnknownFate, false},
		{"runnerd is away", Ran{}, NotRun(proto.CodeNoRuntime, errors.New("nobody listens")), proto.CallFailed, proto.CodeNoRuntime, false},
		{"runnerd went away", Ran{}, errors.New("connection reset"), proto.CallUnknown, proto.CodeUnknownFate, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := setUp(t)
			w.runner.set(func(context.Context, policy.Spec) (Ran, error) { return tc.ran, tc.err })
			r := w.call(read("s/1/1/0", "/data/a"))
			if r.Outcome != tc.outcome || r.Code != tc.code || r.Untrusted != tc.tainted || (r.Class == proto.ClassPrivate) != tc.tainted {
				t.Errorf("%+v", r)
			}
			if strings.Contains(r.Text, "words of the runtime") {
				t.Error("the model reads the runtime's words")
			}
			if _, untrusted, _ := w.taint.Get("s"); untrusted != tc.tainted {
				t.Errorf("the session is untrusted: %v", untrusted)
			}
		})
	}
}

func TestALongResultIsCut(t *testing.T) {
	w := setUp(t)
	w.runner.set(func(context.Context, policy.Spec) (Ran, error) {
		r := said(strings.Repeat("é\x00", maxText))
		r.Output.Dropped = 5
		return r, nil
	})
	r := w.call(read("s/1/1/0", "/data/a"))
	if len(r.Text) > maxText || r.Dropped != int64(3*maxText-len(r.Text))+5 {
		t.Errorf("%d bytes, %d dropped", len(r.Text), r.Dropped)
	}
	if m, err := w.d.Fate(t.Context(), "s/1/1/0"); err != nil || m.(*proto.CallResult).Text != r.Text {
		t.Errorf("it was not kept: %v", err)
	}
}

// A session is tainted before it reads what taints it, and its next call is
// decided by that.
func TestTaintComesBeforeTheResult(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.grant("10-read.toml", "tool = \"read_file\"\nmode = \"auto\"\nmode_untrusted = \"ask\"\nresult_class = \"secret\"\nmax_taint = \"private\"\n[paths]\nread = [\"/data\"]\n")
	w.kill("keep")
	w.start()
	if _, err := w.d.Call(t.Context(), read("s/1/1/0", "/data/a"), nil); !errors.Is(err, ErrEnding) {
		t.Fatal(err)
	}
	w.died()
	defer w.end()
	if class, untrusted, err := w.taint.Get("s"); class != proto.ClassSecret || !untrusted || err != nil {
		t.Errorf("%s %v %v", class, untrusted, err)
	}
	if r := w.call(read("s/1/2/0", "/data/a")); r.Code != proto.CodeTaintTooHigh {
		t.Errorf("%+v", r)
	}
}

// P62: the head that goes out with a result covers its record, so that a log cut
// behind brokerd's back is found by whoever keeps heads.
func TestCaseP62ResultsCarryTheHeadOfTheLog(t *testing.T) {
	w := setUp(t)
	last := int64(0)
	for _, c := range []*proto.Call{read("s/1/1/0", "/data/a"), read("s/1/2/0", "/etc/x"), read("s/1/3/0", "/data/a")} {
		r := w.call(c)
		if r.Head.N <= last || r.Head != w.log.Head() {
			t.Errorf("%+v, the log has %+v", r.Head, w.log.Head())
		}
		last = r.Head.N
	}
}

// A stop closes the connection to runnerd, which is an error of its own.
func TestARunWhoseConnectionIsClosedByAStop(t *testing.T) {
	w := setUp(t)
	running := make(chan string, 1)
	w.runner.set(func(ctx context.Context, s policy.Spec) (Ran, error) {
		running <- s.Call
		<-ctx.Done()
		return Ran{}, context.Cause(ctx)
	})
	done := make(chan *proto.CallResult)
	go func() { done <- w.call(read("s/1/1/0", "/data/a")) }()
	<-running
	if _, err := w.d.Cancel(t.Context(), "s/1/1/0"); err != nil {
		t.Error(err)
	}
	if r := <-done; r.Outcome != proto.CallFailed || r.Code != proto.CodeStopped {
		t.Errorf("%+v", r)
	}
}
