package redteam

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"boxmaker/e2e/stack"
	"boxmaker/internal/frame"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

const askGrant = "30-run.toml"

func askText(r *rig) string { return strings.Replace(runGrant(r.granted), `"auto"`, `"ask"`, 1) }

// writes are arguments of run that leave a line in a file.
func (r *rig) writes(file string) obj {
	return obj{"argv": []string{"/bin/sh", "-c", "echo ran >> " + filepath.Join(r.granted, file)}}
}

// answer sends the owner's word as it is.
func (r *rig) answer(a *proto.Answer) (*proto.Answered, error) {
	m, err := ipc.Ask(r.context(), r.OwnerSocket(), proto.OwnerEvents, a)
	if err != nil {
		return nil, err
	}
	if e, ok := m.(*proto.Error); ok {
		return nil, e
	}
	got, ok := m.(*proto.Answered)
	if !ok {
		return nil, fmt.Errorf("the answer is %s", m.Tag())
	}
	return got, nil
}

func yes(a *proto.Approval) *proto.Answer {
	return &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: proto.VerdictApproved, Channel: "cli"}
}

// closed checks that a question has ended without a run, and how.
func (r *rig) closed(q *question, code proto.Code, verdict proto.Verdict, file string) {
	r.t.Helper()
	if res := q.result(); res.Code != code {
		r.t.Errorf("code %q, want %q: %s", res.Code, code, res.Text)
	}
	end := r.ending(q.shown.Approval)
	if end == nil || end.Verdict != verdict || end.Code != code {
		r.t.Errorf("on record: %+v; want %s %s", end, verdict, code)
	}
	r.ranTimes(file, 0)
}

func spoofedApprovals() family {
	return family{
		name:  "spoofed and replayed approvals",
		stage: func(r *rig) { r.grant(strings.TrimSuffix(askGrant, ".toml"), askText(r)) },
		tries: func(r *rig) []attempt {
			rows := []attempt{act("control: what the owner approves runs once", func(r *rig) {
				q := r.ask(r.id(), r.writes("approved"))
				r.ranTimes("approved", 0)
				if got, err := r.answer(yes(&q.shown)); err != nil || !got.First {
					r.t.Errorf("%+v, %v", got, err)
				}
				r.is(q.result(), "")
				r.ranTimes("approved", 1)
				for _, v := range []proto.Verdict{proto.VerdictApproved, proto.VerdictDenied} { // again
					a := yes(&q.shown)
					a.Verdict = v
					if got, err := r.answer(a); err != nil || got.First || got.Verdict != proto.VerdictApproved {
						r.t.Errorf("%+v, %v", got, err)
					}
				}
				r.ranTimes("approved", 1)
			})}
			rows = append(rows, wrongAnswers()...)
			rows = append(rows, changedMeanwhile()...)
			rows = append(rows, answerRaces()...)
			return append(append(rows, afterRestart()...), act("the log says that nothing ran twice", nothingTwice))
		},
	}
}

