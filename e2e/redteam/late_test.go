package redteam

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"boxmaker/internal/proto"
)

// afterRestart: what waits is on disk, where whoever has brokerd's rights can change it.
func afterRestart() []attempt {
	edited := func(change func(text, id string) string) func(r *rig, path string) {
		return func(r *rig, path string) {
			b, err := os.ReadFile(path)
			if err != nil {
				r.t.Fatal(err)
			}
			now := change(string(b), strings.TrimSuffix(filepath.Base(path), ".json"))
			if now == string(b) {
				r.t.Fatal("nothing was edited")
			}
			if err := os.WriteFile(path, []byte(now), 0o600); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	replace := func(old, to string) func(text, _ string) string {
		return func(text, _ string) string { return strings.ReplaceAll(text, old, to) }
	}
	rows := []attempt{act("control: brokerd is killed, and the owner says yes", func(r *rig) {
		q := r.ask(r.id(), r.writes("over-restart"))
		r.restart()
		<-q.end
		again := r.shown(q.shown.Call)
		if again.Approval != q.shown.Approval || again.Digest != q.shown.Digest {
			r.t.Errorf("another question: %+v", again)
		}
		r.Answer(again, proto.VerdictApproved)
		m, err := r.broker(&proto.Fate{ID: q.shown.Call}, nil)
		if res, ok := m.(*proto.CallResult); err != nil || !ok || res.Code != "" {
			r.t.Errorf("%+v, %v", m, err)
		}
		r.ranTimes("over-restart", 1)
		r.restart()
		if got, err := r.answer(yes(again)); err != nil || got.First || got.Verdict != proto.VerdictApproved {
			r.t.Errorf("an old answer after a restart: %+v, %v", got, err)
		}
		r.ranTimes("over-restart", 1)
	})}
	for what, damage := range map[string]func(r *rig, path string){
		"other arguments":        edited(replace("edited-file", "edited-fake")),
		"another tool":           edited(replace(`"tool":"run"`, `"tool":"shell"`)),
		"another session":        edited(replace(`"session":"red-1"`, `"session":"red-2"`)),
		"another version":        edited(replace(`"v":1`, `"v":2`)),
		"a half file":            edited(func(text, _ string) string { return text[:len(text)/2] }),
		"nothing in it":          edited(func(string, string) string { return "" }),
		"another id":             edited(func(text, id string) string { return strings.ReplaceAll(text, id, strings.Repeat("0", 32)) }),
		"that is not there":      func(r *rig, path string) { _ = os.Remove(path) },
		"that is a link to some": func(r *rig, path string) { _ = os.Remove(path); _ = os.Symlink("/etc/passwd", path) },
	} {
		rows = append(rows, act("a state file with "+what, func(r *rig) {
			q := r.ask(r.id(), r.writes("edited-file"))
			r.whileDown(func() { damage(r, filepath.Join(r.Layout.Broker, "approvals", q.shown.Approval+".json")) })
			<-q.end
			for _, a := range r.waiting() {
				if a.Call == q.shown.Call {
					r.t.Errorf("it waits on: %+v", a)
				}
			}
			if got, err := r.answer(yes(&q.shown)); err == nil && got.Verdict == proto.VerdictApproved {
				r.t.Errorf("%+v", got)
			}
			if end := r.ending(q.shown.Approval); end == nil || end.Verdict != proto.VerdictWithdrawn {
				r.t.Errorf("on record: %+v", end)
			}
			r.ranTimes("edited-file", 0)
			r.ranTimes("edited-fake", 0)
		}))
	}
	return append(rows, act("a state file that was planted", func(r *rig) {
		q := r.ask(r.id(), r.writes("planted"))
		path := filepath.Join(r.Layout.Broker, "approvals", q.shown.Approval+".json")
		b, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		r.Answer(&q.shown, proto.VerdictDenied)
		r.is(q.result(), proto.CodeDeniedByOwner)
		r.whileDown(func() {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				r.t.Fatal(err)
			}
			r.ownAs(path, "brokerd")
		})
		if len(r.waiting()) != 0 {
			r.t.Errorf("it waits again: %+v", r.waiting())
		}
		if got, err := r.answer(yes(&q.shown)); err != nil || got.Verdict != proto.VerdictDenied {
			r.t.Errorf("%+v, %v", got, err)
		}
		r.ranTimes("planted", 0)
	}), act("a state file whose end was put off", func(r *rig) {
		q := r.ask(r.id(), r.writes("put-off"))
		r.whileDown(func() {
			edited(replace(`"expires":"`+q.shown.Expires[:3], `"expires":"3`+q.shown.Expires[1:3]))(r, filepath.Join(r.Layout.Broker, "approvals", q.shown.Approval+".json"))
		})
		<-q.end
		for _, a := range r.waiting() { // it is the machine's own clock since its boot that counts, and the log's expiry
			r.Answer(&a, proto.VerdictDenied)
		}
		r.ranTimes("put-off", 0)
	}))
}

// whileDown kills brokerd, keeps it from coming back while f runs, and waits for the next one.
func (r *rig) whileDown(f func()) {
	r.t.Helper()
	up := r.PID("bxctl")
	if err := syscall.Kill(up, syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(up, syscall.SIGCONT); err != nil {
			r.t.Fatal(err)
		}
		r.WaitUntil("another brokerd answers", func() bool { _, err := r.Broker(); return err == nil })
	}()
	old := r.PID("brokerd")
	if !r.Kill("brokerd") {
		r.t.Fatal("brokerd does not run")
	}
	r.WaitUntil("brokerd has ended", func() bool { return r.PID("brokerd") != old })
	f()
}

// ownAs gives a file to a role.
func (r *rig) ownAs(path, role string) {
	r.t.Helper()
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, r.uid(role), r.uid(role)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// lateApprovals: an approval that expired is a denial, to the moment.
func lateApprovals() family {
	return family{
		name: "late approvals",
		stage: func(r *rig) {
			r.Set("brokerd.toml", "approval", "expires", "1s")
			r.grant(strings.TrimSuffix(askGrant, ".toml"), askText(r))
		},
		tries: func(r *rig) []attempt {
			rows := []attempt{act("control: in time", func(r *rig) {
				r.WaitUntil("an answer comes in time", func() bool { // on a busy machine not the first
					q := r.ask(r.id(), r.writes("in-time"))
					got, err := r.answer(yes(&q.shown))
					return err == nil && got.First && q.result().Code == ""
				})
				r.ranTimes("in-time", 1)
			}), act("after its end", func(r *rig) {
				q := r.ask(r.id(), r.writes("late"))
				r.closed(q, proto.CodeApprovalExpired, proto.VerdictExpired, "late")
				if got, err := r.answer(yes(&q.shown)); err != nil || got.First || got.Verdict != proto.VerdictExpired {
					r.t.Errorf("%+v, %v", got, err)
				}
				r.ranTimes("late", 0)
			}), act("its end came while brokerd was away", func(r *rig) {
				q := r.ask(r.id(), r.writes("away"))
				until, err := proto.ParseTime(q.shown.Expires)
				if err != nil {
					r.t.Fatal(err)
				}
				r.whileDown(func() { <-time.After(time.Until(until)) })
				<-q.end
				if got, err := r.answer(yes(&q.shown)); err != nil || got.Verdict != proto.VerdictExpired {
					r.t.Errorf("%+v, %v", got, err)
				}
				r.ranTimes("away", 0)
			})}
			for i, before := range []time.Duration{10, 1, -1} {
				rows = append(rows, act(fmt.Sprintf("%d ms before its end", before), func(r *rig) { r.atTheEnd(fmt.Sprintf("edge-%d", i), before*time.Millisecond) }))
			}
			return append(rows, act("the log says that nothing ran twice", nothingTwice))
		},
	}
}

// atTheEnd answers so long before the end of an approval, many times at once:
// either it was approved, and ran, or it expired, and did not; and all agree.
func (r *rig) atTheEnd(file string, before time.Duration) {
	r.t.Helper()
	q := r.ask(r.id(), r.writes(file))
	until, err := proto.ParseTime(q.shown.Expires)
	if err != nil {
		r.t.Fatal(err)
	}
	<-time.After(time.Until(until.Add(-before)))
	var mu sync.Mutex
	var got []*proto.Answered
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			a, err := r.answer(yes(&q.shown))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.t.Error(err)
				return
			}
			got = append(got, a)
		})
	}
	wg.Wait()
	res, end := q.result(), r.ending(q.shown.Approval)
	if end == nil {
		r.t.Fatal("its end is not on record")
	}
	for _, a := range got {
		if a.Verdict != end.Verdict {
			r.t.Errorf("one is told %s, and on record is %s", a.Verdict, end.Verdict)
		}
	}
	switch {
	case end.Verdict == proto.VerdictApproved && res.Code == "":
		r.ranTimes(file, 1)
	case end.Verdict == proto.VerdictExpired && res.Code == proto.CodeApprovalExpired:
		r.ranTimes(file, 0)
	default:
		r.t.Errorf("on record %+v, result %q", end, res.Code)
	}
}
