package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// TestAuthorityKill kills the programs that run tools, and containers, with
// SIGKILL at random moments while calls are made, asked, answered and withdrawn,
// and holds what was said of each call against what it did, which every call
// leaves a trace of. BOXMAKER_KILLS says how often (default 12), BOXMAKER_SEED
// repeats the choices of a run, though not its timing.
func TestAuthorityKill(t *testing.T) {
	kills := number(t, "BOXMAKER_KILLS", 12)
	seed := uint64(number(t, "BOXMAKER_SEED", int(time.Now().UnixNano()%1e9)))
	t.Logf("BOXMAKER_KILLS=%d BOXMAKER_SEED=%d", kills, seed)
	s := &siege{t: t, end: make(chan struct{}), waited: map[string]bool{}, fetched: map[string]int{}}
	web := httptest.NewServer(http.HandlerFunc(s.serve))
	defer web.Close()
	s.web = web.URL
	s.worker = newWorker(t, s.prepare)
	s.runs = filepath.Join(s.Layout.Workspace, "runs")

	var wg sync.WaitGroup
	for i := range 3 {
		c := &caller{siege: s, session: fmt.Sprintf("kill-%d", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		s.callers = append(s.callers, c)
		wg.Go(c.work)
	}
	wg.Go(s.talk)
	owner, stop := context.WithCancel(t.Context())
	var desk sync.WaitGroup
	desk.Go(func() { s.owner(owner, rand.New(rand.NewPCG(seed, 100))) })
	counts := s.fight(kills, rand.New(rand.NewPCG(seed, 200)))
	close(s.end)
	wg.Wait()
	stop()
	desk.Wait()
	t.Logf("kills: %v", counts)
	s.settled()
	s.judge()
}

// A siege is an installation that is attacked.
type siege struct {
	*worker
	t         *testing.T
	web, runs string
	end       chan struct{} // closed: begin nothing new
	callers   []*caller

	mu      sync.Mutex // guards what follows
	waited  map[string]bool
	fetched map[string]int // by call
	told    []*turn
}

func (s *siege) prepare(st *stack.Stack) {
	st.OnlyGrants()
	st.Workspace("runs", "")
	st.Workspace("notes.md", "the answer is 42\n")
	host := strings.TrimPrefix(s.web, "http://")
	st.Grant("10-shell.toml", "tool = \"shell\"\nmode = \"auto\"\n[paths]\nwrite = [\"@WORKSPACE@\"]\n[userland]\nkind = \"usr\"\n[limits]\ntime = \"30s\"\n")
	st.Grant("20-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"@WORKSPACE@\"]\n")
	st.Grant("30-write.toml", "tool = \"write_file\"\nmode = \"ask\"\n[paths]\nwrite = [\"@WORKSPACE@\"]\n")
	st.Grant("40-fetch.toml", fmt.Sprintf("tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [%q]\nlocal = [%[1]q]\n", host))
}

// serve counts who came: a fetch leaves its trace here.
func (s *siege) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched[r.URL.Query().Get("id")]++
	fmt.Fprintln(w, "hello", r.URL.Query().Get("id"))
}

func (s *siege) over() bool {
	select {
	case <-s.end:
		return true
	default:
		return false
	}
}

// A caller makes one call after another with loopd's identity.
type caller struct {
	*siege
	session string
	random  *rand.Rand
	calls   []*made
}

// A made call and what was said of it; a result that is nil: it never began.
type made struct {
	*proto.Call
	result *proto.CallResult
	kept   bool // not confirmed, and asked for again at the end
}

func (c *caller) work() {
	for n := int64(1); !c.over(); n++ {
		m := &made{Call: c.next(n)}
		c.calls = append(c.calls, m)
		cancel := func() {}
		if m.Tool == "write_file" || c.random.IntN(6) == 0 { // what is asked and left unanswered would wait for long
			d := time.Duration(c.random.IntN(1500)) * time.Millisecond
			ctx, stop := context.WithCancel(c.t.Context())
			cancel = stop
			go c.withdraw(ctx, m.ID, d)
		}
		m.result = c.ends(m.Call)
		cancel()
		if m.result == nil {
			continue
		}
		c.again(m) // perhaps after a restart
		if m.kept = c.random.IntN(3) == 0; !m.kept {
			c.try(&proto.Confirm{ID: m.ID})
		}
	}
}

// next makes up a call that leaves a trace.
func (c *caller) next(n int64) *proto.Call {
	id := proto.CallID{Session: c.session, Epoch: 1, Record: n}.String()
	mark := strings.ReplaceAll(id, "/", ".")
	m := &proto.Call{ID: id, Session: c.session, Tool: "shell"}
	pause := func() string { return fmt.Sprintf("sleep 0.%02d", c.random.IntN(15)) }
	args := map[string]any{"command": pause() + "; echo " + mark + " >> " + c.runs + "; " + pause()}
	switch k := c.random.IntN(10); {
	case k < 2:
		m.Tool, args = "read_file", map[string]any{"path": filepath.Join(c.Layout.Workspace, "notes.md")}
	case k < 4:
		m.Tool, args = "write_file", map[string]any{"path": c.file(id), "content": mark, "mode": "create"}
	case k < 5:
		m.Tool, args = "http_fetch", map[string]any{"url": c.web + "/?id=" + mark}
	}
	_, m.Args, _ = strings.Cut(call("", args), " ")
	return m
}

// file is what a write of this call makes.
func (s *siege) file(id string) string {
	return filepath.Join(s.Layout.Workspace, "w-"+strings.ReplaceAll(id, "/", "."))
}

func (c *caller) withdraw(ctx context.Context, id string, after time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(after): // the subject of the test: at any moment of the call
		_, _ = c.AsLoopd(ctx, &proto.Cancel{ID: id}, nil)
	}
}