// wrongAnswers are refused, and the question waits on.
func wrongAnswers() []attempt {
	var rows []attempt
	for what, change := range map[string]func(a *proto.Answer, other *proto.Approval){
		"no digest at all":            func(a *proto.Answer, _ *proto.Approval) { a.Digest = proto.NoHash },
		"the digest of another one":   func(a *proto.Answer, o *proto.Approval) { a.Digest = o.Digest },
		"the id of another one":       func(a *proto.Answer, o *proto.Approval) { a.Approval = o.Approval },
		"an id that does not wait":    func(a *proto.Answer, _ *proto.Approval) { a.Approval = strings.Repeat("0", 32) },
		"the call's id in its place":  func(a *proto.Answer, _ *proto.Approval) { a.Approval = "red-1" },
		"a digest of the call itself": func(a *proto.Answer, _ *proto.Approval) { a.Digest = strings.Repeat("ab", 32) },
	} {
		rows = append(rows, act("an answer with "+what, func(r *rig) {
			q, other := r.ask(r.id(), r.writes("wrong")), r.ask(r.id(), r.writes("wrong-2"))
			a := yes(&q.shown)
			change(a, &other.shown)
			if got, err := r.answer(a); !isError(err, proto.ErrWrongDigest) && !isError(err, proto.ErrNoApproval) {
				r.t.Errorf("%+v, %v", got, err)
			}
			if len(r.waiting()) != 2 {
				r.t.Error("a wrong answer ended a question")
			}
			for _, x := range []*question{q, other} {
				r.Answer(&x.shown, proto.VerdictDenied)
			}
			r.closed(q, proto.CodeDeniedByOwner, proto.VerdictDenied, "wrong")
			r.closed(other, proto.CodeDeniedByOwner, proto.VerdictDenied, "wrong-2")
		}))
	}
	for what, body := range map[string]string{
		"a verdict of brokerd's":   `{"type":"answer","approval":"@A@","digest":"@D@","verdict":"allow","channel":"cli"}`,
		"that it expired":          `{"type":"answer","approval":"@A@","digest":"@D@","verdict":"expired","channel":"cli"}`,
		"a verdict in capitals":    `{"type":"answer","approval":"@A@","digest":"@D@","verdict":"APPROVED","channel":"cli"}`,
		"two verdicts":             `{"type":"answer","approval":"@A@","digest":"@D@","verdict":"denied","verdict":"approved","channel":"cli"}`,
		"other arguments":          `{"type":"answer","approval":"@A@","digest":"@D@","verdict":"approved","channel":"cli","args":"{}"}`,
		"no digest":                `{"type":"answer","approval":"@A@","verdict":"approved","channel":"cli"}`,
		"a digest in capitals":     `{"type":"answer","approval":"@A@","digest":"` + strings.Repeat("AB", 32) + `","verdict":"approved","channel":"cli"}`,
		"a star":                   `{"type":"answer","approval":"*","digest":"@D@","verdict":"approved","channel":"cli"}`,
		"a path":                   `{"type":"answer","approval":"../approvals/@A@","digest":"@D@","verdict":"approved","channel":"cli"}`,
		"a channel with an escape": `{"type":"answer","approval":"@A@","digest":"@D@","verdict":"approved","channel":"\u001b[2J"}`,
	} {
		rows = append(rows, act("an answer with "+what, func(r *rig) {
			q := r.ask(r.id(), r.writes("odd"))
			conn, err := stack.DialAs(r.OwnerSocket(), os.Geteuid())
			if err != nil {
				r.t.Fatal(err)
			}
			defer conn.Close()
			if err := frame.Write(conn, []byte(strings.NewReplacer("@A@", q.shown.Approval, "@D@", q.shown.Digest).Replace(body))); err != nil {
				r.t.Fatal(err)
			}
			if b, err := frame.Read(conn); err != nil || !bytes.Contains(b, []byte(`"code":"bad-request"`)) {
				r.t.Errorf("%s, %v", b, err)
			}
			r.Answer(&q.shown, proto.VerdictDenied)
			r.closed(q, proto.CodeDeniedByOwner, proto.VerdictDenied, "odd")
		}))
	}
	return append(rows, act("an answer on broker.sock", func(r *rig) {
		q := r.ask(r.id(), r.writes("spoofed"))
		b, err := proto.Encode(yes(&q.shown))
		if err != nil {
			r.t.Fatal(err)
		}
		r.refusedFrame(string(b))
		r.Answer(&q.shown, proto.VerdictDenied)
		r.closed(q, proto.CodeDeniedByOwner, proto.VerdictDenied, "spoofed")
	}), act("an answer with the uid of every role", func(r *rig) {
		if os.Geteuid() != 0 {
			r.t.Skip("not root: all roles have the owner's uid, and Landlock keeps them from the socket: internal/daemon tests that")
		}
		q := r.ask(r.id(), r.writes("uids"))
		b, err := proto.Encode(yes(&q.shown))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, role := range []string{"loopd", "brokerd", "runnerd", "egressd", "inferproxy"} {
			conn, err := stack.DialAs(r.OwnerSocket(), r.uid(role))
			if err != nil {
				continue
			}
			_ = frame.Write(conn, b)
			if got, err := frame.Read(conn); err == nil {
				r.t.Errorf("%s is answered: %s", role, got)
			}
			conn.Close()
		}
		r.Answer(&q.shown, proto.VerdictDenied)
		r.closed(q, proto.CodeDeniedByOwner, proto.VerdictDenied, "uids")
	}), act("approve, and swap the arguments", func(r *rig) {
		c := &proto.Call{ID: r.id(), Session: r.session, Tool: "run", Args: encode(r.writes("shown"))}
		q := r.question(c)
		for _, file := range []string{"swapped-1", "swapped-2"} {
			other := *c
			other.Args = encode(r.writes(file))
			r.is(r.send(&other), proto.CodeReplayedCall)
		}
		r.Answer(&q.shown, proto.VerdictApproved)
		if res := q.result(); res.Code != "" {
			r.t.Errorf("%+v", res)
		}
		for file, n := range map[string]int{"shown": 1, "swapped-1": 0, "swapped-2": 0} {
			r.ranTimes(file, n)
		}
	}))
}

