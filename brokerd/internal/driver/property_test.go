package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

// An op is one thing that happens to brokerd. Its numbers are taken modulo what
// there is.
type op struct {
	kind         string
	session, rec int
	variant, way int
}

// A sim runs ops against a world and checks what must always hold.
type sim struct {
	*world
	seen      map[string]*proto.CallResult // results that were given out, by call
	confirmed map[string]bool
	problems  []string
}

func (s *sim) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func (s *sim) id(o op) string {
	return fmt.Sprintf("s%d/1/%d/0", o.session%2, o.rec%4)
}

// request has two sets of bytes for an id, of a call that runs and of one that
// is asked.
func (s *sim) request(o op) *proto.Call {
	switch o.variant % 4 {
	case 0:
		return read(s.id(o), "/data/a")
	case 1:
		return write(s.id(o), "x")
	case 2:
		return read(s.id(o), "/etc/shadow")
	default:
		return read(s.id(o), "/data/b")
	}
}

// given checks a result against what was given out before.
func (s *sim) given(id string, r *proto.CallResult) {
	was := s.seen[id]
	switch {
	case r.Code == proto.CodeReplayedCall: // of other bytes, or of a call that is confirmed
	case s.confirmed[id] && s.runner.count(id) > 0: // a denial can be told again from the log
		s.problem("%s has a result after it was confirmed: %+v", id, r)
	case was == nil:
		s.seen[id] = r
	case was.Outcome != r.Outcome || was.Code != r.Code || was.Outcome != proto.CallDenied && was.Text != r.Text:
		s.problem("%s had the result %+v and now %+v", id, was, r)
	}
}

func (s *sim) do(o op) {
	id := s.id(o)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	background := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		synctest.Wait()
		cancel() // whoever still waits leaves
		<-done
	}
	switch o.kind {
	case "call":
		background(func() {
			if r, err := s.d.Call(ctx, s.request(o), nil); err == nil {
				s.given(id, r)
			}
		})
	case "fate":
		background(func() {
			m, err := s.d.Fate(ctx, id)
			if r, ok := m.(*proto.CallResult); ok && err == nil {
				s.given(id, r)
			}
			if u, ok := m.(*proto.Unknown); ok && err == nil && u.Never && s.runner.count(id) > 0 {
				s.problem("%s ran, and is said to have never started", id)
			}
		})
	case "cancel":
		background(func() {
			if m, err := s.d.Cancel(ctx, id); err == nil {
				if r, ok := m.(*proto.CallResult); ok {
					s.given(id, r)
				}
			}
		})
	case "confirm":
		if err := s.d.Confirm(id); err == nil {
			s.confirmed[id] = s.confirmed[id] || s.seen[id] != nil
			delete(s.seen, id)
		}
	case "answer":
		if all := s.desk.List(); len(all) > 0 {
			a, v := all[o.variant%len(all)], []proto.Verdict{proto.VerdictApproved, proto.VerdictDenied}[o.way%2]
			background(func() {
				_, _ = s.desk.Answer(ctx, &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: v, Channel: "cli"}, "uid 7")
			})
		}
	case "halt":
		_ = s.d.Halt("", "uid 7")
	case "resume":
		_ = s.d.Resume("uid 7")
	case "time":
		time.Sleep(10 * time.Minute)
	case "end":
		if err := s.end(); err != nil && !errors.Is(err, errKilled) {
			s.problem("end: %v", err)
		}
		s.again()
	case "fault":
		steps := []string{
			"decide", "decide done", "preview", "hold", "hold done", "wait done", "settle", "settled", "run", "run done",
			"seal", "seal done", "keep", "keep done", "record", "record done",
		}
		s.kill(steps[o.way%len(steps)])
	}
	synctest.Wait()
	select {
	case err := <-s.ended:
		if !errors.Is(err, errKilled) {
			s.problem("brokerd ended: %v", err)
		}
		s.log.Close()
		s.again()
	default:
	}
}

