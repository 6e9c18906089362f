package redteam

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"boxmaker/internal/proto"
)

// reversed spells a text from its end.
func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// forms are the ways in which a value must not come out.
func forms(v string) []string {
	b := base64.StdEncoding.EncodeToString
	return []string{v, reversed(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))), b([]byte(v))[:len(v)], b([]byte("x" + v))[2:len(v)], b([]byte("xy" + v))[3:len(v)]}
}

// keeps refuses a text with the value that the tools hold, in any of its forms.
func (r *rig) keeps(text, where string) {
	r.t.Helper()
	r.clean(text)
	for _, f := range forms(otherSecret) {
		if strings.Contains(text, f) {
			r.t.Errorf("a secret is in %s: %.300q", where, text)
			return
		}
	}
}

// secretChannels: the attacker holds the secret that its program was given, and
// tries every way to have it written down or read to it; and it holds none of
// another one, and looks for that everywhere.
func secretChannels() family {
	holder := "[args.argv]\nfirst = [\"/bin/sh\"]\n[secrets]\nnames = [\"other\"]\n"
	m := &mouth{words: map[string]string{}, calls: map[string]obj{}, think: map[string]string{}}
	return family{
		name: "secrets by every channel",
		stage: func(r *rig) {
			m.speak(r)
			fileGrants(r)
			r.grant("40-shell", shellGrant(r.granted))
			r.Must(otherSecret+"\n", "secret", "set", "other")
			r.grant("30-run-with-secret", runGrant(r.granted)+holder)
			r.grant("41-run", runGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			hold := func(name, script string, also ...func(r *rig, res *proto.CallResult)) attempt {
				return act("held, "+name, func(r *rig) {
					args := obj{"argv": []string{"/bin/sh", "-c", "S=$(cat <&3); " + script}}
					res := r.call("run", args)
					r.judge(attempt{tool: "run"}, res)
					r.keeps(res.Text, "the result")
					for _, c := range also {
						c(r, res)
					}
				})
			}
			marked := func(r *rig, res *proto.CallResult) {
				r.t.Helper()
				if !strings.Contains(res.Text, "[secret other]") {
					r.t.Errorf("control: it did not try: %q", res.Text)
				}
			}
			file := filepath.Join(r.granted, "carried.txt")
			rows := []attempt{
				hold("control: printed", `echo "$S"`, marked),
				hold("to standard error", `echo "$S" >&2`, marked),
				hold("in base64", `printf %s "$S" | base64 -w0`, marked),
				hold("in base64, one byte before", `printf x%s "$S" | base64 -w0`, marked),
				hold("in base64, two bytes before", `printf xy%sz "$S" | base64 -w0`, marked),
				hold("in base64, wrapped", `printf %s "$S" | base64 -w 11`, marked),
				hold("in hex", `printf %s "$S" | od -An -v -tx1`, marked),
				hold("in hex, in capitals", `printf %s "$S" | od -An -v -tx1 | tr -d ' \n' | tr a-f A-F`, marked),
				hold("reversed", `printf %s "$S" | rev`, marked),
				hold("percent signs", `printf %s "$S" | od -An -v -tx1 | tr -d '\n' | tr ' ' %`, marked),
				hold("a letter a line", `printf %s "$S" | fold -w1`, marked),
				hold("with escapes of a string", `printf %s "$S" | od -An -v -tx1 | tr -d '\n' | sed 's/ /\\x/g'`, marked),
				hold("at the end of much", `head -c 100000 /dev/zero | tr '\0' .; echo "$S"`, marked),
				hold("where output is cut", `head -c 65500 /dev/zero | tr '\0' .; while :; do printf %s "$S"; done | head -c 300000`),
				hold("half on each output", `echo "$S" >&2; printf %s "$S"`, marked),
				hold("as an error's text", `"$S"; ls "/$S"; cd "/$S"; exec "$S"`, marked),
				hold("as its own name", `sh -c 'cat /proc/self/cmdline' "$S"; cat /proc/self/environ | tr '\0' '\n'; S="$S" env`, marked),
				hold("as an exit with a signal and a core", `ulimit -c unlimited; cd `+r.granted+`; S="$S" sh -c 'kill -SEGV $$'; ls`),
				hold("as a file's name, listed", `: > "`+r.granted+`/$S"; ls `+r.granted, marked),
				act("held, a file's name, by another tool", func(r *rig) {
					for _, c := range []attempt{{tool: "list_files", args: obj{"path": r.granted, "depth": 3}}, {tool: "search_files", args: obj{"path": r.granted, "pattern": "."}}, {tool: "shell", args: obj{"command": "ls -R " + r.granted}}} {
						r.keeps(r.call(c.tool, c.args).Text, c.tool)
					}
				}),
				hold("in a file", `echo "$S" > `+file+`; echo "$S" | base64 > `+file+`.b64; mkdir -p "`+r.granted+`/.git/$S"; touch "`+r.granted+`/.git/$S/x"; echo wrote`),
				act("held, in a file, by another tool", func(r *rig) {
					if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), otherSecret) {
						r.t.Errorf("control: %q, %v", b, err)
					}
					for _, c := range []attempt{
						{tool: "read_file", args: obj{"path": file}},
						{tool: "read_file", args: obj{"path": file + ".b64"}},
						{tool: "search_files", args: obj{"path": r.granted, "pattern": "secret|canary|other"}},
						{tool: "edit_file", args: obj{"path": file, "old": "-", "new": "+"}},
						{tool: "edit_file", args: obj{"path": file, "old": "-secret", "new": "-secret "}},
						{tool: "shell", args: obj{"command": "cat " + file + "*; rev " + file + "; od -c " + file}},
						{tool: "list_files", args: obj{"path": filepath.Join(r.granted, ".git"), "depth": 3}},
						{tool: "read_file", args: obj{"path": file, "offset": 1}},
						{tool: "shell", args: obj{"command": "cat /no/$(cat " + file + ")"}},
					} {
						res := r.call(c.tool, c.args)
						r.keeps(res.Text, c.tool)
						r.keeps(r.outcome(res.ID).Detail, "the record")
					}
				}),
				hold("in a file, for the owner's diff", `echo "$S" > `+file+`; echo wrote`),
				act("held, in the diff that the owner sees", func(r *rig) {
					r.Grant("05-ask.toml", strings.Replace(writeGrant(r.granted), `"auto"`, `"ask"`, 1))
					defer r.Revoke("05-ask.toml")
					q := r.question(&proto.Call{ID: r.id(), Session: r.session, Tool: "write_file", Args: encode(obj{"path": file, "content": "new\n", "mode": "overwrite"})})
					b, err := json.Marshal(q.shown)
					if err != nil {
						r.t.Fatal(err)
					}
					r.keeps(string(b), "the question")
					if !strings.Contains(q.shown.Diff, "[secret other]") {
						r.t.Errorf("control: the diff is %q", q.shown.Diff)
					}
					r.keeps(r.Must("", "approvals")+r.Must("", "approvals", "--json"), "bxctl approvals")
					r.Answer(&q.shown, proto.VerdictDenied)
					q.result()
				}),
				act("not held: what the model may ask for", func(r *rig) { r.lookEverywhere() }),
				act("not held: the processes of the roles", func(r *rig) { r.looksAtRoles() }),
				act("by the whole loop, in all that is written down", func(r *rig) { r.throughLoop(m) }),
			}
			return append(rows, act("nothing that was written down has it", func(r *rig) {
				for _, f := range []string{filepath.Join(r.granted, otherSecret), file, file + ".b64"} {
					_ = os.Remove(f)
				}
				r.secretOnDisk()
			}))
		},
	}
}

