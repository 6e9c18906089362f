package redteam

import (
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"
)

// A quoteRow is a constraint on a program's words, what it lets through, and what
// it was meant to forbid.
type quoteRow struct {
	name, tool, args string
	good             any
	says             string // of the good one's output
	bad              []any
}

func argvs(first []string, more ...string) (out []any) {
	for _, m := range more {
		out = append(out, append(append([]string(nil), first...), m))
	}
	return out
}

// meta are words that a shell would take for more than a word. Each would leave
// the file "forbidden" if anything but a word came of it.
func meta(r *rig) []string {
	f := filepath.Join(r.granted, "forbidden")
	return []string{
		"; touch " + f, "x; touch " + f, "x && touch " + f, "x || touch " + f, "x | tee " + f, "x > " + f, "x >> " + f, "x & touch " + f, "$(touch " + f + ")", "`touch " + f + "`", "x\ntouch " + f, "x\r\ntouch " + f,
		"x\n$(touch " + f + ")", "<<E\nx\nE\ntouch " + f, "<(touch " + f + ")", "${x:=$(touch " + f + ")}", "$((a[$(touch " + f + ")]))", "'; touch " + f + "; '", "\"; touch " + f + "; \"", "\\; touch " + f, "x' || touch " + f + " #",
		"x\u00a0;\u00a0touch\u00a0" + f, "x\u2028touch " + f, "x\u0085touch " + f, "x\vtouch " + f, "x\ftouch " + f, "；touch " + f, "x\x1b\ntouch " + f, "!touch " + f, "{touch," + f + "}", "~/x; touch " + f, "*; touch " + f,
		"A=b touch " + f, "PATH=/tmp touch " + f, "-c touch " + f, "--eval=touch " + f, "-exec touch " + f + " ;", "--output=" + f, "-o" + f, "@" + f, "%s; touch " + f, "$'\\n'touch " + f, "\\\ntouch " + f, "x #\ntouch " + f,
	}
}

func quoteRows(r *rig) []quoteRow {
	echo, words := []string{"/bin/echo"}, meta(r)
	other := func(argv ...string) any { return argv }
	f := filepath.Join(r.granted, "forbidden")
	run := "touch " + f
	return []quoteRow{
		{"a pattern for each word", "run", "[args.argv]\nfirst = [\"/bin/echo\"]\npattern = '[a-z0-9]+'\n", other("/bin/echo", "abc"), "abc", append(argvs(echo, words...),
			other("/bin/echo", "abc", "x; "+run), other("/bin/echo", "abc", ""), other("/bin/echo", "-n"), other("/bin/echo", "abc def"), other("/bin/echo", "abс"), other("/bin/echo", " abc"), other("/bin/echo", "abc\n"),
			other("/bin/sh", "-c", run), other("/bin/../bin/sh", "-c", run), other("/bin/echo\n", "abc"), other("/bin/echo ", "abc"), other("/bin//echo", "abc"), other("./echo", "abc"), other("echo", "abc"), other("/bin/ECHO", "abc"),
			other("/bin/echo; "+run), other("A=b", "/bin/echo", "abc"), other("env", "/bin/echo"), other("/bin/echo"+"\u200b", "abc"), other("-c", "/bin/echo"), other(""), other("abc", "/bin/echo"))},
		{"an alternation", "run", "[args.argv]\nfirst = [\"/bin/echo\"]\npattern = 'status|log'\n", other("/bin/echo", "log"), "log", append(argvs(echo, words...),
			other("/bin/echo", "log; "+run), other("/bin/echo", "status\n"+run), other("/bin/echo", "logx"), other("/bin/echo", "xlog"), other("/bin/echo", "status|log"))},
		{"anchors of the owner's own", "run", "[args.argv]\nfirst = [\"/bin/echo\"]\npattern = '(?m)^[a-z]+$'\n", other("/bin/echo", "abc"), "abc", append(argvs(echo, words...), other("/bin/echo", "abc\n"+run), other("/bin/echo", run+"\nabc"))},
		{"no options", "run", "[args.argv]\nfirst = [\"/usr/bin/sort\"]\npattern = '[^-].*'\n", other("/usr/bin/sort", filepath.Join(r.granted, "note.txt")), "an ordinary note", []any{
			other("/usr/bin/sort", "--output="+f, "/etc/passwd"), other("/usr/bin/sort", "-o", f), other("/usr/bin/sort", "-o"+f), other("/usr/bin/sort", "note", "--compress-program=touch"), other("/usr/bin/sort", "--"),
		}},
		{"one of some words", "run", "[args.argv]\nfirst = [\"/bin/echo\"]\none_of = [\"a b\", \"c\"]\n", other("/bin/echo", "a b", "c"), "a b c", append(argvs(echo, words...), other("/bin/echo", "a", "b"), other("/bin/echo", "a b "), other("/bin/echo", "C"), other("/bin/echo", "a\tb"), other("/bin/echo", "a b; "+run))},
		{"so many words", "run", "[args.argv]\nfirst = [\"/bin/echo\"]\nmax_items = 3\nmax_bytes = 5\n", other("/bin/echo", "a", "b"), "a b", []any{other("/bin/echo", "a", "b", "c"), other("/bin/echo", "abcdef"), other("/bin/echo", "äöü"), other("/bin/echo", "", "", "")}},
		{"more than one first word", "run", "[args.argv]\nfirst = [\"/bin/echo\", \"log\"]\n", other("/bin/echo", "log", "x"), "log x", []any{other("/bin/echo", "x", "log"), other("/bin/echo", "log x"), other("/bin/echo log"), other("/bin/echo"), other("/bin/echo", "log\n"), other("/bin/echo", "", "log")}},
		{"whole command lines", "shell", "[args.command]\none_of = [\"echo fine\"]\n", "echo fine", "fine", []any{
			"echo fine; " + run, "echo fine\n" + run, "echo fine\n", " echo fine", "echo  fine", "echo fine #", "echo\tfine", "echo\u00a0fine", "ECHO FINE", "A=b echo fine", "echo fine\\\n; " + run, "echo fine\x00; " + run, run, "$(echo fine)", "echo fine &", "exec echo fine", "echo fine<<E\nE\n" + run,
		}},
	}
}

