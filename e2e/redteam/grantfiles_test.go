package redteam

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// A patternRow is a constraint on the content of write_file, and values that it
// must let through and must not.
type patternRow struct {
	name, args string // of the grant
	good, bad  []string
}

func patternRows() []patternRow {
	pattern := func(name, p string, good, bad []string) patternRow {
		return patternRow{name, "[args.content]\npattern = '''" + p + "'''\n", good, bad}
	}
	return []patternRow{
		pattern("an alternation with anchors", `^a|b$`, []string{"a", "b"}, []string{"ax", "xb", "a\nb", "a; b", "xbx", ""}),
		pattern("an alternation", `yes|no`, []string{"yes", "no"}, []string{"yes, delete", "not", "yes\n", "yes|no"}),
		pattern("an alternation without an end", `ok|`, []string{"ok", ""}, []string{"okk", "x"}),
		pattern("no anchors", `[a-z]+`, []string{"abc"}, []string{"abc ", "abc\n", "\nabc", "abc1", "aBc", "abс"}),
		pattern("its own anchors", `^[a-z]+$`, []string{"abc"}, []string{"abc\n", "abc\nrm"}),
		pattern("lines", `(?m)^[a-z]+$`, []string{"abc"}, []string{"abc\nid", "id\nabc", "abc\n"}),
		pattern("lines, and both sides open", `(?m).*^safe$.*`, []string{"safe"}, []string{"safe\nid", "id\nsafe\nid"}),
		pattern("a dot", `.*`, []string{"anything; really"}, []string{"a\nb", "\n"}),
		pattern("a dot that its owner let match line breaks", `(?s).*`, []string{"a\nb"}, nil),
		pattern("an end of text", `[a-z]+\z|x\z`, []string{"abc", "x"}, []string{"abc\n", "xx1"}),
		pattern("a begin of text inside", `a\Ab|c`, []string{"c"}, []string{"ab", "a", "cb"}),
		pattern("a quoted end", `\Qa|b`, []string{"a|b"}, []string{"a", "b"}),
		pattern("a quoted parenthesis", `\Qa)|(.*`, []string{"a)|(.*"}, []string{"a", "id"}),
		pattern("other case by a flag", `(?i)abc`, []string{"ABC", "abc"}, []string{"abcd", "ab"}),
		pattern("a word boundary", `\bls\b`, []string{"ls"}, []string{"ls -l", "; ls"}),
		pattern("white space", `a\sb`, []string{"a b", "a\nb"}, []string{"a  b", "a\u00a0b"}),
		pattern("a class that is not", `[^;]*`, []string{"a b"}, []string{"a;b"}),
		pattern("a group without a name", `(?:a|b)c`, []string{"ac", "bc"}, []string{"a", "c", "abc"}),
		pattern("lazy", `a.*?b`, []string{"ab", "axxb"}, []string{"abx", "a\nb"}),
		pattern("a repetition that would take long elsewhere", `(a|a)*b?`, []string{strings.Repeat("a", 3000)}, []string{strings.Repeat("a", 30000) + "c"}),
		pattern("letters of any alphabet", `\pL+`, []string{"äß"}, []string{"a1", "a\u200b"}),
		{"one_of", "[args.content]\none_of = [\"a b\", \"C\"]\n", []string{"a b", "C"}, []string{"a", "b", "c", " a b", "a b ", "a  b", "a\u00a0b", "A B", "a b\n", "a b,C"}},
		{"one_of and a pattern", "[args.content]\none_of = [\"a\", \"b\"]\npattern = 'b|c'\n", []string{"b"}, []string{"a", "c"}},
		{"max_bytes counts bytes", "[args.content]\nmax_bytes = 4\n", []string{"abcd", "ää", "😀"}, []string{"abcde", "äää", "😀a", "日本"}},
		{"a value with a line break in one_of", "[args.content]\none_of = [\"a\\nb\"]\n", []string{"a\nb"}, []string{"a", "b", "a b"}},
		{"an argument that is not in the call", "[args.mode]\none_of = [\"create\"]\n", nil, []string{"any"}},
	}
}

func contentGrant(r *rig, args string) string { return writeGrant(r.granted) + args }

