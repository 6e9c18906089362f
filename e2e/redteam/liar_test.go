package redteam

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"boxmaker/e2e/stack"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// lyingLoopd: a loopd that was taken over makes any call it likes under any id.
// What it gets is what the grants give to anybody.
func lyingLoopd() family {
	return family{
		name: "a loopd that lies",
		stage: func(r *rig) {
			r.grant("10-read", strings.Replace(readGrant(r.granted), "[paths]", "[limits]\ncalls_per_hour = 12\n[paths]", 1))
			r.grant("20-shell", shellGrant(r.granted))
			r.grant("30-run", strings.Replace(runGrant(r.granted), `"auto"`, `"ask"`, 1))
			r.grant("05-deny", "tool = \"write_file\"\nmode = \"deny\"\n")
		},
		tries: func(r *rig) []attempt {
			rows := []attempt{act("control: what is granted works under any session's name", func(r *rig) {
				for _, s := range []string{"red-1", "somebody-else", "sub-red-1", "0", "-"} {
					r.is(r.send(&proto.Call{ID: s + "/1/1/0", Session: s, Tool: "shell", Args: encode(r.counted("control"))}), "")
				}
				r.ranTimes("control", 5)
				r.n.Add(10)
			})}
			for what, extra := range map[string]string{
				"that it was approved": `"approved":true`, "an approval": `"approval":"00000000000000000000000000000000"`, "a digest": `"digest":"` + proto.NoHash + `"`, "a verdict": `"verdict":"approved"`,
				"a low taint": `"taint":"public"`, "a head": `"head":{"n":1,"hash":"` + proto.NoHash + `"}`, "a grant": `"grant":"30-run.toml"`, "a mode": `"mode":"auto"`, "to be the owner": `"by":"owner"`, "a channel": `"channel":"cli"`,
				"a uid": `"uid":0`, "a limit": `"limits":{"ms":1000000}`, "a secret": `"secrets":["canary"]`, "a preview": `"preview":true`,
			} {
				rows = append(rows, act("it claims "+what, func(r *rig) {
					body := strings.TrimSuffix(request(r.id(), "run", encode(obj{"argv": []string{"/bin/true"}})), "}")
					r.refusedFrame(body + "," + extra + "}")
				}))
			}
			for what, m := range map[string]proto.Message{
				"asked": &proto.Asked{Call: "red-1/1/1/0", Approval: "a", Expires: "2030-01-01T00:00:00.000Z"}, "a result": &proto.CallResult{ID: "red-1/1/1/0", Outcome: proto.CallOK, Class: proto.ClassPublic},
				"an answer": &proto.Answer{Approval: "a", Digest: proto.NoHash, Verdict: proto.VerdictApproved, Channel: "cli"}, "a halt": &proto.Halt{}, "a resume": &proto.Resume{}, "confirmed": &proto.Confirmed{ID: "red-1/1/1/0"},
				"a list of approvals": &proto.ListApprovals{Follow: true}, "an explanation": &proto.Explain{Tool: "run", Args: "{}"}, "a head": &proto.GetHead{}, "a status": &proto.GetBroker{},
			} {
				rows = append(rows, act("it sends "+what, func(r *rig) {
					b, err := proto.Encode(m)
					if err != nil {
						r.t.Fatal(err)
					}
					r.refusedFrame(string(b))
				}))
			}
			return append(append(rows, lies()...), act("the log says that nothing ran twice", nothingTwice))
		},
	}
}