func shellQuoting() family {
	return family{
		name:  "shell quoting against constraints",
		stage: func(r *rig) { r.grant("20-program", runGrant(r.granted)) },
		tries: func(r *rig) []attempt {
			var rows []attempt
			forbidden := filepath.Join(r.granted, "forbidden")
			for _, q := range quoteRows(r) {
				rows = append(rows, act(q.name, func(r *rig) {
					grant := runGrant(r.granted)
					wrap := func(v any) obj { return obj{"argv": v} }
					if q.tool == "shell" {
						grant, wrap = shellGrant(r.granted), func(v any) obj { return obj{"command": v} }
					}
					r.Grant("20-program.toml", grant+q.args)
					r.understood()
					res := r.call(q.tool, wrap(q.good))
					r.is(res, "")
					if !strings.Contains(res.Text, q.says) {
						r.t.Errorf("control: %q", res.Text)
					}
					for _, bad := range q.bad {
						res := r.call(q.tool, wrap(bad))
						r.judge(attempt{tool: q.tool, want: []proto.Code{proto.CodeNoGrant, proto.CodeInvalidArguments}}, res)
						if d := r.lastDecision(res.ID); d == nil || d.Verdict != proto.VerdictDeny {
							r.t.Errorf("%.80q: on record %+v", bad, d)
						}
					}
					r.absent(forbidden)
				}))
			}
			// A program that is fixed gets its words as they are: no shell stands between.
			rows = append(rows, act("no shell between a call and its program", func(r *rig) {
				r.Grant("20-program.toml", runGrant(r.granted)+"[args.argv]\nfirst = [\"/usr/bin/printf\", \"<%s>\"]\n")
				r.understood()
				for _, w := range append(meta(r), "*", "?", "[a-z]*", "~", "~root", "$HOME", "${PATH}", "{a,b}", "a  b", "\ta", "", "\\", "\\n", "'", "\"", "#x", "!!", "=x", "-", "--") {
					res := r.call("run", obj{"argv": []string{"/usr/bin/printf", "<%s>", w}})
					shown := strings.NewReplacer("\r", "", "\x1b", "").Replace(res.Text)
					if res.Code == "" && !strings.Contains(shown, "<"+strings.NewReplacer("\r", "", "\x1b", "").Replace(w)+">") && !strings.ContainsAny(w, "\v\f\r\x1b\u0085\u2028") {
						r.t.Errorf("%q became %q", w, res.Text)
					}
					if res.Code != "" && res.Code != proto.CodeInvalidArguments {
						r.t.Errorf("%q: %s", w, res.Code)
					}
				}
				r.absent(forbidden)
			}), act("a name that is looked up is not found in the working folder", func(r *rig) {
				r.Grant("20-program.toml", runGrant(r.granted)+"[args.argv]\nfirst = [\"ls\"]\n")
				r.understood()
				for _, name := range []string{"ls", "sh", "cat", "bin/ls"} {
					path := filepath.Join(r.granted, name)
					r.file(path, "#!/bin/sh\ntouch "+forbidden+"\necho planted\n")
					r.own(path, 0o777)
				}
				res := r.call("run", obj{"argv": []string{"ls", "/tool"}, "dir": r.granted})
				r.is(res, "")
				if !strings.Contains(res.Text, "/tool") || strings.Contains(res.Text, "planted") {
					r.t.Errorf("%q", res.Text)
				}
				r.absent(forbidden)
				res = r.call("run", obj{"argv": []string{"ls"}, "dir": filepath.Join(r.granted, "..", "outside")})
				r.judge(attempt{tool: "run", want: []proto.Code{proto.CodeNoGrant, proto.CodeInvalidArguments, proto.CodeToolFailed}}, res)
			}), act("a word with NUL", func(r *rig) {
				r.Grant("20-program.toml", runGrant(r.granted)+"[args.argv]\nfirst = [\"/bin/echo\"]\npattern = '[a-z]+'\n")
				for _, args := range []string{`{"argv":["/bin/echo","abc\u0000; touch ` + forbidden + `"]}`, `{"argv":["/bin/echo\u0000","abc"]}`, `{"argv":["/bin/sh\u0000","-c","x"]}`} {
					r.judge(attempt{tool: "run", want: []proto.Code{proto.CodeInvalidArguments, proto.CodeNoGrant}}, r.call("run", args))
				}
				r.absent(forbidden)
			}), act("control: what was forbidden does leave its trace where it is granted", func(r *rig) {
				r.Grant("20-program.toml", runGrant(r.granted))
				r.is(r.call("run", obj{"argv": []string{"/bin/sh", "-c", "echo x" + meta(r)[0]}}), "")
				if _, err := os.Stat(forbidden); err != nil {
					r.t.Error(err)
				}
			}))
			return rows
		},
	}
}

func (r *rig) absent(path string) {
	r.t.Helper()
	if _, err := os.Lstat(path); err == nil {
		r.t.Errorf("%s is there: what a constraint forbids has run", path)
		_ = os.Remove(path)
	}
}
