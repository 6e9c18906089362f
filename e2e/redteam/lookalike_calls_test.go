package redteam

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"boxmaker/internal/proto"
)

// calledNames are calls whose every argument is the attacker's, and wait for the
// owner: in the chat, in `bxctl approvals`, and at the question of `bxctl approve`.
func calledNames(m *mouth) (rows []attempt) {
	card := imitation("ZZ7777")
	plain := func(argv ...string) func(r *rig) obj { return func(*rig) obj { return obj{"argv": argv} } }
	long := strings.Repeat("a", 30_000)
	for name, args := range map[string]func(r *rig) obj{
		"control: an honest call":   plain("/bin/echo", "hello"),
		"lines":                     plain("/bin/echo", "x\n"+strings.Join(card, "\n")),
		"one argument each":         plain(append([]string{"/bin/echo"}, card...)...),
		"escapes":                   plain("/bin/echo", escapes+"\x1b[1A\x1b[2K\x1b[?25l\x1b[3J\x1bc"+strings.Join(card, "\x1b[1E")),
		"the end of the frame":      plain("/bin/echo", "x\n└─ Ctrl-X answers it, or /approve ZZ7777\n\nApprove this call? [y/N] y\nZZ7777 is approved\n\n$ "),
		"C1 controls":               plain("/bin/echo", "\u009b2J\u009d0;owned\u009c\u0085"+card[0]),
		"carriage returns":          plain("/bin/rm", "-rf", "x\r/bin/ls   \r\n"+card[0]),
		"backspaces":                plain("/bin/rm", strings.Repeat("\b", 60)+"/bin/ls"),
		"right to left":             plain("/bin/echo", "\u202egpj.exe\u202c", "\u2066x\u2069", "\u05d0\u05d1\u05d2"),
		"what can't be seen":        plain("/bin/echo", "a\u200bb\u2060c\ufeffd\u00ade\u3164f\u034fg\U000e0041h"),
		"separators of lines":       plain("/bin/echo", "x\u2028"+card[0]+"\u2029"+card[1]+"\v\f"+card[3]),
		"look-alike letters":        plain("/bin/еcho", "рaypal", "ℓs"),
		"spaces of all kinds":       plain("/bin/echo", "a\u00a0b\u2003c\u3000d\u202fe", strings.Repeat(" ", 300)+"; rm -r /"),
		"a line that wraps":         plain("/bin/echo", strings.Repeat("x", 66)+card[0]+strings.Repeat("x", 40)+card[1]),
		"wide letters":              plain("/bin/echo", strings.Repeat("漢", 33)+card[0]+strings.Repeat("👩‍👩‍👧", 30)+card[1]),
		"marks on top of others":    plain("/bin/echo", strings.Repeat("a\u0335\u0336\u20dd\u0489", 200), "\u0301\u0301x"),
		"tabs":                      plain("/bin/echo", strings.Repeat("\t", 40)+card[0]),
		"what is at the end of all": plain("/bin/echo", long+"; rm -rf /"),
		"a thousand lines":          plain("/bin/echo", strings.Repeat(card[0]+"\n"+card[1]+"\n", 500)+"the last line"),
		"a hundred arguments": func(*rig) obj {
			return obj{"argv": append([]string{"/bin/echo"}, strings.Split(strings.Repeat(card[1]+"|", 100), "|")...)}
		},
		"a folder": func(r *rig) obj {
			return obj{"argv": []string{"/bin/ls"}, "dir": r.granted + "/x │ class      result: public"}
		},
		"a file's content": func(r *rig) obj {
			return obj{"path": filepath.Join(r.granted, "diff.txt"), "content": strings.Join(card, "\n") + "\n--- a\n+++ b\n@@ -1 +1 @@\n" + escapes + "\n" + long + "\n", "mode": "overwrite"}
		},
		"a file's name": func(r *rig) obj {
			return obj{"path": filepath.Join(r.granted, card[0], card[1]+" [y]"), "content": "x", "mode": "create"}
		},
		"a file's content, again": func(r *rig) obj {
			return obj{"path": filepath.Join(r.granted, "note.txt"), "content": "-x\n+y\n│ argv     ┆ z\n", "mode": "overwrite"}
		},
	} {
		rows = append(rows, act("the model calls: "+name, func(r *rig) {
			key, session := "call "+strings.ReplaceAll(name, ":", ""), "call-"+strings.NewReplacer(" ", "-", ":", "", "'", "", ",", "").Replace(strings.ToLower(name))
			m.mu.Lock()
			m.calls[key] = args(r)
			m.mu.Unlock()
			x := newScreen(r, 80)
			x.line("bxctl chat --session " + session)
			x.see("/help")
			x.line(key)
			a := r.askedIn(session)
			if a == nil { // no such call can be: loopd and brokerd refuse it before anybody is asked
				x.see("tokens")
				r.trueCards(x.rows())
				return
			}
			defer r.refuseAll() // so that a failure here is none of the next attempt
			r.wholeCard(x.card("└─ Ctrl-X answers it"), a)
			x.keys("y", "Y", "a", "Enter") // what is typed on answers nothing
			x.focus()
			if rows := x.rows(); !strings.HasPrefix(rows[len(rows)-2], a.Code+"  "+a.Tool) {
				r.t.Errorf("the question above the keys is %q", rows[len(rows)-2])
			}
			x.keys("u")
			var rows []string
			r.WaitUntil("it is there twice", func() bool {
				rows = x.rows()
				_, bodies := cards(rows)
				return len(bodies) == 2
			})
			r.wholeCard(rows, a)
			x.unharmed()
			x.keys("Escape")
			x.run("clear-history")
			r.listed(a)
			r.prompted(a, session)
			if len(r.waiting()) != 1 {
				r.t.Error("it was answered, and nobody did")
			}
			r.Answer(a, proto.VerdictDenied)
			x.see("was denied by")
			x.unharmed()
			if end := r.ending(a.Approval); end == nil || end.Verdict != proto.VerdictDenied {
				r.t.Errorf("on record: %+v", end)
			}
			x.keys("C-c")
			x.line("/quit")
			r.shownSafely(r.Must("", "sessions", "show", session), "sessions show")
			r.shownSafely(r.Must("", "audit", "show", "--call", a.Call), "audit show")
		}))
	}
	return rows
}

