package redteam

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// act is an attempt that is more than one call.
func act(name string, run func(r *rig)) attempt { return attempt{name: name, run: run} }

// refusedFrame sends bytes that are no request; brokerd must say so and put
// nothing on record.
func (r *rig) refusedFrame(body string) {
	r.t.Helper()
	before := r.head()
	m, err := r.raw([]byte(body), nil)
	var no *proto.Error
	if !errors.As(err, &no) || no.Code != proto.ErrBadRequest {
		r.t.Errorf("the answer is %+v, %v; want bad-request", m, err)
	}
	if after := r.head(); after != before {
		r.t.Errorf("the audit log has grown from %d to %d records", before.N, after.N)
	}
}

// head is that of the audit log now, as the owner's socket tells it: each use
// shows that the owner is still answered.
func (r *rig) head() proto.AuditHead {
	r.t.Helper()
	st, err := r.Broker()
	if err != nil {
		r.t.Fatalf("the owner is not answered: %v", err)
	}
	return st.Head
}

// counted is a shell command that leaves a line in a file, so that it is seen
// how often it ran.
func (r *rig) counted(file string) obj {
	return obj{"command": "echo ran >> " + filepath.Join(r.granted, file)}
}

// runs counts the lines that such commands left.
func (r *rig) runs(file string) int {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.granted, file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Error(err)
	}
	return strings.Count(string(b), "\n")
}

func (r *rig) ranTimes(file string, want int) {
	r.t.Helper()
	if n := r.runs(file); n != want {
		r.t.Errorf("%s: it ran %d times, want %d", file, n, want)
	}
}

// is compares a result's code, and the newest decision on record for its id.
func (r *rig) is(res *proto.CallResult, want proto.Code) {
	r.t.Helper()
	if res.Code != want {
		r.t.Errorf("%s: code %q, want %q; the model reads: %.300s", res.ID, res.Code, want, res.Text)
	}
	last := r.lastDecision(res.ID)
	if last == nil {
		r.t.Errorf("%s: no decision on record", res.ID)
		return
	}
	if last.Verdict == proto.VerdictDeny && last.Code != want {
		r.t.Errorf("%s: on record is %s %s, want %s", res.ID, last.Verdict, last.Code, want)
	}
	if want == proto.CodeReplayedCall && last.Verdict != proto.VerdictDeny {
		r.t.Errorf("%s: a replay was refused, and nothing of it is on record", res.ID)
	}
}

func (r *rig) lastDecision(id string) (last *proto.AuditDecision) {
	for _, d := range stack.AuditOf[*proto.AuditDecision](r.Audit()) {
		if d.ID == id {
			last = d
		}
	}
	return last
}

// restart kills brokerd and waits for the next one.
func (r *rig) restart() {
	r.t.Helper()
	old := r.PID("brokerd")
	if !r.Kill("brokerd") {
		r.t.Fatal("brokerd does not run")
	}
	r.WaitUntil("another brokerd answers", func() bool {
		pid := r.PID("brokerd")
		_, err := r.Broker()
		return pid != 0 && pid != old && err == nil
	})
}

// nothingTwice is what the log must say after every family: an id was allowed
// at most once and has at most one outcome, and whatever has one was allowed.
func nothingTwice(r *rig) {
	r.t.Helper()
	allowed, ended := map[string]int{}, map[string]int{}
	for _, l := range r.Audit() {
		switch m := l.Record.(type) {
		case *proto.AuditDecision:
			if m.Verdict == proto.VerdictAllow {
				allowed[m.ID]++
			}
		case *proto.AuditApproval:
			if m.Verdict == proto.VerdictApproved && m.Code == "" {
				allowed[m.ID]++
			}
		case *proto.AuditOutcome:
			ended[m.ID]++
			if allowed[m.ID] == 0 {
				r.t.Errorf("%s has an outcome and was not allowed", m.ID)
			}
		}
	}
	for id, n := range allowed {
		if n > 1 || ended[id] > 1 {
			r.t.Errorf("%s was allowed %d times and ended %d times", id, n, ended[id])
		}
	}
}

