package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
)

// A desk is Boxmaker with one grant, and calls made with loopd's identity.
type desk struct {
	*stack.Stack
	t    *testing.T
	note string
	n    atomic.Int64 // of calls; ids of one session have to grow, so each that works at once has its own
}

func newDesk(t *testing.T, set func(*stack.Stack)) *desk {
	stack.Containers(t)
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.OnlyGrants()
	if set != nil {
		set(s)
	}
	s.Grant("50-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"@WORKSPACE@\"]\n")
	d := &desk{Stack: s, t: t, note: s.Workspace("note.txt", strings.Repeat("a line of a note\n", 64))}
	s.Up()
	s.WaitTools()
	return d
}

// read makes one call and confirms it, as loopd does after it has the result.
// The time is that from the request to the result.
func (d *desk) read(path string, want proto.CallOutcome) time.Duration {
	return d.readIn("chat-bench-call", path, want)
}

func (d *desk) readIn(session, path string, want proto.CallOutcome) time.Duration {
	id := proto.CallID{Session: session, Epoch: 1, Record: d.n.Add(1)}
	req := &proto.Call{ID: id.String(), Session: session, Tool: "read_file", Args: fmt.Sprintf("{\"path\":%q}", path)}
	conn, err := d.DialBroker() // before the clock starts: to take another uid is not loopd's work
	if err != nil {
		d.t.Error(err)
		return 0
	}
	var got proto.Message
	one := took(func() { got, err = stack.Exchange(d.t.Context(), conn, req, nil) })
	if r, ok := got.(*proto.CallResult); err != nil || !ok || r.Outcome != want {
		d.t.Errorf("%s: %v %+v", id, err, got)
	}
	if want == proto.CallOK {
		if _, err := d.AsLoopd(d.t.Context(), &proto.Confirm{ID: id.String()}, nil); err != nil {
			d.t.Error(err)
		}
	}
	return one
}

// call measures a granted read_file, beside what the runtime alone asks for.
func call(t *testing.T) []row {
	d := newDesk(t, nil)
	bare, err := newBare(d)
	if err != nil {
		t.Log("the bare runtime cannot be measured:", err)
	}
	d.read(d.note, proto.CallOK) // warm
	var ours, theirs []time.Duration
	for range pick(101, 1) {
		ours = append(ours, d.read(d.note, proto.CallOK))
		if bare != nil {
			theirs = append(theirs, bare.run(t))
		}
	}
	m := median(ours)
	rows := []row{{"a granted read_file, from request to result, crun", ms(m), "<= 45 ms", m <= 45*time.Millisecond, spread(ours)}}
	if bare != nil {
		b := median(theirs)
		ratio := float64(m) / float64(b)
		rows = append(rows, row{"  against a bare crun run of a program that only ends", fmt.Sprintf("%.2f", ratio), "<= 1.6", ratio <= 1.6, "bare: " + ms(b) + ", " + spread(theirs)})
	}
	rows = append(rows, crowd(t, d, bare)...)
	rows = append(rows, denial(t, d)...)
	rows = append(rows, idleAuthority(t, d)...)
	d.Down()
	return append(rows, podman(t, m)...)
}

// crowd measures eight calls at once against one alone. What the machine makes of
// containers at one time is beside it: eight of the bare runtime, two at a time.
// Where that alone exceeds the target, it is the target (docs/decisions.md, 89).
func crowd(t *testing.T, d *desk, bare *bare) []row {
	var alone, eight, one, bareEight []time.Duration
	for range pick(21, 1) {
		alone = append(alone, d.read(d.note, proto.CallOK))
		eight = append(eight, atOnce(8, func(i int) time.Duration { return d.readIn(fmt.Sprintf("chat-bench-%d", i), d.note, proto.CallOK) })...)
		if bare != nil {
			one = append(one, bare.run(t))
			bareEight = append(bareEight, atOnce(8, func(int) time.Duration { return took(func() { bare.run(t) }) })...)
		}
	}
	ratio := float64(median(eight)) / float64(median(alone))
	target, met := "<= 3.5", ratio <= 3.5
	note := ms(median(eight)) + " against " + ms(median(alone))
	if bare != nil {
		theirs := float64(median(bareEight)) / float64(median(one))
		target, met = target+", or bare crun's", met || ratio <= theirs
		note += fmt.Sprintf("; eight of bare crun, two at a time, against one: %.2f", theirs)
	}
	return []row{{"  eight at once, each, against one alone", fmt.Sprintf("%.2f", ratio), target, met, note}}
}