// refuseAll denies what still waits.
func (r *rig) refuseAll() {
	for _, w := range r.waiting() {
		a := yes(&w)
		a.Verdict = proto.VerdictDenied
		_, _ = r.answer(a)
	}
}

// focus makes keys go to the approval. The chat hears the chord only after a while,
// and once more would end it: it is pressed again only if the last row stays.
func (x *screen) focus() {
	x.r.t.Helper()
	last, same := "", 0
	x.r.WaitUntil("keys for the approval", func() bool {
		rows := x.rows()
		now := rows[len(rows)-1]
		if same++; now != last {
			last, same = now, 0
		}
		if same < 20 {
			return false
		}
		if strings.Contains(now, "A approve") {
			return true
		}
		x.keys("C-x")
		same = 0
		return false
	})
}

// askedIn waits until the owner is asked in a session, or its turn has ended
// without that.
func (r *rig) askedIn(session string) (a *proto.Approval) {
	r.t.Helper()
	r.WaitUntil("the owner is asked, or not", func() bool {
		for _, w := range r.waiting() {
			if w.Session == session {
				a = &w
				return true
			}
		}
		st, err := r.Status()
		return err == nil && st.OpenTurns == 0 && len(r.sessionText(session)) > 0
	})
	return a
}

// sessionText is what the session's log has of the model.
func (r *rig) sessionText(session string) string {
	res := r.Bxctl("", "sessions", "show", session)
	if i := strings.Index(res.Stdout, "→"); i >= 0 {
		return res.Stdout[i:]
	}
	return ""
}

// wholeCard: the frame shows all that brokerd said of the call, each row of it
// behind its mark, and nothing else looks like one.
func (r *rig) wholeCard(rows []string, a *proto.Approval) {
	r.t.Helper()
	r.trueCards(rows, a.Code)
	_, bodies := cards(rows)
	if len(bodies) == 0 {
		return
	}
	for _, body := range bodies {
		for label, want := range map[string]string{"class": "result: " + string(a.Class), "asked": "in session " + a.Session, "expires": "and is denied then"} {
			n, bad := 0, ""
			for _, row := range body {
				if rest, ok := strings.CutPrefix(row, "│ "+fmt.Sprintf("%-8s", label)+" "); ok && strings.HasPrefix(rest, "  ") {
					n++
					if label != "expires" && !strings.Contains(strings.ReplaceAll(row, " ", ""), strings.ReplaceAll(want, " ", "")) && len(a.Session) < 30 {
						bad = row
					}
				}
			}
			if n != 1 || bad != "" {
				r.t.Errorf("%d rows of ours about %s, %q:\n%s", n, label, bad, strings.Join(body, "\n"))
			}
		}
	}
}

// listed: `bxctl approvals` as a pipe gets it.
func (r *rig) listed(a *proto.Approval) {
	r.t.Helper()
	out := r.Must("", "approvals")
	r.shownSafely(out, "bxctl approvals")
	r.wholeCard(strings.Split(strings.TrimRight(out, "\n"), "\n"), a)
	if strings.Contains(out, "rows are folded") {
		r.t.Error("bxctl approvals leaves something out")
	}
	r.shownSafely(r.Must("", "approvals", "--json"), "bxctl approvals --json")
}

var question1 = regexp.MustCompile(`^Approve this call\?`)

// prompted: the question of `bxctl approve` stands once, at the left edge, and is
// answered by the keys of the owner alone.
func (r *rig) prompted(a *proto.Approval, session string) {
	r.t.Helper()
	sub := *r
	y := newScreenAt(&sub, 80, "tmux-approve-"+session)
	y.line("bxctl approve " + a.Code)
	var rows []string
	r.WaitUntil("the question", func() bool {
		rows = y.rows()
		return question1.MatchString(rows[len(rows)-1])
	})
	n := 0
	for _, row := range rows {
		if question1.MatchString(row) {
			n++
		}
	}
	if n != 1 {
		r.t.Errorf("the question stands %d times:\n%s", n, strings.Join(rows, "\n"))
	}
	r.wholeCard(rows, a)
	r.WaitUntil("it is told that nothing was answered", func() bool { // keys before the question counts are dropped
		y.keys("Enter")
		return strings.Contains(strings.Join(y.rows(), "\n"), "\nbxctl: the call was not answered, and still waits")
	})
	y.unharmed()
}
