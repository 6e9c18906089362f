package redteam

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"boxmaker/internal/proto"
)

// strangeFolders: a program fills a folder that it may write with what others then
// stumble over, or meets another program there.
func strangeFolders() family {
	return family{
		name: "strange files and other calls in a granted folder",
		stage: func(r *rig) {
			fileGrants(r)
			armed(r)
		},
		tries: func(r *rig) []attempt {
			in := func(name string) string { return filepath.Join(r.granted, name) }
			rows := []attempt{
				sh("it makes them", "cd "+r.granted+`; mkdir many deep odd; cd many; seq 5000 | xargs touch; cd ../odd; touch "$(printf 'a\nb')" "$(printf '\377\376')" "$(printf '\033[2Jx')" -- '-rf' "$(head -c 255 /dev/zero | tr '\0' n)"; mkfifo pipe; truncate -s 1000M sparse; `+
					`cd ../deep; i=0; while [ $i -lt 600 ]; do mkdir d && cd d || break; i=$((i+1)); done; echo bottom >bottom`, nil),
			}
			done := []proto.Code{"", proto.CodeToolFailed, proto.CodeToolTimeout, proto.CodeTooLarge}
			for _, d := range []string{"many", "deep", "odd"} {
				rows = append(rows,
					attempt{name: "listed: " + d, tool: "list_files", args: obj{"path": in(d), "depth": 5}, want: []proto.Code{""}, check: plainText},
					attempt{name: "searched: " + d, tool: "search_files", args: obj{"path": in(d), "pattern": "bottom"}, want: done, check: plainText},
				)
			}
			for _, f := range []string{"odd/pipe", "odd/sparse", "deep" + strings.Repeat("/d", 600) + "/bottom", "odd/-rf"} {
				rows = append(rows,
					attempt{name: "read: " + shortName(f), tool: "read_file", args: obj{"path": in(f)}, want: append(done, proto.CodeInvalidArguments), check: plainText},
					attempt{name: "edited: " + shortName(f), tool: "edit_file", args: obj{"path": in(f), "old": "x", "new": "y"}, want: append(done, proto.CodeInvalidArguments), check: plainText},
					attempt{name: "written: " + shortName(f), tool: "write_file", args: obj{"path": in(f), "content": "x", "mode": "create"}, want: []proto.Code{proto.CodeToolFailed, proto.CodeInvalidArguments}, check: plainText},
				)
			}
			return append(rows,
				act("two calls and a socket in the folder", func(r *rig) { r.companions(in("meet.sock")) }),
				act("two calls and a socket without a name", func(r *rig) { r.companions("@bm-meet") }),
				act("a file that changes while it is read", func(r *rig) {
					stop, writer := make(chan struct{}), sync.WaitGroup{}
					r.file(in("moving"), "begin\n")
					writer.Go(func() {
						for i := 0; ; i++ {
							select {
							case <-stop:
								return
							default:
								_ = os.WriteFile(in("moving"), []byte(strings.Repeat("x\n", i%5000)), 0o666) //nolint:gosec // for the container
							}
						}
					})
					for range 5 {
						r.judge(attempt{tool: "read_file", want: done}, r.call("read_file", obj{"path": in("moving")}))
						r.judge(attempt{tool: "edit_file", want: done}, r.call("edit_file", obj{"path": in("moving"), "old": "x\nx", "new": "y"}))
					}
					close(stop)
					writer.Wait()
				}),
				act("it can be cleared away", func(r *rig) {
					for _, d := range []string{"many", "deep", "odd"} {
						if err := os.RemoveAll(in(d)); err != nil {
							r.t.Error(err)
						}
					}
				}),
			)
		},
	}
}

func shortName(f string) string { return fmt.Sprintf("%.12s", f) }

// plainText: a result is text of a bounded length, and no name obeys anything.
func plainText(r *rig, res *proto.CallResult) {
	r.t.Helper()
	isText(r, res)
	if len(res.Text) > 70<<10 || strings.ContainsAny(res.Text, "\x1b\r") {
		r.t.Errorf("%d bytes: %.200q", len(res.Text), res.Text)
	}
}

// companions: two programs that run at the same time find no socket of each other.
func (r *rig) companions(at string) {
	r.t.Helper()
	var both sync.WaitGroup
	for i := range 2 {
		other := *r
		other.session = fmt.Sprintf("meet-%d-%d", r.n.Add(1), i)
		both.Go(func() {
			res := other.call("run", obj{"argv": []string{r.attacker(), "dial", "unix", at}})
			shows("attacker ran")(r, res)
			if strings.Contains(res.Text, at+": ok") {
				r.t.Errorf("they met: %.300s", res.Text)
			}
		})
	}
	both.Wait()
}

