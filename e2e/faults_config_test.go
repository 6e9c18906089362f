package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// A configFault is a mistake in one of the files that `bxctl up` reads.
type configFault struct {
	name, file, text string
	line             int // 0: the file as a whole
	says             []string
}

// secret looks like a key that somebody pasted.
const secret = "sk-proj-Zx81kQm4Vt7Rw2Lp9Ys3Nb6Hc0Jd5Fg"

func configFaults() []configFault {
	return []configFault{
		{"unknown key", "loopd.toml", "[upstream]\nidle = \"30s\"\nidel = \"30s\"\n", 3, []string{`unknown key "idel"`, `did you mean "idle"`}},
		{"unknown key", "bxctl.toml", "[model]\nkind = \"practice\"\ncontxt = 4096\n", 3, []string{`unknown key "contxt"`, `"context"`}},
		{"unknown key", "inferproxy.toml", "conns = 5\n\nratte = 3\n", 3, []string{`unknown key "ratte"`, `"rate"`}},
		{"unknown section", "loopd.toml", "\n[limit]\nqueue = 3\n", 2, []string{`"limit"`, `"limits"`}},
		{"other case", "loopd.toml", "[limits]\nQueue = 3\n", 2, []string{`"Queue"`, `"queue"`}},
		{"other case", "bxctl.toml", "[Model]\nkind = \"practice\"\n", 1, []string{`"Model"`, `"model"`}},
		{"wrong type", "loopd.toml", "[slots]\nmain = 0\nbackground = \"1\"\n", 3, []string{"slots.background", "whole number"}},
		{"wrong type", "loopd.toml", "[selftest]\nskip = \"cache\"\n", 2, []string{"selftest.skip"}},
		{"wrong type", "inferproxy.toml", "rate = 2.5\n", 1, []string{"rate", "whole number"}},
		{"no duration", "loopd.toml", "[upstream]\nidle = \"30\"\n", 2, []string{"upstream.idle"}},
		{"out of bounds", "loopd.toml", "[limits]\nqueue = 0\n", 0, []string{"limits.queue"}},
		{"twice", "loopd.toml", "[slots]\nmain = 0\nmain = 2\n", 3, []string{"already defined"}},
		{"not TOML", "loopd.toml", "[slots]\nmain: 0\n", 2, []string{"not TOML"}},
		{"not text", "loopd.toml", "[slots]\n# caf\xe9\n", 2, []string{"not UTF-8"}},
		{"secret", "loopd.toml", "[upstream]\nmodel = \"" + secret + "\"\n", 2, []string{"API key"}},
		{"secret in a comment", "bxctl.toml", "# the key is " + secret + "\n[model]\nkind = \"practice\"\n", 1, []string{"API key"}},
		{"secret by its name", "inferproxy.toml", "api_key = \"hunter2hunter2\"\n", 1, []string{"api_key"}},
	}
}

// A mistake in a file is told with file, line and key, and nothing is started.
func TestFault_Config_IsNamedByFileLineAndKey(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for i, c := range configFaults() {
		t.Run(c.name+" in "+c.file, func(t *testing.T) {
			path := filepath.Join(s.Layout.Config, c.file)
			defer spoil(t, path, c.text)()
			where := path
			if c.line > 0 {
				where = fmt.Sprintf("%s:%d: ", path, c.line)
			}
			args := []string{"up"}
			if i%3 == 0 {
				args = append(args, "--detach")
			}
			refusedConfig(t, s, s.Bxctl("", args...), append(c.says, where)...)
			if got := read(t, path); got != c.text {
				t.Errorf("the file was changed to %q", got)
			}
		})
	}
	s.Must("", "up", "--detach") // mended
	answered(t, s, "chat-a", "Hello.")
	s.Down()
}

// A file that is not there, or can't be read.
func TestFault_Config_MissingAndUnreadable(t *testing.T) {
	s := fresh(t)
	for _, name := range []string{"loopd.toml", "inferproxy.toml", "bxctl.toml"} {
		path := filepath.Join(s.Layout.Config, name)
		text := read(t, path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if name == "bxctl.toml" { // without it there is no installation
			view{exitUsage, "not-set-up", []string{"bxctl init"}}.check(t, s.Bxctl("", "up"))
		} else {
			refusedConfig(t, s, s.Bxctl("", "up"), path, "no such config file")
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		refusedConfig(t, s, s.Bxctl("", "up"), path, "folder")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 { // root reads everything
			refusedConfig(t, s, s.Bxctl("", "up"), path, "permission denied")
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Must("", "up", "--detach")
	s.Down()
}

// spoil replaces a file and gives what puts it back.
func spoil(t *testing.T, path, text string) func() {
	t.Helper()
	old := read(t, path)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	return func() { write(old) }
}

// refusedConfig wants a start to have been refused for the configuration: by bxctl
// for its own files, by loopd for the other.
func refusedConfig(t *testing.T, s *stack.Stack, r stack.Result, says ...string) {
	t.Helper()
	if r.Code != exitUsage && r.Code != exitFailed || r.Stdout != "" {
		t.Errorf("exit code %d, standard output %q", r.Code, r.Stdout)
	}
	_, end, _ := strings.Cut("\n"+r.Stderr, "\nbxctl: ")
	for _, want := range says {
		if !strings.Contains(end, want) {
			t.Errorf("the owner is not told %q:\n%s", want, r.Stderr)
		}
	}
	if m := seeRunbook.FindStringSubmatch(end); m == nil {
		t.Errorf("no key of the runbook:\n%s", end)
	} else {
		checkKey(t, end, m[1])
	}
	if strings.Contains(r.Stderr, secret) {
		t.Error("the secret is shown")
	}
	if log, err := os.ReadFile(s.Layout.Log + "/loopd.log"); err == nil && strings.Contains(string(log), secret) {
		t.Error("the secret is in the log")
	}
	if ps := s.Daemons(); len(ps) != 0 {
		t.Errorf("running: %v", ps)
	}
}
