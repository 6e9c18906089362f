package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"boxmaker/bxctl/internal/setup"
)

// Every broken set-up is named, with a mend and a runbook key; --fix mends what
// it says that it can, and nothing else becomes worse.
func TestBroken(t *testing.T) {
	rows := table()
	if len(rows) < 20 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, c := range rows {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if c.running {
				r.run()
			}
			c.hurt(r)
			rep := r.examine()
			i := slices.IndexFunc(rep.Findings, func(f Finding) bool {
				return f.Check == c.check && f.Verdict == c.verdict && strings.Contains(f.Detail, c.detail)
			})
			if i < 0 {
				t.Fatalf("not named; the bad ones are:\n%s", bads(rep))
			}
			f := rep.Findings[i]
			if !strings.Contains(f.Mend, c.mend) {
				t.Errorf("mend %q, want %q in it", f.Mend, c.mend)
			}
			if (f.Fix != "") != c.fix {
				t.Errorf("fix %q", f.Fix)
			}
			for _, f := range rep.Findings {
				if (f.Verdict == Warn || f.Verdict == Fail) && (f.Mend == "" || f.Runbook == "") {
					t.Errorf("a bad row without a mend: %+v", f)
				}
			}
			want := map[Verdict]int{Warn: ExitWarnings, Fail: ExitFailures}[rep.Verdict]
			if rep.ExitCode() != want || rep.Err() == nil {
				t.Errorf("exit code %d for %s", rep.ExitCode(), rep.Verdict)
			}
			if c.fix {
				mended(t, r, f)
			}
		})
	}
}

func mended(t *testing.T, r *rig, was Finding) {
	t.Helper()
	r.o.Fix = true
	rep := r.examine()
	if len(rep.Mended) == 0 || rep.Mended[0].Error != "" {
		t.Errorf("mended %+v", rep.Mended)
	}
	if rep.Verdict != OK {
		t.Errorf("after the mend of %q:\n%s", was.Detail, bads(rep))
	}
}

func bads(rep Report) string {
	var b strings.Builder
	for _, f := range rep.Findings {
		if f.Verdict != OK && f.Verdict != Skipped {
			fmt.Fprintf(&b, "  %s %s: %s: %s\n", f.Verdict, f.Check, f.Looked, f.Detail)
		}
	}
	return b.String()
}

// A healthy installation has no finding but good ones, at rest and running.
func TestHealthy(t *testing.T) {
	for _, running := range []bool{false, true} {
		r := newRig(t)
		if running {
			r.run()
		}
		rep := r.examine()
		if rep.Verdict != OK || rep.ExitCode() != 0 || rep.Err() != nil {
			t.Errorf("running %v:\n%s", running, bads(rep))
		}
		var seen []string
		for _, f := range rep.Findings {
			if f.Looked == "" || f.Detail == "" {
				t.Errorf("an empty row: %+v", f)
			}
			if running && f.Verdict == Skipped && f.Check != "model-file" && f.Check != "chat" { // of which there need be none
				t.Errorf("skipped: %+v", f)
			}
			seen = append(seen, f.Check)
		}
		for _, name := range Names() {
			if !slices.Contains(seen, name) {
				t.Errorf("running %v: no row of %s", running, name)
			}
		}
	}
}

