package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// shows waits until status shows a failed row of that name and key.
func (w *worker) shows(row, key string) {
	w.t.Helper()
	w.WaitUntil("status tells of "+row, func() bool {
		for line := range strings.Lines(w.Bxctl("", "status").Stdout) {
			if f := strings.Fields(line); len(f) > 2 && f[0] == "failed" && f[1] == row && strings.Contains(line, "(see runbook: "+key+")") {
				return true
			}
		}
		return false
	})
}

// mayFetch grants one server on this machine.
func mayFetch(url string) string {
	host := strings.TrimPrefix(url, "http://")
	return fmt.Sprintf("tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [%q]\nlocal = [%[1]q]\n", host)
}

// Nobody answers for runnerd and egressd: no call runs, none goes out, nobody hears
// of it but the owner and the model, and as soon as they are back all goes on.
func TestFault_Authority_NobodyAnswersForRunnerdAndEgressd(t *testing.T) {
	var mu sync.Mutex
	came := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came++
		fmt.Fprintln(w, "good morning")
	}))
	defer web.Close()
	w := traced(t, func(s *stack.Stack) { s.Grant("30-fetch.toml", mayFetch(web.URL)) })
	fetch := call("http_fetch", map[string]any{"url": web.URL + "/"})
	w.do(fetch, proto.CallOK, "", "good morning")

	egressd := w.Layout.Socket("egressd", "brokerd", "egress")
	back := w.move(egressd, egressd+".away")
	r := w.do(fetch, proto.CallFailed, proto.CodeNoEgress, "")
	if text := result(t, r); !strings.HasPrefix(text, "no-egress: ") {
		t.Errorf("the model reads %q", text)
	}
	w.works() // what needs no way out

	runnerd := w.Layout.Socket("runnerd", "brokerd", "runner")
	backToo := w.move(runnerd, runnerd+".away")
	w.refused(proto.CallFailed, proto.CodeNoRuntime, "")
	if o := last[*proto.AuditOutcome](w); o.Code != proto.CodeNoRuntime {
		t.Errorf("on record: %+v", o)
	}
	w.shows("egress", "egressd-away")
	w.shows("runner", "runnerd-away")
	w.complains("doctor", "(see runbook: egressd-away)", "(see runbook: runnerd-away)")
	back()
	backToo()
	w.works()
	w.do(fetch, proto.CallOK, "", "good morning")
	if mu.Lock(); came != 2 {
		t.Errorf("the server was asked %d times", came)
	}
	mu.Unlock()
	w.whole()
}

// egressd is killed in the middle of an answer: the model reads what came, and that it
// is not all; the record says that nobody knows what went out; the next call works.
func TestFault_Authority_EgressdKilledDuringATransfer(t *testing.T) {
	half, end := make(chan struct{}, 8), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/whole" {
			fmt.Fprintln(w, "good morning")
			return
		}
		w.Header().Set("Content-Length", "100000")
		fmt.Fprint(w, strings.Repeat("the first half ", 1000))
		w.(http.Flusher).Flush()
		half <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer web.Close()
	defer close(end)
	w := traced(t, func(s *stack.Stack) { s.Grant("30-fetch.toml", mayFetch(web.URL)) })
	turn := w.begin(call("http_fetch", map[string]any{"url": web.URL + "/half"}))
	select {
	case <-half:
	case <-turn.end:
		t.Fatal("the call has ended before it was half done")
	}
	if !w.Kill("egressd") {
		t.Fatal("egressd does not run")
	}
	r, text := turn.ended()
	if r.Outcome != proto.CallOK || !strings.Contains(text, "[cut here: the connection broke off after the first ") {
		t.Errorf("%s %q: %s", r.Outcome, r.Code, text)
	}
	if o := last[*proto.AuditOutcome](w); !strings.Contains(o.Detail, "what passed over the network is not known") {
		t.Errorf("on record: %+v", o)
	}
	w.complains("doctor", "egressd was restarted", "see why in ")
	w.WaitUntil("it lets out again", func() bool {
		r, _ := w.begin(call("http_fetch", map[string]any{"url": web.URL + "/whole"})).ended()
		return r.Outcome == proto.CallOK
	})
	w.works()
	w.whole()
}

// brokerd is killed during a call, and after it runnerd: no container outlives
// either, the model is told that nobody knows what became of the call, and nothing
// runs twice.
func TestCaseP69_NoContainerOutlivesItsParent(t *testing.T) {
	w := traced(t, nil)
	trace := filepath.Join(w.Layout.Workspace, "trace")
	for i, victim := range []string{"brokerd", "runnerd", "bxctl"} {
		before := w.traces()
		seconds := fmt.Sprintf("4141.%d", i)
		turn := w.begin(call("shell", map[string]any{"command": "echo x >> " + trace + "; sleep " + seconds + "; echo x >> " + trace}))
		w.WaitUntil("the tool runs", func() bool { return len(running("sleep", seconds)) > 0 })
		if victim == "bxctl" {
			w.KillUp()
		} else if !w.Kill(victim) {
			t.Fatalf("%s does not run", victim)
		}
		w.WaitUntil("the container is gone", func() bool { return len(running("sleep", seconds)) == 0 })
		if victim == "bxctl" {
			w.Up()
		}
		r, text := turn.ended()
		if r.Outcome == proto.CallOK || !strings.HasPrefix(text, string(r.Code)+": ") || victim != "runnerd" && r.Code != proto.CodeUnknownFate {
			t.Errorf("%s killed: %s %q: %s", victim, r.Outcome, r.Code, text)
		}
		if o := last[*proto.AuditOutcome](w); o.Outcome != r.Outcome || o.Code != r.Code {
			t.Errorf("%s killed: on record: %+v", victim, o)
		}
		if n := w.traces(); n != before+1 {
			t.Errorf("%s killed: %d traces more, want 1", victim, n-before)
		}
		w.WaitUntil("nothing is left of the container", func() bool {
			left, err := filepath.Glob(filepath.Join(w.Layout.Run, "runnerd", "bundles", "bm*"))
			return err == nil && len(left) == 0
		})
		w.WaitTools()
		w.works()
	}
	w.whole()
}