// again starts brokerd once more.
func (s *sim) again() {
	s.setFault(nil)
	if err := s.open(); err != nil {
		s.problem("it does not start: %v", err)
	}
	synctest.Wait()
}

// allowed reports whether the record that lets a call run is on disk.
func (s *sim) allowed(id string) bool {
	ok := false
	for _, r := range s.records() {
		switch r := r.(type) {
		case *proto.AuditDecision:
			ok = ok || r.ID == id && r.Verdict == proto.VerdictAllow
		case *proto.AuditApproval:
			ok = ok || r.ID == id && r.Verdict == proto.VerdictApproved && r.Code == ""
		}
	}
	return ok
}

// run gives what went wrong.
func (s *sim) run(ops []op) []string {
	s.runner.set(func(ctx context.Context, spec policy.Spec) (Ran, error) {
		if !s.allowed(spec.Call) {
			s.problem("%s runs without a record that allows it", spec.Call)
		}
		select {
		case <-ctx.Done():
			return Ran{Ended: proto.Ended{Reason: proto.EndKilled}}, nil
		case <-time.After(time.Second):
			return said("done " + spec.Call), nil
		}
	})
	s.again()
	for _, o := range ops {
		s.do(o)
		if len(s.problems) > 0 {
			return s.problems
		}
	}
	_ = s.d.Resume("uid 7")
	time.Sleep(time.Hour) // everything expires
	synctest.Wait()
	if err := s.end(); err != nil && !errors.Is(err, errKilled) {
		s.problem("end: %v", err)
	}
	s.again() // which also verifies the chain
	time.Sleep(time.Hour)
	if n := len(s.d.cfg.Book.Open()); n != 0 && s.d.Counts().Running+len(s.desk.List()) != 0 {
		s.problem("%d calls have no end", n)
	}
	s.end()
	s.ends()
	for id, n := range s.runner.runs {
		if n > 1 {
			s.problem("%s ran %d times", id, n)
		}
	}
	return s.problems
}

// ends checks that each call that was decided has one end on record.
func (s *sim) ends() {
	ends := map[string]int{}
	for _, r := range s.records() {
		switch r := r.(type) {
		case *proto.AuditDecision:
			if r.Code != proto.CodeReplayedCall {
				ends[r.ID] += 0
			}
			if r.Verdict == proto.VerdictDeny && r.Code != proto.CodeReplayedCall {
				ends[r.ID]++
			}
		case *proto.AuditApproval:
			if r.Verdict != proto.VerdictApproved || r.Code != "" {
				ends[r.ID]++
			}
		case *proto.AuditOutcome:
			ends[r.ID]++
		}
	}
	for id, n := range ends {
		if n != 1 {
			s.problem("%s has %d ends on record: %s", id, n, s.story())
		}
	}
}

// Whatever is asked, answered, stopped and killed, in whatever order: no id runs
// twice, nothing runs without its record, a result stays what it was until it is
// confirmed, and each call comes to one end.
func TestNothingRunsTwiceAndNothingIsLost(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		kinds := []string{"call", "call", "call", "call", "answer", "answer", "fate", "cancel", "confirm", "halt", "resume", "resume", "time", "end", "fault"}
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
			return op{
				kind: rapid.SampledFrom(kinds).Draw(t, "kind"), session: rapid.IntRange(0, 1).Draw(t, "session"), rec: rapid.IntRange(0, 3).Draw(t, "record"),
				variant: rapid.IntRange(0, 3).Draw(t, "variant"), way: rapid.IntRange(0, 15).Draw(t, "way"),
			}
		}), 1, 25).Draw(rt, "ops")
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, dir)
			w.grant("10-read.toml", grantRead)
			w.grant("20-write.toml", grantWrite)
			s := &sim{world: w, seen: map[string]*proto.CallResult{}, confirmed: map[string]bool{}}
			problems = s.run(ops)
			if !w.closed {
				w.end()
			}
			synctest.Wait()
		})
		os.RemoveAll(dir)
		if len(problems) > 0 {
			rt.Fatalf("%v", problems)
		}
	})
}
