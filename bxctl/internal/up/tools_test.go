package up

import (
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
)

// A brokerd that refuses after loopd is ready is no success.
func TestBrokerRefusesLate(t *testing.T) {
	b := newBox(t)
	b.mark("refuse-broker")
	err := Detach(t.Context(), b.o, time.Minute)
	text := fault.Text(err)
	if fault.Code(err) != fault.Failed || !strings.Contains(text, "brokerd refused to start") || !strings.Contains(text, "(see runbook: audit-cut)") {
		t.Errorf("%s", text)
	}
	if strings.Contains(b.out.String(), "ready") {
		t.Errorf("it said %q", b.out.String())
	}
	if _, last, err := Inspect(b.layout); err != nil || !strings.Contains(last, "the log was cut") {
		t.Errorf("%q, %v", last, err)
	}
}

// One that comes back is waited for, and its reason is shown until then.
func TestBrokerComesBack(t *testing.T) {
	b := newBox(t)
	b.mark("crash-broker")
	if err := Detach(t.Context(), b.o, time.Minute); err != nil {
		t.Fatal(fault.Text(err))
	}
	if r := b.role("brokerd"); r.Restarts != 1 || r.Reason != "it broke" || r.PID == 0 || r.Ended() != "ended (exit code 1): it broke" {
		t.Errorf("%+v", r)
	}
	b.state()
}

// A connection that breaks is no answer.
func TestBrokerHangsUp(t *testing.T) {
	b := newBox(t)
	b.mark("hang-up")
	if err := Detach(t.Context(), b.o, time.Minute); err != nil {
		t.Fatal(fault.Text(err))
	}
	if r := b.role("brokerd"); r.Restarts != 1 || r.PID == 0 || strings.Contains(b.out.String(), "not available: the connection") {
		t.Errorf("%+v, said %q", r, b.out.String())
	}
	b.state()
}

func TestToolsAreNotAvailable(t *testing.T) {
	for _, tc := range []struct {
		name, mark, want string
		code             int
	}{
		{"no runtime", "no-runtime", "tools are not available: no tool can run: no crun (see runbook: runner-no-runtime); see bxctl logs brokerd", 0},
		{"it hangs", "mute", "tools are not available: brokerd does not answer yet", fault.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			b.mark(tc.mark)
			err := Detach(t.Context(), b.o, 4*time.Second)
			said := b.out.String()
			if err != nil {
				said += fault.Text(err)
			}
			if fault.Code(err) != tc.code || !strings.Contains(said, tc.want) {
				t.Errorf("code %d, said %q", fault.Code(err), said)
			}
			b.state()
		})
	}
}