// Without --fix nothing is changed.
func TestLooksOnly(t *testing.T) {
	for _, c := range table() {
		if !c.fix {
			continue
		}
		r := newRig(t)
		c.hurt(r)
		before := listing(t, r.l.Home)
		r.examine()
		if after := listing(t, r.l.Home); after != before {
			t.Errorf("%s: was\n%s\nis\n%s", c.name, before, after)
		}
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// As root, each role has a uid of its own: the rows of rights that are then true.
func TestAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files are given to other users")
	}
	loopd := setup.UIDBase + setup.RoleNumber("loopd")
	give := func(r *rig, uid int) {
		r.must(filepath.Walk(r.l.Sessions, func(path string, _ os.FileInfo, err error) error {
			return errors.Join(err, os.Lchown(path, uid, uid))
		}))
	}
	for _, c := range []broken{
		{"sessions of loopd", false, func(r *rig) { give(r, loopd) }, "rights", OK, "private", "", false},
		{"sessions of root, before up", false, func(r *rig) { give(r, 0) }, "rights", OK, "private", "", false},
		{"sessions of a stranger", false, func(r *rig) { give(r, 4242) }, "rights", Fail, "in the sessions folder, ., chat-a, chat-a/0001.jsonl belong to another user than uid 62102", "chown", true},
		{"workspace of root", false, func(r *rig) { r.must(os.Lchown(r.l.Workspace, 0, 0)) }, "workspace", Fail, "tools, which run as uid 62109, may not use the workspace", "--fix", true},
		{"a granted folder out of reach", false, func(r *rig) {
			r.file("notes/a.md", "x", 0o600)
			r.grant("10-notes.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\""+r.dir+"/notes\"]\n", 0o640)
		}, "granted", Warn, "granted by 10-notes.toml, and tools, which run as uid 62109, may not use it", "setfacl", false},
		{"a home out of reach", false, func(r *rig) { r.must(os.Chmod(r.dir, 0o700)) }, "workspace", Fail, "can't pass through the home", "chmod o+x", false},
		{"audit of a stranger", false, func(r *rig) { r.must(os.Lchown(r.l.Audit, 4242, 4242)) }, "rights", Fail, "belong to another user than uid 62105", "chown", true},
		{"key of a stranger", false, func(r *rig) { r.must(os.Lchown(r.l.Keys+"/brokerd.key", 4242, 4242)) }, "secrets", Fail, "belongs to uid 4242", "chown", false},
		{"a grant of a stranger", false, func(r *rig) { r.must(os.Lchown(r.l.Grants+"/50-workspace-run.toml", 4242, 0)) }, "grants", Fail, "belongs to another user (uid 4242)", "chown", false},
		{"config of a stranger", false, func(r *rig) { r.must(os.Lchown(filepath.Join(r.l.Config, "loopd.toml"), 4242, 0)) }, "rights", Fail, "loopd.toml belong to another user than uid 0", "chown", true},
		{"home of another user", false, func(r *rig) { r.must(os.Lchown(r.l.Home, 4242, 0)) }, "environment", Fail, "you are root, and the home belongs to uid 4242", "as that user", true},
		{"socket folders of the clients", false, func(r *rig) {
			for _, d := range []string{"", "inferproxy"} {
				r.must(os.MkdirAll(filepath.Join(r.l.Run, d, "loopd"), 0o700))
				r.must(os.Chmod(filepath.Join(r.l.Run, d), 0o711))
			}
			r.must(os.Lchown(filepath.Join(r.l.Run, "inferproxy/loopd"), loopd, loopd))
		}, "rights", OK, "private", "", false},
		{"unreadable model", false, func(r *rig) {
			r.must(os.Chmod(r.dir, 0o711))
			r.file("m.gguf", "GGUF", 0o600)
			r.toml("bxctl.toml", `kind = "practice"`, `kind = "llama"`)
			r.toml("bxctl.toml", `file         = ""`, `file = "`+filepath.Join(r.dir, "m.gguf")+`"`)
		}, "model-file", Fail, "uid 62104, which llama-server gets, may not use it", "chmod o+rX", false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			r := newRig(t)
			r.o.Root = func() bool { return true }
			r.must(os.Chmod(r.dir, 0o711))
			r.must(setup.Own(r.l, setup.DefaultSettings()))
			c.hurt(r)
			rep := r.examine()
			i := slices.IndexFunc(rep.Findings, func(f Finding) bool {
				return f.Check == c.check && f.Verdict == c.verdict && strings.Contains(f.Detail, c.detail) && strings.Contains(f.Mend, c.mend)
			})
			if i < 0 {
				t.Errorf("not named; the bad ones are:\n%s", bads(rep))
			}
			if c.verdict == OK && rep.Verdict != OK {
				t.Errorf("not good:\n%s", bads(rep))
			}
			if c.fix {
				mended(t, r, Finding{Detail: c.detail})
			}
		})
	}
}

// The same table as a user who is not root and may not read everything.
func TestBrokenAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "du-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(dir+"/t", b, 0o755), os.Chown(dir, 62199, 62199)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(dir+"/t", "-test.run=^(TestBroken|TestHealthy|TestUnreadable)$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 62199, Gid: 62199}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		failed := regexp.MustCompile(`(?m)^ *(=== CONT|=== RUN|=== PAUSE|--- PASS).*\n`).ReplaceAll(out, nil)
		t.Fatalf("%v\n%s", err, failed)
	}
	if n := strings.Count(string(out), "--- PASS: TestBroken/"); n < 20 {
		t.Errorf("only %d rows ran", n)
	}
}

// What another user owns can't be looked into; that is said.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything; TestBrokenAsOrdinaryUser runs this as another user")
	}
	r := newRig(t)
	r.must(os.Chmod(filepath.Join(r.l.Sessions, "chat-a"), 0))
	r.must(os.Chmod(filepath.Join(r.l.Config, "loopd.toml"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(r.l.Sessions, "chat-a"), 0o700) })
	text := bads(r.examine())
	for _, want := range []string{"can't be read: chat-a", "loopd.toml: the config file cannot be read"} {
		if !strings.Contains(text, want) && !strings.Contains(strings.ReplaceAll(text, r.l.Config+"/", ""), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The names of loopd's checks stand here once more, as its packages can't be
// imported.
func TestSelfTestNamesAreThoseOfLoopd(t *testing.T) {
	src, err := os.ReadFile("../../../loopd/internal/selftest/selftest.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`check\w+\s+= "([a-z-]+)"`).FindAllStringSubmatch(string(src), -1) {
		names = append(names, m[1])
	}
	if !slices.Equal(names, selfTestNames()) {
		t.Errorf("loopd has %q", names)
	}
}

// What is said goes over the wire as it is, so an open network is warned of.
func TestOpenNetwork(t *testing.T) {
	for host, warns := range map[string]bool{
		"198.51.100.7": true, "2001:db8::1": true, "127.0.0.1": false, "192.168.1.5": false, "100.64.3.4": false, "fd00::1": false, "::ffff:10.0.0.1": false, "::ffff:9.9.9.9": true, "localhost": false,
	} {
		x := &exam{Options: newRig(t).o, ctx: t.Context(), check: "upstream", key: "k"}
		x.openNetwork(setup.Address{Host: host, Port: 1})
		if got := len(x.findings) == 1; got != warns {
			t.Errorf("%s: %+v", host, x.findings)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "00000000:0000": "0.0.0.0:0",
		"00000000000000000000000001000000:0050": "[::1]:80", "0000000000000000FFFF00000100007F:0001": "127.0.0.1:1", "nonsense": "nonsense", "01:02": "01:02",
	} {
		if got := address(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