func lies() []attempt {
	return []attempt{
		act("another session gets no more", func(r *rig) {
			for i, s := range []string{"fresh-1", "owner", "root", "brokerd", "bxctl", "chat-20260102-abcdef"} {
				id := fmt.Sprintf("%s/1/%d/0", s, i+1)
				r.is(r.send(&proto.Call{ID: id, Session: s, Tool: "read_file", Args: encode(obj{"path": filepath.Join(r.outside, "canary.txt")})}), proto.CodeNoGrant)
				r.is(r.send(&proto.Call{ID: id[:len(id)-1] + "1", Session: s, Tool: "write_file", Args: encode(legal(r, "write_file"))}), proto.CodeDeniedByGrant)
			}
		}),
		act("the owner is asked whatever the session is called", func(r *rig) {
			p := r.ask("never-seen/1/1/0", obj{"argv": []string{"/bin/sh", "-c", "echo ran >> " + filepath.Join(r.granted, "asked")}})
			if p.shown.Session != "never-seen" {
				r.t.Errorf("%+v", p.shown)
			}
			r.Answer(&p.shown, proto.VerdictDenied)
			r.is(p.result(), proto.CodeDeniedByOwner)
			r.ranTimes("asked", 0)
		}),
		act("sessions share what a grant gives in an hour", func(r *rig) {
			note := encode(obj{"path": filepath.Join(r.granted, "note.txt")})
			got := map[proto.Code]int{}
			for i := range 15 {
				s := fmt.Sprintf("hour-%d", i)
				got[r.send(&proto.Call{ID: s + "/1/1/0", Session: s, Tool: "read_file", Args: note}).Code]++
			}
			if got[""] != 12 || got[proto.CodeRateLimited] != 3 {
				r.t.Errorf("%v; want 12 reads and then rate-limited", got)
			}
		}),
		act("it never confirms", func(r *rig) {
			for range 30 {
				r.is(r.call("shell", r.counted("unconfirmed")), "")
			}
			st, err := r.Broker()
			if err != nil || st.Kept < 30 {
				r.t.Errorf("%+v, %v: results that nobody confirmed are kept", st, err)
			}
			r.ranTimes("unconfirmed", 30)
		}),
		act("it confirms what waits for the owner", func(r *rig) {
			p := r.ask(r.id(), obj{"argv": []string{"/bin/sh", "-c", "echo ran >> " + filepath.Join(r.granted, "waits")}})
			if m, err := r.broker(&proto.Confirm{ID: p.shown.Call}, nil); !isError(err, proto.ErrBadRequest) {
				r.t.Errorf("%+v, %v", m, err)
			}
			r.Answer(&p.shown, proto.VerdictApproved)
			r.is(p.result(), "")
			r.ranTimes("waits", 1)
		}),
		act("it leaves while the owner is asked, and comes back", func(r *rig) {
			id := r.id()
			w := r.open()
			if err := frame.Write(w, []byte(request(id, "run", encode(obj{"argv": []string{"/bin/sh", "-c", "echo ran >> " + filepath.Join(r.granted, "left")}})))); err != nil {
				r.t.Fatal(err)
			}
			if _, ok := w.next().(*proto.Asked); !ok {
				r.t.Fatal("the owner was not asked")
			}
			w.Close()
			shown := r.shown(id)
			r.ranTimes("left", 0)
			r.Answer(shown, proto.VerdictApproved)
			m, err := r.broker(&proto.Fate{ID: id}, nil)
			if res, ok := m.(*proto.CallResult); err != nil || !ok || res.Code != "" {
				r.t.Errorf("%+v, %v", m, err)
			}
			r.ranTimes("left", 1)
		}),
		act("it cancels another session's call", func(r *rig) {
			c := r.make("victim/1/1/0", "echo ran >> "+filepath.Join(r.granted, "victim")+"; sleep 300; echo ran >> "+filepath.Join(r.granted, "victim"))
			end := make(chan proto.Message, 1)
			go func() { m, _ := r.broker(c, nil); end <- m }()
			r.WaitUntil("it runs", func() bool { return r.runs("victim") == 1 })
			if m, err := r.broker(&proto.Cancel{ID: c.ID}, nil); err != nil {
				r.t.Errorf("%+v, %v", m, err)
			}
			if res, ok := (<-end).(*proto.CallResult); !ok || res.Code != proto.CodeStopped {
				r.t.Errorf("%+v", res)
			}
			r.is(r.send(&proto.Call{ID: "victim/1/2/0", Session: "victim", Tool: "shell", Args: encode(r.counted("victim"))}), "")
			r.ranTimes("victim", 2) // the first half, and the next call
		}),
		act("more calls at once than a session may have", func(r *rig) {
			hold := "while ! [ -e " + filepath.Join(r.granted, "release") + " ]; do sleep 0.02; done"
			var wg sync.WaitGroup
			for i := range 4 {
				c := r.make(fmt.Sprintf("crowd/1/%d/0", i+1), "echo ran >> "+filepath.Join(r.granted, "crowd")+"; "+hold)
				wg.Go(func() { _, _ = r.broker(c, nil) })
				r.WaitUntil("it runs", func() bool { return r.runs("crowd") == i+1 })
			}
			c := r.make("crowd/1/5/0", "echo ran >> "+filepath.Join(r.granted, "crowd"))
			if m, err := r.broker(c, nil); !isError(err, proto.ErrNotReady) {
				r.t.Errorf("%+v, %v; want not-ready", m, err)
			}
			if d := r.lastDecision(c.ID); d != nil {
				r.t.Errorf("a call that there was no room for is on record: %+v", d)
			}
			r.is(r.call("shell", r.counted("other-session")), "")
			r.file(filepath.Join(r.granted, "release"), "")
			wg.Wait()
			r.is(r.send(c), "") // now there is room
			r.ranTimes("crowd", 5)
		}),
		act("a flood of questions", func(r *rig) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			got := map[proto.Code]int{}
			for i := range 24 {
				s := fmt.Sprintf("flood-%d", i)
				c := &proto.Call{ID: s + "/1/1/0", Session: s, Tool: "run", Args: encode(obj{"argv": []string{"/bin/sh", "-c", "echo ran >> " + filepath.Join(r.granted, "flood")}})}
				wg.Go(func() {
					m, err := r.broker(c, nil)
					mu.Lock()
					defer mu.Unlock()
					if res, ok := m.(*proto.CallResult); err == nil && ok {
						got[res.Code]++
					}
				})
			}
			r.WaitUntil("the rest is refused", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return got[proto.CodeRateLimited] == 8
			})
			all := r.waiting()
			if len(all) != 16 {
				r.t.Errorf("%d questions wait", len(all))
			}
			r.Must("", "approvals")
			r.Must("", "halt", "a flood")
			wg.Wait()
			if got[proto.CodeHalted] != 16 {
				r.t.Errorf("%v", got)
			}
			r.is(r.call("shell", r.counted("flood")), proto.CodeHalted)
			r.Must("", "resume")
			r.ranTimes("flood", 0)
		}),
		act("it can't learn the code of an approval", func(r *rig) {
			p := r.ask(r.id(), obj{"argv": []string{"/bin/true"}})
			for _, m := range []proto.Message{&proto.FindTools{Session: r.session, Query: p.shown.Code}} {
				answer, err := r.broker(m, nil)
				b, err2 := proto.Encode(answer)
				if err != nil || err2 != nil || strings.Contains(string(b), p.shown.Code) {
					r.t.Errorf("%s, %v, %v", b, err, err2)
				}
			}
			if a := p.asked; a == nil || strings.Contains(a.Approval+a.Call+a.Expires, p.shown.Code) {
				r.t.Errorf("%+v has the code %s", a, p.shown.Code)
			}
			r.Answer(&p.shown, proto.VerdictDenied)
			r.is(p.result(), proto.CodeDeniedByOwner)
		}),
	}
}