// changedMeanwhile: what the owner was asked under must still hold.
func changedMeanwhile() []attempt {
	var rows []attempt
	for what, row := range map[string]struct {
		change func(r *rig)
		code   proto.Code
	}{
		"was removed":            {func(r *rig) { r.Revoke(askGrant) }, proto.CodeNoGrant},
		"was narrowed":           {func(r *rig) { r.Grant(askGrant, askText(r)+"[args.argv]\none_of = [\"/bin/true\"]\n") }, proto.CodeNoGrant},
		"became a deny":          {func(r *rig) { r.Grant(askGrant, "tool = \"run\"\nmode = \"deny\"\n") }, proto.CodeDeniedByGrant},
		"has a deny before it":   {func(r *rig) { r.Grant("10-deny.toml", "tool = \"run\"\nmode = \"deny\"\n") }, proto.CodeDeniedByGrant},
		"has a deny after it":    {func(r *rig) { r.Grant("90-deny.toml", "tool = \"run\"\nmode = \"deny\"\n") }, proto.CodeDeniedByGrant},
		"got a comment":          {func(r *rig) { r.Grant(askGrant, askText(r)+"# changed\n") }, proto.CodeNoGrant},
		"was widened":            {func(r *rig) { r.Grant(askGrant, strings.Replace(askText(r), `"20s"`, `"40s"`, 1)) }, proto.CodeNoGrant},
		"became auto":            {func(r *rig) { r.Grant(askGrant, runGrant(r.granted)) }, proto.CodeNoGrant},
		"was broken":             {func(r *rig) { r.Grant(askGrant, "tool = ") }, proto.CodeNoGrant},
		"has expired":            {func(r *rig) { r.Grant(askGrant, "expires = 2001-01-01T00:00:00Z\n"+askText(r)) }, proto.CodeNoGrant},
		"has another before it":  {func(r *rig) { r.Grant("10-other.toml", askText(r)) }, proto.CodeNoGrant},
		"was replaced by a link": {func(r *rig) { r.Revoke(askGrant); r.linkGrant(askGrant, askText(r)) }, proto.CodeNoGrant},
	} {
		rows = append(rows, act("the grant "+what, func(r *rig) {
			file := "changed-" + strings.ReplaceAll(what, " ", "-")
			q := r.ask(r.id(), r.writes(file))
			row.change(r)
			if _, err := r.answer(yes(&q.shown)); err != nil {
				r.t.Error(err)
			}
			r.closed(q, row.code, proto.VerdictApproved, file)
			for _, name := range []string{"10-deny.toml", "90-deny.toml", "10-other.toml", askGrant} {
				_ = os.Remove(filepath.Join(r.Layout.Grants, name))
			}
			r.Grant(askGrant, askText(r))
		}))
	}
	return rows
}

