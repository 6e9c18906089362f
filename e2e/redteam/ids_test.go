package redteam

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"boxmaker/internal/proto"
)

// callIDs: an id is decided and run once, whoever says it again and how.
func callIDs() family {
	return family{
		name:  "spoofed and replayed call ids",
		stage: func(r *rig) { r.grant("20-shell", shellGrant(r.granted)) },
		tries: func(r *rig) []attempt {
			rows := []attempt{act("control: a fresh id runs once", func(r *rig) {
				r.is(r.call("shell", r.counted("fresh")), "")
				r.ranTimes("fresh", 1)
			})}
			for what, id := range map[string]string{
				"leading zeros": "red-1/01/5/0", "a plus": "red-1/+1/5/0", "a minus": "red-1/1/-5/0", "a space": "red-1/1/ 5/0", "an exponent": "red-1/1/1e3/0", "hexadecimal": "red-1/1/0x5/0",
				"epoch 0": "red-1/0/5/0", "three parts": "red-1/1/5", "five parts": "red-1/1/5/0/0", "an empty part": "red-1/1//0", "other case": "RED-1/1/5/0", "wide digits": "red-1/1/５/0",
				"beyond 64 bits": "red-1/1/18446744073709551616/0", "nothing": "", "a path": "../red-1/1/5/0", "a line break": `red-1/1/5/0\n`, "NUL": `red-1/1/5/0\u0000`, "underscores": "red-1/1/1_000/0",
				"a fraction": "red-1/1/5.0/0", "a trailing slash": "red-1/1/5/0/", "no session": "/1/5/0", "a long session": strings.Repeat("a", 65) + "/1/5/0",
			} {
				for _, kind := range []string{`{"type":"call","id":"%s","session":"red-1","tool":"shell","args":"{}"}`, `{"type":"fate","id":"%s"}`, `{"type":"cancel","id":"%s"}`, `{"type":"confirm","id":"%s"}`} {
					rows = append(rows, act(strings.SplitN(kind, `"`, 5)[3]+" with "+what, func(r *rig) { r.refusedFrame(fmt.Sprintf(kind, id)) }))
				}
			}
			return append(append(rows, replays()...), act("the log says that nothing ran twice", nothingTwice))
		},
	}
}

func (r *rig) make(id, command string) *proto.Call {
	session, _, _ := strings.Cut(id, "/")
	return &proto.Call{ID: id, Session: session, Tool: "shell", Args: encode(obj{"command": command})}
}

// again makes the same call with other bytes.
func (r *rig) swapped(c *proto.Call) *proto.Call {
	other := *c
	other.Args = encode(r.counted("swapped"))
	return &other
}