func grantPatterns() family {
	return family{
		name: "grants with surprising patterns",
		tries: func(r *rig) []attempt {
			rows := []attempt{}
			target := filepath.Join(r.granted, "pattern.txt")
			for _, p := range patternRows() {
				rows = append(rows, act(p.name, func(r *rig) {
					r.Grant("20-write.toml", contentGrant(r, p.args))
					r.understood()
					say := func(text string, want proto.Code) {
						_ = os.Remove(target)
						res := r.call("write_file", obj{"path": target, "content": text, "mode": "overwrite"})
						r.is(res, want)
						b, err := os.ReadFile(target)
						if want == "" && (err != nil || string(b) != text) || want != "" && err == nil {
							r.t.Errorf("%.40q: the file is %.40q, %v", text, b, err)
						}
					}
					for i, text := range p.good {
						if i == 0 { // one control is enough
							say(text, "")
						}
					}
					for _, text := range p.bad {
						say(text, proto.CodeNoGrant)
					}
				}))
			}
			for name, p := range map[string]string{
				"look ahead": `(?=a)a`, "a reference back": `(a)\1`, "an open class": `[a`, "an open group": `(a`, "a close too many": `a)|(.*`, "a close that ends ours": `a)\z|(?:.*`, "too many times": `a{1001}`, "nested a thousand": strings.Repeat("(", 1001) + strings.Repeat(")", 1001),
				"a star of a star": `a**`, "a long one": strings.Repeat("a", 1001), "nothing": "", "a flag that is none": `(?z)a`, "an open quote of bytes": `\x{110000}`,
			} {
				rows = append(rows, act("no pattern: "+name, func(r *rig) {
					r.Grant("20-write.toml", contentGrant(r, "[args.content]\npattern = '''"+p+"'''\n"))
					r.broken("20-write.toml", true)
					r.is(r.call("write_file", obj{"path": target, "content": "a", "mode": "overwrite"}), proto.CodeNoGrant)
				}))
			}
			return append(rows, denyPatterns(target)...)
		},
	}
}

// denyPatterns: of a deny the call that adds something gets less too.
func denyPatterns(target string) []attempt {
	return []attempt{act("a deny with a pattern can't be got past by a line break", func(r *rig) {
		r.Grant("20-write.toml", writeGrant(r.granted))
		r.Grant("90-deny.toml", "tool = \"write_file\"\nmode = \"deny\"\n[args.content]\npattern = '.*secret.*'\n")
		r.understood()
		r.is(r.call("write_file", obj{"path": target, "content": "harmless", "mode": "overwrite"}), "")
		for _, text := range []string{"secret", "a secret b", "a\nsecret\nb", "\nsecret", "secret\n", "x\x0bsecret\u2028y", strings.Repeat("x\n", 5000) + "secret"} {
			r.is(r.call("write_file", obj{"path": target, "content": text, "mode": "overwrite"}), proto.CodeDeniedByGrant)
		}
		r.Revoke("90-deny.toml")
	})}
}

// understood: the grants of an attempt hold, or it would prove nothing.
func (r *rig) understood() {
	r.t.Helper()
	st, err := r.Broker()
	if err != nil || len(st.Broken) > 0 {
		r.t.Fatalf("%+v, %v", st, err)
	}
}