func undeclaredTools() family {
	return family{
		name: "calls to undeclared tools",
		stage: func(r *rig) {
			r.grant("10-read", readGrant(r.granted))
			r.grant("20-shell", shellGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			rows := []attempt{
				{name: "control: a declared and granted tool", tool: "read_file", args: obj{"path": filepath.Join(r.granted, "note.txt")}, want: []proto.Code{""}},
			}
			write := obj{"path": filepath.Join(r.granted, "owned.txt"), "content": "owned", "mode": "create", "command": "touch " + filepath.Join(r.granted, "owned.txt"), "argv": []string{"/bin/touch", filepath.Join(r.granted, "owned.txt")}}
			for _, name := range []string{
				"clock", "recall", "find_tool", "call_tool", "remember", "spawn_agent", "read_skill", "run_script", "schedule", "list_jobs", "send_message",
				"readfile", "read_files", "_read_file", "read_file_", "read__file", "file_read", "sh", "bash", "exec", "system", "sudo", "python", "approve", "answer", "halt", "resume",
				"launch", "preview", "forward", "secret_get", "grant", "0", "_", strings.Repeat("a", 64), "shell1", "she1l", "read_fi1e",
			} {
				rows = append(rows, attempt{name: "unknown " + name, tool: name, args: write, want: []proto.Code{proto.CodeUnknownTool}})
			}
			for _, name := range []string{"write_file", "edit_file", "run", "list_files", "search_files", "http_fetch"} {
				rows = append(rows, attempt{name: "not granted " + name, tool: name, args: legal(r, name), want: []proto.Code{proto.CodeNoGrant}})
			}
			for what, name := range map[string]string{
				"other case": "Read_File", "capitals": "SHELL", "a look-alike": "re\u0430d_file", "wide letters": "\uff53\uff48\uff45\uff4c\uff4c", "nothing": "", "65 letters": strings.Repeat("a", 65),
				"a megabyte": strings.Repeat("a", 1<<20), "NUL at the end": `read_file\u0000`, "NUL and more": `read_file\u0000x`, "a path": "../shell", "a path that is absolute": "/bin/sh", "a space": "shell ",
				"a line break": `shell\n`, "a dot": "tools.shell", "a dash": "read-file", "a colon": "mcp:shell", "zero width": "shell\u200b", "an accent": "she\u0301ll", "a star": "*", "a comma": "shell,run",
			} {
				rows = append(rows, act("no name: "+what, func(r *rig) {
					id := r.id()
					r.refusedFrame(`{"type":"call","id":"` + id + `","session":"` + r.session + `","tool":"` + name + `","args":"{}"}`)
					if d := r.lastDecision(id); d != nil {
						r.t.Errorf("a decision is on record: %+v", d)
					}
				}))
			}
			for _, q := range []string{"", "write_file", "http_fetch fetch a web page", "all tools", "*", ".*", "run", "edit", strings.Repeat("x ", 10000), "\x1b[2J", "canary"} {
				rows = append(rows, act("find_tool shows what is granted: "+clipped(q), func(r *rig) { r.findsOnly(q, "read_file", "shell") }))
			}
			return append(rows, act("nothing was written", func(r *rig) {
				if _, err := os.Stat(filepath.Join(r.granted, "owned.txt")); err == nil {
					r.t.Error("an undeclared tool wrote a file")
				}
				nothingTwice(r)
			}))
		},
	}
}

func clipped(s string) string { return fmt.Sprintf("%.20q", s) }

// legal gives arguments that a tool takes.
func legal(r *rig, tool string) obj {
	in := filepath.Join(r.granted, "owned.txt")
	switch tool {
	case "write_file":
		return obj{"path": in, "content": "owned", "mode": "create"}
	case "edit_file":
		return obj{"path": in, "old": "a", "new": "b"}
	case "run":
		return obj{"argv": []string{"/bin/touch", in}}
	case "search_files":
		return obj{"path": r.granted, "pattern": "x"}
	case "http_fetch":
		return obj{"url": "http://example.com/"}
	default:
		return obj{"path": r.granted}
	}
}

// findsOnly asks for tools; others than these must not be shown.
func (r *rig) findsOnly(query string, names ...string) {
	r.t.Helper()
	m, err := r.broker(&proto.FindTools{Session: r.session, Query: query}, nil)
	list, ok := m.(*proto.ToolList)
	if err != nil || !ok {
		r.t.Fatalf("%+v, %v", m, err)
	}
	for _, t := range list.Tools {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+t.Name+" ") {
			r.t.Errorf("%s is shown, and nothing grants it", t.Name)
		}
		r.clean(t.Line + t.Schema)
	}
}

// A wire is one raw connection.
type wire struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// open connects to broker.sock with loopd's uid.
func (r *rig) open() *wire {
	r.t.Helper()
	c := r.dial(r.Layout.Socket("brokerd", "loopd", "broker"), r.uid("loopd"))
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(stack.Patience)); err != nil {
		r.t.Fatal(err)
	}
	return &wire{c, r.t, bufio.NewReader(c)}
}

// put writes bytes; that the other side has left already is no fault.
func (w *wire) put(b []byte) { _, _ = w.Write(b) }

// next is the next message, or nil at the end.
func (w *wire) next() proto.Message {
	w.t.Helper()
	b, err := frame.Read(w.in)
	if err != nil {
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			w.t.Error("brokerd neither answers nor closes")
		}
		return nil
	}
	m, err := proto.BrokerEvents.Decode(b)
	if err != nil {
		w.t.Errorf("an answer that is none: %v", err)
	}
	return m
}

// half closes the sending side.
func (w *wire) half() {
	w.t.Helper()
	if u, ok := w.Conn.(*net.UnixConn); ok {
		_ = u.CloseWrite()
	}
}

// drained reads to the end.
func (w *wire) drained() { _, _ = io.Copy(io.Discard, w.in) }

// authorityFamilies are about what is decided and who decides it.
func authorityFamilies() []family {
	return []family{
		undeclaredTools(), callIDs(), forgedFrames(), lyingLoopd(), spoofedApprovals(), lateApprovals(), lookAlikes(), shellQuoting(), taintLaundering(), secretChannels(), grantPatterns(), grantFiles(), auditEdits(),
	}
}