// ends makes a call and follows it to its end, as loopd does: it sends it once
// and, if that breaks off, asks for its fate.
func (c *caller) ends(m *proto.Call) *proto.CallResult {
	got, err := c.AsLoopd(c.t.Context(), m, nil)
	if err != nil {
		got = c.try(&proto.Fate{ID: m.ID})
	}
	switch got := got.(type) {
	case *proto.CallResult:
		return got
	case *proto.Unknown:
		if !got.Never {
			c.t.Errorf("%s has no result, though none was confirmed", m.ID)
		}
		return nil
	default:
		c.t.Errorf("%s was answered with %+v", m.ID, got)
		return nil
	}
}

// try asks until brokerd is there to answer.
func (s *siege) try(m proto.Message) (got proto.Message) {
	s.WaitUntil("brokerd answers "+m.Tag(), func() bool {
		var err error
		got, err = s.AsLoopd(s.t.Context(), m, nil)
		return err == nil
	})
	return got
}

// again makes the same call once more: it must be what was said before. That an id
// was used is found out anew each time, and said in the words for what is known then.
func (c *caller) again(m *made) {
	r, ok := c.try(m.Call).(*proto.CallResult)
	if ok && r.Outcome == proto.CallDenied && r.Code == proto.CodeReplayedCall && m.result.Code == r.Code {
		return
	}
	if !ok || r.Outcome != m.result.Outcome || r.Code != m.result.Code || r.Text != m.result.Text || r.Class != m.result.Class || r.Untrusted != m.result.Untrusted {
		c.t.Errorf("%s (%s) was said to be %+v, and then %+v", m.ID, m.Tool, m.result, r)
	}
}

// talk has the model make calls through loopd.
func (s *siege) talk() {
	for i := 0; !s.over(); i++ {
		u := s.begin(call("shell", map[string]any{"command": fmt.Sprintf("echo loopd.%d >> %s", i+1, s.runs)}))
		if err := <-u.end; err != nil {
			s.t.Errorf("%s: %v", u.session, err)
		}
		s.told = append(s.told, u)
	}
}

// owner answers approvals, one way or the other; some it leaves.
func (s *siege) owner(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		for _, a := range s.pending(ctx) {
			s.mu.Lock()
			s.waited[a.Approval] = true
			s.mu.Unlock()
			v := proto.VerdictApproved
			switch random.IntN(8) {
			case 0:
				v = proto.VerdictDenied
			case 1, 2, 3:
				continue
			}
			_, _ = s.Owner(ctx, &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: v, Channel: "cli"})
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // the owner looks again
		}
	}
}

func (s *siege) pending(ctx context.Context) []proto.Approval {
	m, err := s.Owner(ctx, &proto.ListApprovals{})
	if l, ok := m.(*proto.ApprovalList); ok && err == nil {
		return l.Approvals
	}
	return nil
}

// fight kills n times, at random places of the calls.
func (s *siege) fight(n int, random *rand.Rand) map[string]int {
	counts := map[string]int{}
	victims := []string{"brokerd", "brokerd", "brokerd", "runnerd", "egressd", "loopd", "crun", "crun", firstProcess, firstProcess}
	for range n {
		victim := victims[random.IntN(len(victims))]
		if random.IntN(4) > 0 {
			s.WaitUntil("brokerd answers", func() bool { _, err := s.Broker(); return err == nil })
		}
		time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
		s.WaitUntil(victim+" runs and is killed", func() bool { return s.Kill(victim) })
		counts[victim]++
		if random.IntN(4) == 0 {
			s.chain()
		}
	}
	return counts
}