// broken: this file, and no other, is told to grant nothing, in the words of each
// command, with its line and what to do.
func (r *rig) broken(name string, line bool) {
	r.t.Helper()
	st, err := r.Broker()
	if err != nil || len(st.Broken) != 1 || !strings.Contains(st.Broken[0], name) {
		r.t.Errorf("%+v, %v; want %s to be broken", st, err, name)
	}
	if !line {
		return
	}
	res := r.Bxctl("", "grants", "check")
	if res.Code == 0 || !strings.Contains(res.Stdout+res.Stderr, name) {
		r.t.Errorf("grants check: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if !strings.Contains(res.Stdout+res.Stderr, name+":") {
		r.t.Errorf("grants check names no line: %s%s", res.Stdout, res.Stderr)
	}
}

func grantFiles() family {
	return family{
		name: "strange grant files",
		stage: func(r *rig) {
			r.grant("50-good", readGrant(r.granted))
			r.file(filepath.Join(r.granted, "sub", "deep.txt"), "deep\n")
			r.file(filepath.Join(r.granted+"-not", "canary.txt"), canaryFile)
		},
		tries: func(r *rig) []attempt {
			note, canary := filepath.Join(r.granted, "note.txt"), filepath.Join(r.outside, "canary.txt")
			open := readGrant(r.outside) // what a file would give if it counted
			good := func(r *rig) {
				r.t.Helper()
				r.is(r.call("read_file", obj{"path": note}), "")
				r.is(r.call("read_file", obj{"path": canary}), proto.CodeNoGrant)
			}
			rows := []attempt{act("control: the good file alone", good)}
			bad := func(name, text string) {
				rows = append(rows, act(name, func(r *rig) {
					r.Grant("10-bad.toml", text)
					defer r.Revoke("10-bad.toml")
					r.broken("10-bad.toml", false)
					good(r)
				}))
			}
			with := func(old, to string) string { return strings.Replace(open, old, to, 1) }
			bad("a key in other case", with("mode", "Mode"))
			bad("a table in other case", with("[paths]", "[Paths]"))
			bad("a table twice", open+"[paths]\nread = [\"/tmp\"]\n")
			bad("a key twice", open[:len(open)-1]+"\nread = [\"/tmp\"]\n")
			bad("an unknown key", "extra = 1\n"+open)
			bad("an unknown table", open+"[path]\nread = [\"/tmp\"]\n")
			bad("a mode in other case", with(`"auto"`, `"AUTO"`))
			bad("a mode with a space", with(`"auto"`, `"auto "`))
			bad("a tool in other case", with(`"read_file"`, `"Read_File"`))
			bad("a tool that does not exist", with(`"read_file"`, `"*"`))
			bad("tools in a list", with(`"read_file"`, `["read_file", "run"]`))
			bad("more for untrusted sessions", "mode_untrusted = \"auto\"\n"+with(`"auto"`, `"ask"`))
			bad("a path with ..", with(r.outside, r.granted+"/../outside"))
			bad("a path with a star", with(r.outside, filepath.Dir(r.outside)+"/*"))
			bad("a path with a question mark", with(r.outside, filepath.Dir(r.outside)+"/outsid?"))
			bad("a path with a class", with(r.outside, filepath.Dir(r.outside)+"/[o]utside"))
			bad("a relative path", with(r.outside, "outside"))
			bad("the home by a tilde", with(r.outside, "~/outside"))
			bad("an empty path", with(r.outside, ""))
			bad("the root", with(r.outside, "/"))
			bad("the root by slashes", with(r.outside, "///"))
			bad("the root by dots", with(r.outside, "/./"))
			bad("/proc", with(r.outside, "/proc/self"))
			bad("/dev", with(r.outside, "/dev/shm"))
			bad("Boxmaker's secrets", with(r.outside, r.Layout.Secrets))
			bad("above Boxmaker's own", with(r.outside, r.Home))
			bad("the audit log", with(r.outside, r.Layout.Audit+"/x"))
			bad("the grants", with(r.outside, r.Layout.Grants))
			bad("a path with a line break", with(r.outside, `/tmp\n`+r.outside))
			bad("a path with NUL", with(r.outside, r.outside+`\u0000`))
			bad("paths as a text", with(`["`+r.outside+`"]`, `"`+r.outside+`"`))
			bad("a reason of two lines", "reason = \"a\\nb\"\n"+open)
			bad("a reason with an escape", "reason = \"\\u001b[2J\"\n"+open)
			bad("expires without a zone", "expires = 2031-01-01T00:00:00\n"+open)
			bad("expires as a day", "expires = 2031-01-01\n"+open)
			bad("bytes", "\x00\x01\x02\xff\xfe")
			bad("a NUL at the end", open+"\x00")
			bad("no UTF-8", "reason = \"\xff\"\n"+open)
			bad("a byte order mark in the middle", "tool = \"read_file\"\n\ufeffmode = \"auto\"\n[paths]\nread = [\""+r.outside+"\"]\n")
			bad("more than 64 KiB", open+strings.Repeat("# more\n", 10000))
			bad("nothing", "")
			bad("a comment only", "# "+strings.ReplaceAll(open, "\n", "\n# "))
			bad("half a file", open[:len(open)/2])
			bad("YAML", "tool: read_file\nmode: auto\n")
			bad("JSON", `{"tool":"read_file","mode":"auto"}`)
			bad("carriage returns only", strings.ReplaceAll(open, "\n", "\r"))
			bad("a constraint on no argument of the tool", open+"[args.command]\npattern = '.*'\n")
			bad("a pattern on a shell", "tool = \"shell\"\nmode = \"auto\"\n[paths]\nread = [\""+r.outside+"\"]\n[args.command]\npattern = 'ls.*'\n")
			bad("a write for a tool that reads", open+"write = [\""+r.outside+"\"]\n")
			bad("a limit below nothing", open+"[limits]\ncalls_per_hour = -1\n")
			bad("a table with dots in its name", open+"[\"paths.write\"]\nx = 1\n")
			bad("an inline table twice", open+"paths.write = [\"/tmp\"]\n")
			return append(append(rows, namedFiles(open, good)...), orders(r, note, canary)...)
		},
	}
}

// namedFiles would be good grants if they were the owner's own plain files.
func namedFiles(open string, good func(r *rig)) []attempt {
	put := func(name, file string, broken bool, make func(r *rig, path string) error) attempt {
		return act(name, func(r *rig) {
			path := filepath.Join(r.Layout.Grants, file)
			if err := make(r, path); err != nil {
				r.t.Fatal(err)
			}
			defer os.RemoveAll(path)
			if broken {
				r.broken(file, false)
			}
			good(r)
		})
	}
	text := func(mode os.FileMode) func(r *rig, path string) error {
		return func(_ *rig, path string) error {
			if err := os.WriteFile(path, []byte(open), 0o640); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}
	}
	rows := []attempt{
		put("writable for all", "10-x.toml", true, text(0o666)),
		put("writable for its group", "10-x.toml", true, text(0o660)),
		put("a hidden name", ".10-x.toml", false, text(0o640)),
		put("a name in capitals", "10-X.TOML", false, text(0o640)),
		put("another ending", "10-x.toml.bak", false, text(0o640)),
		put("an editor's copy", "10-x.toml~", false, text(0o640)),
		put("a symbolic link", "10-x.toml", true, func(r *rig, path string) error {
			to := filepath.Join(r.Home, "red", "elsewhere.toml")
			return errors.Join(os.WriteFile(to, []byte(open), 0o640), os.Symlink(to, path))
		}),
		put("a link to nothing", "10-x.toml", true, func(_ *rig, path string) error { return os.Symlink("/nowhere", path) }),
		put("a link to itself", "10-x.toml", true, func(_ *rig, path string) error { return os.Symlink("10-x.toml", path) }),
		put("a folder", "10-x.toml", true, func(_ *rig, path string) error { return os.Mkdir(path, 0o750) }),
		put("a pipe", "10-x.toml", true, func(_ *rig, path string) error { return unix.Mkfifo(path, 0o600) }),
		act("of another user", func(r *rig) {
			if os.Geteuid() != 0 {
				r.t.Skip("not root: an ordinary user can't give a file away")
			}
			path := filepath.Join(r.Layout.Grants, "10-x.toml")
			defer os.Remove(path)
			for _, uid := range []int{r.uid("brokerd"), r.uid("loopd"), r.uid("runnerd"), 1000} {
				if err := errors.Join(os.WriteFile(path, []byte(open), 0o640), os.Chown(path, uid, 0), os.Chmod(path, 0o644)); err != nil {
					r.t.Fatal(err)
				}
				if st, err := r.Broker(); err != nil || st.Grants != 1 {
					r.t.Errorf("%+v, %v", st, err)
				}
				good(r)
			}
		}),
		act("a folder of grants that others can write to", func(r *rig) {
			info, err := os.Stat(r.Layout.Grants)
			if err != nil {
				r.t.Fatal(err)
			}
			r.own(r.Layout.Grants, info.Mode()|0o022)
			defer r.own(r.Layout.Grants, info.Mode())
			r.is(r.call("read_file", obj{"path": filepath.Join(r.granted, "note.txt")}), proto.CodeNoGrant)
		}),
	}
	for what, name := range map[string]string{"a space": "10 x.toml", "a line break": "10-\nx.toml", "an escape": "10-\x1b[2J.toml", "a letter like another": "10-\u0445.toml", "a dash first": "-x.toml", "a right-to-left override": "10-\u202elmot.toml"} {
		rows = append(rows, put("a name with "+what, name, false, text(0o640)))
	}
	return rows
}

// orders: which of several files decides.
func orders(r *rig, note, canary string) []attempt {
	deny := "tool = \"read_file\"\nmode = \"deny\"\n"
	denyAt := func(path string) string { return deny + "[paths]\nread = [\"" + path + "\"]\n" }
	row := func(name string, files map[string]string, want map[string]proto.Code) attempt {
		return act(name, func(r *rig) {
			for f, text := range files {
				r.Grant(f, text)
			}
			r.understood()
			for path, code := range want {
				r.is(r.call("read_file", obj{"path": path}), code)
			}
			for f := range files {
				r.Revoke(f)
			}
		})
	}
	deep := filepath.Join(r.granted, "sub", "deep.txt")
	soon := func(d time.Duration) string {
		return "expires = " + time.Now().Add(d).UTC().Format(time.RFC3339) + "\n" + deny
	}
	return []attempt{
		row("a deny before", map[string]string{"10-deny.toml": deny}, map[string]proto.Code{note: proto.CodeDeniedByGrant, canary: proto.CodeDeniedByGrant}),
		row("a deny behind", map[string]string{"90-deny.toml": deny}, map[string]proto.Code{note: proto.CodeDeniedByGrant}),
		row("a deny with the same number, before", map[string]string{"50-aaa.toml": deny}, map[string]proto.Code{note: proto.CodeDeniedByGrant}),
		row("a deny with the same number, behind", map[string]string{"50-zzz.toml": deny}, map[string]proto.Code{note: proto.CodeDeniedByGrant}),
		row("a deny of a folder inside", map[string]string{"90-deny.toml": denyAt(filepath.Dir(deep))}, map[string]proto.Code{note: "", deep: proto.CodeDeniedByGrant, filepath.Dir(deep) + "/../sub/deep.txt": proto.CodeDeniedByGrant}),
		row("a deny of the folder with a slash at its end", map[string]string{"90-deny.toml": denyAt(filepath.Dir(deep) + "/")}, map[string]proto.Code{note: "", deep: proto.CodeDeniedByGrant}),
		row("a deny of the folder with two slashes", map[string]string{"90-deny.toml": denyAt(r.granted + "//sub")}, map[string]proto.Code{deep: proto.CodeDeniedByGrant}),
		row("a deny of a folder whose name is the start of another", map[string]string{"90-deny.toml": denyAt(r.granted + "/su")}, map[string]proto.Code{deep: ""}),
		row("a deny that has expired by a second", map[string]string{"10-deny.toml": soon(-time.Second)}, map[string]proto.Code{note: ""}),
		row("a deny that holds for an hour still", map[string]string{"10-deny.toml": soon(time.Hour)}, map[string]proto.Code{note: proto.CodeDeniedByGrant}),
		row("a grant that has expired by a second", map[string]string{"10-old.toml": strings.Replace(soon(-time.Second), "deny\"\n", "auto\"\n[paths]\nread = [\""+r.outside+"\"]\n", 1)}, map[string]proto.Code{note: "", canary: proto.CodeNoGrant}),
		row("a grant with a slash at its end", map[string]string{"10-slash.toml": readGrant(r.granted + "/")}, map[string]proto.Code{note: "", r.granted + "-not/canary.txt": proto.CodeNoGrant}),
		row("a grant with two slashes", map[string]string{"10-slash.toml": readGrant("/" + r.granted)}, map[string]proto.Code{note: "", canary: proto.CodeNoGrant}),
		row("a grant of a file", map[string]string{"10-file.toml": readGrant(r.granted + "/sub/deep.txt")}, map[string]proto.Code{deep: "", r.granted + "/sub/deep.txt2": proto.CodeToolFailed}),
	}
}
