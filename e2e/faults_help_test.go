package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// Exit codes of bxctl, as `bxctl --help` lists them.
const (
	exitOK, exitFailed, exitUsage, exitNotRunning, exitUnanswered = 0, 1, 2, 3, 4
)

// A view is what the owner must be shown by a command.
type view struct {
	code int
	key  string   // runbook
	says []string // of standard error
}

// check holds the result of a command against a view. A command that failed
// prints nothing on standard output (events of --json apart), and on standard error
// what happened and where it is explained.
func (v view) check(t *testing.T, r stack.Result) {
	t.Helper()
	if v.code != exitOK && r.Stdout != "" && !strings.HasPrefix(r.Stdout, "{") {
		t.Errorf("standard output of a command that failed: %q", r.Stdout)
	}
	if r.Code != v.code {
		t.Errorf("exit code %d, want %d; it printed:\n%s%s", r.Code, v.code, r.Stdout, r.Stderr)
	}
	for _, want := range v.says {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the owner is not told %q:\n%s", want, r.Stderr)
		}
	}
	if v.code == exitOK {
		return
	}
	if !strings.HasPrefix(r.Stderr, "bxctl: ") || strings.Contains(r.Stderr, "goroutine ") {
		t.Errorf("not a message for the owner:\n%s", r.Stderr)
	}
	checkKey(t, r.Stderr, v.key)
}

// checkKey wants a text to name just this section of the runbook, and the
// section to be there.
func checkKey(t *testing.T, text, key string) {
	t.Helper()
	var got []string
	for _, m := range seeRunbook.FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, []string{key}) {
		t.Errorf("runbook keys %q, want %q in:\n%s", got, key, text)
	}
	if !regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(key) + `$`).MatchString(read(t, "../docs/runbook.md")) {
		t.Errorf("docs/runbook.md has no section %q", key)
	}
}

// fresh is a new installation with the practice model.
func fresh(t *testing.T) *stack.Stack {
	t.Helper()
	s := stack.New(t)
	s.Must("", "init", "--practice")
	return s
}

// quick makes loopd's patience with the server short, so that a test of its end
// takes no minutes. idle has to be more than the pauses of a busy machine.
func quick(s *stack.Stack) {
	s.TB.Helper()
	for key, value := range map[string]string{"idle": "2s", "load": "1s", "reach": "1s"} {
		s.Set("loopd.toml", "upstream", key, value)
	}
}

func ask(s *stack.Stack, session, text string, args ...string) stack.Result {
	s.TB.Helper()
	return s.Bxctl(text, append([]string{"ask", "--session", session}, args...)...)
}