// chain verifies the audit log against all heads that were kept elsewhere.
func (s *siege) chain() {
	if r := s.Bxctl("", "audit", "verify"); r.Code != 0 {
		s.t.Errorf("audit verify: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// firstProcess is what the kernel calls the first process of a container.
const firstProcess = "tool"

// settled waits until all is quiet. No container is left then, nor a process of one.
func (s *siege) settled() {
	s.WaitReady()
	s.WaitTools()
	roles := append(stack.Programs(), "bxctl")
	s.WaitUntil("no container is left", func() bool {
		left, err := filepath.Glob(filepath.Join(s.Layout.Run, "runnerd", "bundles", "bm*"))
		return err == nil && len(left) == 0 && !slices.ContainsFunc(stack.Processes(s.Home), func(p stack.Process) bool {
			return !slices.Contains(roles, p.Program)
		})
	})
}

// judge compares what was said of each call with its traces and its records.
func (s *siege) judge() {
	s.Kill("brokerd") // what holds now holds for good
	for _, c := range s.callers {
		for _, m := range c.calls {
			if m.kept {
				c.again(m)
			}
		}
	}
	b, err := os.ReadFile(s.runs)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := map[string]int{}
	for _, l := range strings.Fields(string(b)) {
		if lines[l]++; lines[l] > 1 {
			s.t.Errorf("%s ran %d times", l, lines[l])
		}
	}
	audit := s.Audit()
	ends := map[string]proto.CallOutcome{}
	for _, o := range stack.AuditOf[*proto.AuditOutcome](audit) {
		if _, twice := ends[o.ID]; twice {
			s.t.Errorf("%s has two outcomes on record", o.ID)
		}
		ends[o.ID] = o.Outcome
	}
	said := map[string]int{}
	for _, c := range s.callers {
		for _, m := range c.calls {
			said[m.Tool+" "+s.judgeOne(m, lines, ends)]++
		}
	}
	s.judgeTurns(lines, said)
	s.judgeApprovals(audit)
	s.chain()
	s.t.Logf("calls: %v", said)
	if said["shell ok"] == 0 || said["read_file ok"] == 0 || said["loopd ok"] == 0 {
		s.t.Error("too little went well: nothing was tried")
	}
}

// judgeOne gives the outcome in a word.
func (s *siege) judgeOne(m *made, lines map[string]int, ends map[string]proto.CallOutcome) string {
	mark := strings.ReplaceAll(m.ID, "/", ".")
	traces, leaves := 0, true
	switch m.Tool {
	case "shell":
		traces = lines[mark]
	case "http_fetch":
		s.mu.Lock()
		traces = min(1, s.fetched[mark]) // a request may be sent anew on a connection that breaks
		s.mu.Unlock()
	case "write_file":
		if b, err := os.ReadFile(s.file(m.ID)); err == nil {
			traces = 1
			if string(b) != mark {
				s.t.Errorf("%s wrote %q", m.ID, b)
			}
		}
	default:
		leaves = false
	}
	r := m.result
	switch {
	case r == nil:
		if traces > 0 || ends[m.ID] != "" {
			s.t.Errorf("%s is said never to have begun, and did: %d traces, %q on record", m.ID, traces, ends[m.ID])
		}
		return "never"
	case r.Outcome == proto.CallOK && (leaves && traces != 1 || ends[m.ID] != proto.CallOK):
		s.t.Errorf("%s is ok: %d traces, %q on record", m.ID, traces, ends[m.ID])
	case (r.Outcome == proto.CallDenied || r.Outcome == proto.CallExpired) && traces > 0:
		s.t.Errorf("%s was not let run (%s), and has left a trace", m.ID, r.Code)
	case r.Outcome == proto.CallUnknown && (r.Code != proto.CodeUnknownFate || ends[m.ID] != proto.CallUnknown):
		s.t.Errorf("%s: %+v, %q on record", m.ID, r, ends[m.ID])
	case r.Outcome == proto.CallFailed && ends[m.ID] != proto.CallFailed && r.Code != proto.CodeInternal:
		s.t.Errorf("%s: %+v, %q on record", m.ID, r, ends[m.ID])
	}
	return string(r.Outcome)
}

// judgeTurns looks at the calls that went through loopd: its log says what it
// was told.
func (s *siege) judgeTurns(lines map[string]int, said map[string]int) {
	all, err := s.Epochs()
	if err != nil {
		s.t.Fatalf("the session logs don't verify: %v", err)
	}
	for _, u := range s.told {
		mark := "loopd." + strings.TrimPrefix(u.session, "chat-")
		for _, e := range all {
			if e.Session != u.session {
				continue
			}
			for _, r := range records[*proto.Tool](e) {
				if n := lines[mark]; r.Outcome == proto.CallOK && n != 1 || r.Outcome == proto.CallDenied && n != 0 {
					s.t.Errorf("%s: %s %s, and %d traces", u.session, r.Outcome, r.Code, n)
				}
				said["loopd "+string(r.Outcome)]++
			}
		}
	}
}

// judgeApprovals: what waited waits still, or its end is on record, once.
func (s *siege) judgeApprovals(audit []stack.AuditLine) {
	ended := map[string]int{}
	for _, a := range stack.AuditOf[*proto.AuditApproval](audit) {
		if ended[a.Approval]++; ended[a.Approval] > 1 {
			s.t.Errorf("the approval %s has ended twice", a.Approval)
		}
	}
	for _, a := range s.pending(s.t.Context()) {
		ended[a.Approval]++
	}
	for id := range s.waited {
		if ended[id] == 0 {
			s.t.Errorf("the approval %s is lost", id)
		}
	}
	s.t.Logf("%d approvals waited", len(s.waited))
}