// linkGrant puts a grant elsewhere, and a link to it in the folder.
func (r *rig) linkGrant(name, text string) {
	r.t.Helper()
	to := filepath.Join(r.Home, "red", name)
	if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(to, filepath.Join(r.Layout.Grants, name)); err != nil {
		r.t.Fatal(err)
	}
}

// answerRaces: the first answer wins, and nothing comes of the others.
func answerRaces() []attempt {
	race := func(second proto.Verdict) func(r *rig) {
		return func(r *rig) {
			for round := range 4 {
				file := fmt.Sprintf("race-%s-%d", second, round)
				q := r.ask(r.id(), r.writes(file))
				var mu sync.Mutex
				var first, verdicts []proto.Verdict
				var wg sync.WaitGroup
				for i := range 20 {
					a := yes(&q.shown)
					if i%2 == 1 {
						a.Verdict = second
					}
					wg.Go(func() {
						got, err := r.answer(a)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							r.t.Error(err)
							return
						}
						verdicts = append(verdicts, got.Verdict)
						if got.First {
							first = append(first, a.Verdict)
						}
					})
				}
				wg.Wait()
				res := q.result()
				if len(first) != 1 || strings.Count(fmt.Sprint(verdicts), string(first[0])) != 20 {
					r.t.Fatalf("first: %v; all: %v", first, verdicts)
				}
				want := 0
				if first[0] == proto.VerdictApproved {
					want = 1
				}
				if (res.Code == "") != (want == 1) {
					r.t.Errorf("%s, and the result is %q", first[0], res.Code)
				}
				r.ranTimes(file, want)
			}
		}
	}
	ended := func(file string, end func(r *rig, q *question), code proto.Code) func(r *rig) {
		return func(r *rig) {
			q := r.ask(r.id(), r.writes(file))
			end(r, q)
			r.closed(q, code, proto.VerdictWithdrawn, file)
			if got, err := r.answer(yes(&q.shown)); err != nil || got.First || got.Verdict != proto.VerdictWithdrawn {
				r.t.Errorf("%+v, %v", got, err)
			}
			r.ranTimes(file, 0)
		}
	}
	return []attempt{
		act("20 answers at once, all yes", race(proto.VerdictApproved)),
		act("20 answers at once, half no", race(proto.VerdictDenied)),
		act("after it was cancelled", ended("cancelled", func(r *rig, q *question) {
			if m, err := r.broker(&proto.Cancel{ID: q.shown.Call}, nil); err != nil {
				r.t.Errorf("%+v, %v", m, err)
			}
		}, proto.CodeStopped)),
		act("after a halt", ended("halted", func(r *rig, _ *question) { r.Must("", "halt") }, proto.CodeHalted)),
		act("after the end of the halt", func(r *rig) { r.Must("", "resume") }),
		act("while it is cancelled", func(r *rig) {
			for round := range 8 {
				file := fmt.Sprintf("cancel-%d", round)
				q := r.ask(r.id(), r.writes(file))
				var wg sync.WaitGroup
				var got *proto.Answered
				wg.Go(func() { got, _ = r.answer(yes(&q.shown)) })
				wg.Go(func() { _, _ = r.broker(&proto.Cancel{ID: q.shown.Call}, nil) })
				wg.Wait()
				res, end := q.result(), r.ending(q.shown.Approval)
				if n := r.runs(file); n > 1 || n == 1 && end.Verdict != proto.VerdictApproved || res.Code == "" && n != 1 || got == nil || got.Verdict != end.Verdict {
					r.t.Errorf("ran %d times; result %q; on record %+v; answered %+v", n, res.Code, end, got)
				}
			}
		}),
	}
}