func replays() []attempt {
	echo := func(r *rig, id, file string) *proto.Call {
		return r.make(id, "echo ran >> "+filepath.Join(r.granted, file))
	}
	return []attempt{
		act("another session's id", func(r *rig) {
			r.refusedFrame(`{"type":"call","id":"red-2/1/1/0","session":"red-1","tool":"shell","args":"{}"}`)
			r.refusedFrame(`{"type":"call","id":"red-1/1/9999/0","session":"red-1-","tool":"shell","args":"{}"}`)
		}),
		act("of a denied call, with other bytes", func(r *rig) {
			c := &proto.Call{ID: r.id(), Session: r.session, Tool: "read_file", Args: encode(obj{"path": filepath.Join(r.outside, "canary.txt")})}
			r.is(r.send(c), proto.CodeNoGrant)
			r.is(r.send(c), proto.CodeNoGrant)
			r.is(r.send(r.swapped(&proto.Call{ID: c.ID, Session: c.Session, Tool: "shell"})), proto.CodeReplayedCall)
			r.ranTimes("swapped", 0)
		}),
		act("of a finished call, the same and other bytes, before and after it is confirmed", func(r *rig) {
			c := echo(r, r.id(), "finished")
			first := r.send(c)
			r.is(first, "")
			if again := r.send(c); again.Text != first.Text || again.Code != "" {
				r.t.Errorf("another result: %+v, %+v", first, again)
			}
			r.is(r.send(r.swapped(c)), proto.CodeReplayedCall)
			r.confirm(c.ID)
			r.confirm(c.ID)
			r.is(r.send(c), proto.CodeReplayedCall)
			r.is(r.send(r.swapped(c)), proto.CodeReplayedCall)
			r.ranTimes("finished", 1)
			r.ranTimes("swapped", 0)
		}),
		act("of a running call, the same and other bytes", func(r *rig) {
			c := r.make(r.id(), "echo ran >> "+filepath.Join(r.granted, "running")+"; while ! [ -e "+filepath.Join(r.granted, "go")+" ]; do sleep 0.02; done")
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if m, err := r.broker(c, nil); err != nil || m.(*proto.CallResult).Code != "" {
						r.t.Errorf("%+v, %v", m, err)
					}
				})
			}
			r.WaitUntil("it runs", func() bool { return r.runs("running") > 0 })
			r.is(r.send(r.swapped(c)), proto.CodeReplayedCall)
			if m, err := r.broker(&proto.Confirm{ID: c.ID}, nil); !isError(err, proto.ErrBadRequest) {
				r.t.Errorf("a running call was confirmed: %+v, %v", m, err)
			}
			r.file(filepath.Join(r.granted, "go"), "")
			wg.Wait()
			r.ranTimes("running", 1)
			r.ranTimes("swapped", 0)
		}),
		act("20 connections at once, the same bytes", func(r *rig) {
			c := echo(r, r.id(), "at-once")
			if n := r.together(20, func(int) *proto.Call { return c })[""]; n != 20 {
				r.t.Errorf("%d of 20 have the result", n)
			}
			r.ranTimes("at-once", 1)
		}),
		act("20 connections at once, each with other bytes", func(r *rig) {
			id := r.id()
			got := r.together(20, func(i int) *proto.Call {
				return r.make(id, fmt.Sprintf("echo ran >> %s # %d", filepath.Join(r.granted, "differing"), i))
			})
			if got[""] != 1 || got[proto.CodeReplayedCall] != 19 {
				r.t.Errorf("%v; want one to run and 19 to be refused", got)
			}
			r.ranTimes("differing", 1)
		}),
		act("lower numbers than were seen", func(r *rig) {
			r.is(r.send(echo(r, "red-low/7/50/3", "low-0")), "")
			for _, id := range []string{"red-low/7/50/2", "red-low/7/49/9", "red-low/6/999/0", "red-low/1/1/0", "red-low/7/0/0"} {
				r.is(r.send(echo(r, id, "low")), proto.CodeReplayedCall)
			}
			r.ranTimes("low", 0)
			r.is(r.send(echo(r, "red-low/7/50/4", "low-1")), "")
		}),
		act("the highest number there is", func(r *rig) {
			const most = "9223372036854775807"
			c := echo(r, "red-max/1/"+most+"/0", "max")
			m, err := r.broker(c, nil)
			if res, ok := m.(*proto.CallResult); err == nil && (!ok || res.Code != "") || err != nil && !isError(err, proto.ErrBadRequest) {
				r.t.Errorf("%+v, %v", m, err)
			}
			r.is(r.call("shell", r.counted("after-max")), "") // nothing for any other session
			r.ranTimes("after-max", 1)
		}),
		act("an id whose fate was asked before it came", func(r *rig) {
			for _, ask := range []func(id string) proto.Message{
				func(id string) proto.Message { return &proto.Fate{ID: id} }, func(id string) proto.Message { return &proto.Cancel{ID: id} },
			} {
				c := echo(r, r.id(), "burnt")
				m, err := r.broker(ask(c.ID), nil)
				if u, ok := m.(*proto.Unknown); err != nil || !ok || !u.Never {
					r.t.Errorf("%+v, %v; want unknown, never", m, err)
				}
				r.is(r.send(c), proto.CodeReplayedCall)
			}
			r.ranTimes("burnt", 0)
		}),
		act("confirmed before it came", func(r *rig) {
			c := echo(r, r.id(), "early")
			r.confirm(c.ID)
			r.is(r.send(c), "")
			r.is(r.send(c), "")
			r.ranTimes("early", 1)
		}),
		act("after brokerd was killed", func(r *rig) {
			kept, confirmed, swap := echo(r, r.id(), "kept"), echo(r, r.id(), "confirmed"), echo(r, r.id(), "swap")
			denied := &proto.Call{ID: r.id(), Session: r.session, Tool: "read_file", Args: encode(obj{"path": filepath.Join(r.outside, "canary.txt")})}
			first := r.send(kept)
			for _, c := range []*proto.Call{confirmed, swap} {
				r.is(r.send(c), "")
			}
			r.is(r.send(denied), proto.CodeNoGrant)
			r.confirm(confirmed.ID)
			r.restart()
			if again := r.send(kept); again.Text != first.Text || again.Code != "" {
				r.t.Errorf("another result: %+v, %+v", first, again)
			}
			r.is(r.send(confirmed), proto.CodeReplayedCall)
			r.is(r.send(r.swapped(swap)), proto.CodeReplayedCall)
			r.is(r.send(denied), proto.CodeNoGrant)
			r.is(r.send(r.swapped(denied)), proto.CodeReplayedCall)
			r.is(r.send(echo(r, "red-1/1/1/0", "old")), proto.CodeReplayedCall)
			r.is(r.send(echo(r, "red-low/7/50/1", "old")), proto.CodeReplayedCall)
			for file, n := range map[string]int{"kept": 1, "confirmed": 1, "swap": 1, "swapped": 0, "old": 0} {
				r.ranTimes(file, n)
			}
			r.is(r.call("shell", r.counted("fresh-2")), "")
		}),
		act("brokerd is killed while it runs", func(r *rig) {
			c := r.make(r.id(), "echo ran >> "+filepath.Join(r.granted, "killed")+"; sleep 300")
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = r.broker(c, nil)
			}()
			r.WaitUntil("it runs", func() bool { return r.runs("killed") > 0 })
			r.restart()
			<-done
			r.WaitUntil("its fate is told", func() bool {
				m, err := r.broker(&proto.Fate{ID: c.ID}, nil)
				res, ok := m.(*proto.CallResult)
				return err == nil && ok && res.Code == proto.CodeUnknownFate
			})
			if res := r.send(c); res.Code != proto.CodeUnknownFate {
				r.t.Errorf("made again it is %s %s", res.Outcome, res.Code)
			}
			r.ranTimes("killed", 1)
		}),
	}
}

func isError(err error, code proto.ErrCode) bool {
	var e *proto.Error
	return errors.As(err, &e) && e.Code == code
}

func (r *rig) confirm(id string) {
	r.t.Helper()
	if m, err := r.broker(&proto.Confirm{ID: id}, nil); err != nil {
		r.t.Errorf("confirm: %+v, %v", m, err)
	}
}

// together makes n calls at once and counts the codes.
func (r *rig) together(n int, call func(i int) *proto.Call) map[proto.Code]int {
	r.t.Helper()
	var mu sync.Mutex
	got := map[proto.Code]int{}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			m, err := r.broker(call(i), nil)
			mu.Lock()
			defer mu.Unlock()
			if res, ok := m.(*proto.CallResult); ok {
				got[res.Code]++
				return
			}
			got[proto.Code(fmt.Sprint(err))]++
		})
	}
	wg.Wait()
	return got
}
