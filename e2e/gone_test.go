package e2e

import (
	"bytes"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// TestAskWithoutUp: when bxctl up is gone in the middle of a turn, ask does not
// wait for what nobody starts again: it ends with what became of the message and
// the next command.
func TestAskWithoutUp(t *testing.T) {
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "20"})
	s.Up()
	var out, errs bytes.Buffer
	cmd := s.Command(t.Context(), "ask", "--session", "chat-gone", "say 3000 words")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.WaitUntil("the turn to run", func() bool {
		st, err := s.Status()
		return err == nil && st.OpenTurns == 1
	})
	s.KillUp()
	_ = cmd.Wait() // within the test's patience, which is shorter than two minutes
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(errs.String(), "bxctl up --detach") || !strings.Contains(errs.String(), "on disk") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	for _, command := range []string{"ask", "chat"} {
		r := s.Bxctl("hello", command)
		if r.Code != 3 || !strings.Contains(r.Stderr, "start it with: bxctl up --detach") {
			t.Errorf("%s: exit %d: %s", command, r.Code, r.Stderr)
		}
	}
}