// answered asks, wants an answer, and gives it.
func answered(t *testing.T, s *stack.Stack, session, text string) string {
	t.Helper()
	r := ask(s, session, text)
	if r.Code != exitOK || strings.TrimSpace(r.Stdout) == "" {
		t.Errorf("%s: exit code %d, answer %q\n%s", session, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSuffix(r.Stdout, "\n")
}

// events are those of one turn, as `bxctl ask --json` prints them.
type events []proto.Message

// askEvents asks with --json. The events have to end in Done. The result is there
// for what standard error says.
func askEvents(t *testing.T, s *stack.Stack, session, text string) (events, *proto.Done, stack.Result) {
	t.Helper()
	r := ask(s, session, text, "--json")
	var out events
	for line := range strings.Lines(r.Stdout) {
		m, err := proto.LoopEvents.Decode([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatalf("%s: a line of --json is no event: %v\n%q", session, err, line)
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		t.Fatalf("%s: no events; exit code %d\n%s", session, r.Code, r.Stderr)
	}
	done, ok := out[len(out)-1].(*proto.Done)
	if !ok {
		t.Fatalf("%s: ended with %T\n%s", session, out[len(out)-1], r.Stderr)
	}
	if want := map[bool]int{true: exitOK, false: exitUnanswered}[done.Outcome == proto.TurnAnswered]; r.Code != want {
		t.Errorf("%s: exit code %d of a turn that %s", session, r.Code, done.Outcome)
	}
	return out, done, r
}

// notices are the kinds of the turn's notices.
func (e events) notices() []proto.NoticeKind {
	var out []proto.NoticeKind
	for _, m := range e {
		if n, ok := m.(*proto.Notice); ok {
			out = append(out, n.Kind)
		}
	}
	return out
}

// shown is all text that was streamed.
func (e events) shown() string {
	var b strings.Builder
	for _, m := range e {
		if m, ok := m.(*proto.Text); ok {
			b.WriteString(m.Text)
		}
	}
	return b.String()
}

// wantNotices wants exactly these notices, in order.
func (e events) wantNotices(t *testing.T, kinds ...proto.NoticeKind) {
	t.Helper()
	if got := e.notices(); !slices.Equal(got, kinds) {
		t.Errorf("notices %v, want %v", got, kinds)
	}
}

// settled reads all logs of a home at rest: they verify, and each turn in them
// was followed to its end, once.
func settled(t *testing.T, s *stack.Stack) []stack.Epoch {
	t.Helper()
	s.WaitQuiet()
	epochs, err := s.Epochs()
	if err != nil {
		t.Fatalf("the logs don't verify: %v", err)
	}
	turns := map[string]*turnRecord{}
	for _, e := range epochs {
		readTurns(t, e, turns)
		if e.Torn != 0 {
			t.Errorf("%s/%d has a torn tail", e.Session, e.Number)
		}
	}
	return epochs
}

// epoch finds one log among all.
func epoch(t *testing.T, all []stack.Epoch, session string, number int) stack.Epoch {
	t.Helper()
	for _, e := range all {
		if e.Session == session && e.Number == number {
			return e
		}
	}
	t.Fatalf("there is no log of %s, epoch %d", session, number)
	return stack.Epoch{}
}

// records gives the records of one type.
func records[T proto.Record](e stack.Epoch) []T {
	var out []T
	for _, l := range e.Lines {
		if r, ok := l.Record.(T); ok {
			out = append(out, r)
		}
	}
	return out
}

// wantGrowth holds the requests that a server got against the logs: each is the
// start of what one log says, and those of one log only grow. The same bytes may
// come twice (a retry), not more often. Requests on the background slot are the
// self-test's.
func wantGrowth(t *testing.T, epochs []stack.Epoch, bodies [][]byte) {
	t.Helper()
	heads := map[string][]byte{} // of each log
	last := map[string][]byte{}
	twice := map[string]bool{}
	for _, e := range epochs {
		heads[fmt.Sprintf("%s/%d", e.Session, e.Number)] = e.Messages()
	}
	n := 0
	for _, b := range bodies {
		front, messages, ok := bytes.Cut(b, []byte(`"messages":[`))
		if !ok || bytes.Contains(front, []byte(`"id_slot":1,`)) {
			continue
		}
		n++
		log := ""
		for name, all := range heads {
			if bytes.HasPrefix(all, bytes.TrimSuffix(messages, []byte("]}"))) {
				log = name
			}
		}
		switch before := last[log]; {
		case log == "":
			t.Errorf("a request that no log tells of: …%s", messages[max(0, len(messages)-300):])
			continue
		case before == nil:
		case bytes.Equal(before, b):
			if twice[log] {
				t.Errorf("%s: the same request came three times", log)
			}
			twice[log] = true
			continue
		default:
			if err := stack.Extends(before, b); err != nil {
				t.Errorf("%s: %v", log, err)
			}
		}
		last[log], twice[log] = b, false
	}
	if n == 0 {
		t.Error("no request reached the server: this proves nothing")
	}
}

// recorded gives the bodies that a practice server was sent.
func recorded(t *testing.T, v *stack.Server) [][]byte {
	t.Helper()
	all, err := stack.Requests(v.Record)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, r := range all {
		out = append(out, r.Body)
	}
	return out
}

// program runs one of our programs, not under `bxctl up`, to its end.
func program(s *stack.Stack, name string, args ...string) stack.Result {
	s.TB.Helper()
	ctx, cancel := context.WithTimeout(s.TB.Context(), stack.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "BOXMAKER_HOME="+s.Home)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.TB.Fatal(err)
	}
	return stack.Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
}