// atOnce gives what each took.
func atOnce(n int, f func(int) time.Duration) []time.Duration {
	var all sync.WaitGroup
	each := make([]time.Duration, n)
	for i := range each {
		all.Go(func() { each[i] = f(i) })
	}
	all.Wait()
	return each
}

// podman is the other runtime, which nobody has to have.
func podman(t *testing.T, crun time.Duration) []row {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Log("podman is not installed: its figure is not measured")
		return nil
	}
	d := newDesk(t, func(s *stack.Stack) { s.Set("runnerd.toml", "", "runtime", "podman") })
	if c := runtimeCheck(d); c != "" {
		t.Log("podman runs nothing here: its figure is not measured:", c)
		return nil
	}
	d.read(d.note, proto.CallOK)
	var times []time.Duration
	for range pick(11, 1) {
		times = append(times, d.read(d.note, proto.CallOK))
	}
	m := median(times)
	ratio := float64(m) / float64(crun)
	return []row{{"  the same with podman, against crun", fmt.Sprintf("%.1f", ratio), ">= 5", ratio >= 5, ms(m)}}
}

// runtimeCheck says why the runtime runs nothing, if so.
func runtimeCheck(d *desk) string {
	st := must[*proto.BrokerStatus](d.t)(d.Broker())
	for _, c := range st.Checks {
		if strings.HasPrefix(c.Name, "runner") && c.State == "failed" {
			return c.Detail
		}
	}
	return ""
}

// idleAuthority reads the memory of the roles that run tools.
func idleAuthority(t *testing.T, d *desk) []row {
	var rows []row
	for _, p := range []struct {
		program string
		limit   float64
	}{{"brokerd", 30}, {"egressd", 12}, {"runnerd", 0}} {
		mb, note := pss(t, d.PID(p.program))
		target, met := fmt.Sprintf("<= %.0f MB", p.limit), mb <= p.limit
		if p.limit == 0 {
			target, met = "none", true
		}
		rows = append(rows, row{"idle memory (PSS) of " + p.program, fmt.Sprintf("%.1f MB", mb), target, met, note})
	}
	return rows
}

// lookup is the way from a folder of a thousand grants that did not change to a
// decision.
func lookup(t *testing.T) []row {
	dir := t.TempDir()
	for i := range 1000 {
		text := fmt.Sprintf("tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"/srv/data/%04d\"]\n", i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.toml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	grants := grant.Open(dir)
	if set := must[grant.Set](t)(grants.Read()); len(set.Grants) != 1000 || len(set.Broken) != 0 {
		t.Fatalf("%d grants, broken: %v", len(set.Grants), set.Broken)
	}
	time.Sleep(time.Duration(pick(3000, 0)) * time.Millisecond) // files of just now are read again: their time could hide a change
	var times []time.Duration
	for range pick(501, 3) {
		times = append(times, took(func() {
			if set := must[grant.Set](t)(grants.Read()); len(set.Grants) != 1000 {
				t.Fatal(len(set.Grants))
			}
		}))
	}
	m := median(times)
	return []row{{"1,000 grant files, unchanged since the last call", us(m), "<= 1000 us", m <= time.Millisecond, spread(times)}}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// spread of sorted times: what one in ten falls short of, and what one exceeds.
func spread(d []time.Duration) string {
	return fmt.Sprintf("of %d; nine in ten from %v to %v", len(d), d[len(d)/20].Round(10*time.Microsecond), d[len(d)-1-len(d)/20].Round(10*time.Microsecond))
}