// A question is a call that waits for the owner.
type question struct {
	r     *rig
	shown proto.Approval
	asked *proto.Asked
	end   chan proto.Message
}

// ask makes a call of run, which is granted with "ask", and waits until the owner is asked.
func (r *rig) ask(id string, args any) *question {
	r.t.Helper()
	session, _, _ := strings.Cut(id, "/")
	return r.question(&proto.Call{ID: id, Session: session, Tool: "run", Args: encode(args)})
}

func (r *rig) question(c *proto.Call) *question {
	r.t.Helper()
	q := &question{r: r, end: make(chan proto.Message, 1)}
	asked := make(chan *proto.Asked, 1)
	go func() {
		m, _ := r.broker(c, func(a *proto.Asked) { asked <- a })
		q.end <- m
	}()
	select {
	case q.asked = <-asked:
	case m := <-q.end:
		r.t.Fatalf("the owner was not asked: %+v", m)
	case <-r.context().Done():
		r.t.FailNow()
	}
	q.shown = *r.shown(c.ID)
	return q
}

// result waits for the end; nil if brokerd left without one.
func (q *question) result() *proto.CallResult {
	q.r.t.Helper()
	m := <-q.end
	res, ok := m.(*proto.CallResult)
	if !ok {
		q.r.t.Fatalf("%s: the answer is %+v", q.shown.Call, m)
	}
	return res
}

// waiting lists the questions as the owner gets them.
func (r *rig) waiting() []proto.Approval {
	r.t.Helper()
	m, err := r.Owner(r.context(), &proto.ListApprovals{})
	list, ok := m.(*proto.ApprovalList)
	if err != nil || !ok {
		r.t.Fatalf("%+v, %v", m, err)
	}
	return list.Approvals
}

// shown waits until the owner is shown the question about a call.
func (r *rig) shown(id string) (a *proto.Approval) {
	r.t.Helper()
	r.WaitUntil("the owner is asked about "+id, func() bool {
		for _, w := range r.waiting() {
			if w.Call == id {
				a = &w
				return true
			}
		}
		return false
	})
	return a
}

// ending is the record of an approval's end.
func (r *rig) ending(approval string) (out *proto.AuditApproval) {
	for _, a := range stack.AuditOf[*proto.AuditApproval](r.Audit()) {
		if a.Approval == approval {
			out = a
		}
	}
	return out
}