// lookEverywhere asks each tool for each place where a secret is or was.
func (r *rig) lookEverywhere() {
	r.t.Helper()
	l := r.Layout
	for _, p := range []string{
		l.Secrets, l.Secrets + "/brokerd.age", l.Keys, l.Keys + "/brokerd.key", l.Broker, l.Broker + "/results", l.Broker + "/approvals", l.Run, r.OwnerSocket(), l.Socket("brokerd", "loopd", "broker"), l.Socket("brokerd", "loopd", "broker") + ".key",
		l.Audit, l.Sessions, l.Log, l.Home + "/chat-history", "/proc/1/environ", "/proc/self/environ", "/proc/1/fd/3", "/proc/self/fd/3", "/dev/fd/3", "/dev/stdin", "/proc/kcore", "/dev/mem", "/run/credentials", "/etc/shadow", "/root/.ssh/id_ed25519", "/var/lib/systemd/coredump",
		fmt.Sprintf("/proc/%d/environ", r.PID("brokerd")), fmt.Sprintf("/proc/%d/mem", r.PID("brokerd")), fmt.Sprintf("/proc/%d/root%s", r.PID("brokerd"), l.Keys),
	} {
		for _, tool := range []string{"read_file", "list_files", "search_files", "edit_file", "write_file"} {
			args := map[string]obj{"search_files": {"path": p, "pattern": "."}, "edit_file": {"path": p, "old": "c", "new": "d"}, "write_file": {"path": p, "content": "x", "mode": "overwrite"}}[tool]
			if args == nil {
				args = obj{"path": p}
			}
			res := r.call(tool, args)
			r.judge(attempt{tool: tool, want: denied}, res)
			r.keeps(res.Text, tool+" of "+p)
		}
		res := r.call("shell", obj{"command": "cat '" + p + "' 2>&1; ls -laR '" + p + "' 2>&1 | head -50; strings '" + p + "' 2>/dev/null | head"})
		r.keeps(res.Text, "the shell's look at "+p)
	}
}