// swappedRecords: whoever may write to the owner's files moves the audit log away
// under a running brokerd; and the owner's halt meets calls that begin.
func swappedRecords() family {
	return family{
		name:  "halts and swaps while calls begin",
		stage: func(r *rig) { r.grant("20-shell", shellGrant(r.granted)) },
		tries: func(*rig) []attempt {
			return []attempt{
				act("a halt while calls begin", haltRaces),
				act("a grant is removed while calls begin", func(r *rig) {
					text := shellGrant(r.granted)
					var all sync.WaitGroup
					for i := range 12 {
						c := r.make(fmt.Sprintf("gone-%d/1/1/0", i), "echo ran >> "+filepath.Join(r.granted, fmt.Sprint("gone-", i)))
						other := *r
						all.Go(func() { other.judgeGone(c) })
						if i == 6 {
							r.Revoke("20-shell.toml")
						}
					}
					all.Wait()
					r.is(r.call("shell", r.counted("after-gone")), proto.CodeNoGrant)
					r.ranTimes("after-gone", 0)
					r.Grant("20-shell.toml", text)
				}),
				act("the log's folder is a copy", swappedLog),
			}
		},
	}
}

// judgeGone: a call ran and has an outcome, or was denied and did not run.
func (r *rig) judgeGone(c *proto.Call) {
	r.t.Helper()
	m, err := r.broker(c, nil)
	res, ok := m.(*proto.CallResult)
	if err != nil || !ok {
		r.t.Errorf("%+v, %v", m, err)
		return
	}
	session, _, _ := strings.Cut(c.ID, "/")
	want := 0
	if res.Code == "" {
		want = 1
	} else if res.Code != proto.CodeNoGrant && res.Code != proto.CodeHalted && res.Code != proto.CodeStopped {
		r.t.Errorf("%s: %s", res.Code, res.Text)
	}
	if n := r.runs(session); n != want && res.Code != proto.CodeHalted && res.Code != proto.CodeStopped {
		r.t.Errorf("%s: %q, and it ran %d times", c.ID, res.Code, n)
	}
}

// haltRaces: what a halt finds at its start, or running, is ended before it has a
// result, and nothing begins after it.
func haltRaces(r *rig) {
	for round := range 4 {
		file := fmt.Sprintf("halt-%d", round)
		var all sync.WaitGroup
		for i := range 6 {
			c := r.make(fmt.Sprintf("halt-%d-%d/1/1/0", round, i), "while :; do echo ran >> "+filepath.Join(r.granted, file)+"; sleep 0.01; done")
			other := *r
			all.Go(func() {
				m, err := other.broker(c, nil)
				if res, ok := m.(*proto.CallResult); err != nil || !ok || res.Code != proto.CodeHalted && res.Code != proto.CodeStopped {
					r.t.Errorf("%+v, %v", m, err)
				}
			})
		}
		if round%2 == 1 {
			r.WaitUntil("one runs", func() bool { return r.runs(file) > 0 })
		}
		r.Must("", "halt", "a race")
		all.Wait()
		n := r.runs(file)
		r.is(r.call("shell", r.counted(file)), proto.CodeHalted)
		r.noContainer()
		if now := r.runs(file); now != n {
			r.t.Errorf("after the halt it went on: %d, %d", n, now)
		}
		r.Must("", "resume")
	}
}

// swappedLog puts a copy in the place of the log's folder: brokerd holds the old one
// open, and must not go on where nobody looks.
func swappedLog(r *rig) {
	away := filepath.Join(r.Home, "audit.away")
	r.move(r.Layout.Audit, away)
	if out, err := exec.Command("cp", "-a", away, r.Layout.Audit).CombinedOutput(); err != nil {
		r.t.Fatalf("%v %s", err, out)
	}
	if m, err := r.broker(r.make(r.id(), "echo ran >> "+filepath.Join(r.granted, "swapped")), nil); err == nil {
		res, ok := m.(*proto.CallResult)
		if !ok || res.Code == "" {
			r.t.Errorf("it was allowed: %+v", m)
		}
	}
	r.ranTimes("swapped", 0)
	r.WaitUntil("brokerd goes on with the log that is there", func() bool {
		m, err := r.broker(r.make(r.id(), "echo ran >> "+filepath.Join(r.granted, "whole")), nil)
		res, ok := m.(*proto.CallResult)
		return err == nil && ok && res.Code == ""
	})
	if err := os.RemoveAll(away); err != nil {
		r.t.Error(err)
	}
}