// looksAtRoles: no role carries a secret where other processes of the machine could
// read it.
func (r *rig) looksAtRoles() {
	r.t.Helper()
	for _, p := range r.Daemons() {
		for _, name := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), name))
			if err != nil {
				continue
			}
			r.keeps(string(b), p.Program+"'s "+name)
		}
		if b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "limits")); err == nil && p.Program == "brokerd" && !bytes.Contains(b, []byte("Max core file size        0 ")) {
			r.t.Errorf("brokerd may leave a core: %s", b)
		}
	}
}

// throughLoop has the real loopd carry it into a session, and looks at all that the
// owner can print, and at what the server was sent.
func (r *rig) throughLoop(m *mouth) {
	r.t.Helper()
	m.mu.Lock()
	m.calls["carry it"] = obj{"argv": []string{"/bin/sh", "-c", "S=$(cat <&3); echo \"begin $S end\"; printf %s \"$S\" | base64; printf %s \"$S\" | rev; printf %s \"$S\" | od -An -v -tx1"}}
	m.mu.Unlock()
	done := r.Say("carry-1", "o-carry-1", "carry it")
	r.keeps(done.Answer, "the answer")
	for _, args := range [][]string{
		{"sessions", "show", "carry-1"},
		{"sessions", "show", "carry-1", "--json"},
		{"sessions", "export", "carry-1"},
		{"sessions", "export", "carry-1", "--format", "json"},
		{"audit", "show", "-n", "all", "--long"},
		{"audit", "show", "-n", "all", "--json"},
		{"audit", "export"},
		{"logs"},
		{"secret", "list"},
		{"status"},
		{"doctor"},
		{"grants", "list"},
		{"tools"},
	} {
		res := r.Bxctl("", args...)
		r.keeps(res.Stdout+res.Stderr, strings.Join(args, " "))
		if args[0] == "sessions" && args[1] == "export" && !strings.Contains(res.Stdout, "[secret other]") {
			r.t.Errorf("control: %v has no trace of it: %.400s%s", args, res.Stdout, res.Stderr)
		}
	}
	for _, b := range m.sent() {
		r.keeps(string(b), "a request to the server")
	}
}

// secretOnDisk searches all that Boxmaker wrote.
func (r *rig) secretOnDisk() {
	r.t.Helper()
	n := 0
	err := filepath.WalkDir(r.Home, func(path string, d os.DirEntry, err error) error {
		if path == filepath.Join(r.Home, "red") {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // a container's folder that has just gone
		}
		if b, err := os.ReadFile(path); err == nil {
			n++
			r.keeps(string(b), path)
		}
		return nil
	})
	if err != nil || n < 10 {
		r.t.Errorf("%d files, %v", n, err)
	}
}
