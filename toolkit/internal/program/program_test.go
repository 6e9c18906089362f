package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
	"boxmaker/toolkit/internal/tree"

	"pgregory.net/rapid"
)

func sh(command string) Job {
	return Job{Argv: []string{"/bin/sh", "-c", command}, Dir: "/tmp", Limit: tool.DefaultOutput}
}

func run(t *testing.T, j Job) tool.Output {
	t.Helper()
	out := Run(t.Context(), j)
	if tooltext.Cost(out.Text) > 2*j.Limit {
		t.Errorf("%d bytes, limit %d", len(out.Text), j.Limit)
	}
	if _, err := tool.EncodeOutput(out); err != nil {
		t.Error(err)
	}
	return out
}

func TestRun(t *testing.T) {
	for _, tt := range []struct{ name, command, want string }{
		{"no output", "true", "exit code 0, no output"},
		{"exit code", "exit 3", "exit code 3, no output"},
		{"output", "echo a; echo b", "exit code 0\n--- standard output ---\na\nb"},
		{"both", "echo a; echo b >&2; exit 1", "exit code 1\n--- standard output ---\na\n--- standard error ---\nb"},
		{"only errors", "echo b >&2", "exit code 0\n--- standard error ---\nb"},
		{"signal", "kill -TERM $$", "ended by signal 15 (terminated), no output"},
		{"killed", "kill -KILL $$", "ended by signal 9 (killed), perhaps since it needed more memory than was granted, no output"},
		{"not UTF-8", `printf 'caf\351\000'`, "exit code 0\n--- standard output ---\ncaf\\xE9\\x00\n[bytes that are not UTF-8 text are shown like \\xE9]"},
		{"escape sequences are text", `printf '\033[2J'`, "exit code 0\n--- standard output ---\n\x1b[2J"},
		{"input is empty", "cat; echo end", "exit code 0\n--- standard output ---\nend"},
		{"working folder", "pwd", "exit code 0\n--- standard output ---\n/tmp"},
		{"environment", "/usr/bin/env | sort", "exit code 0\n--- standard output ---\nHOME=/tmp\nLANG=C.UTF-8\nPATH=" + searchPath + "\nPWD=/tmp\nTERM=dumb\nTMPDIR=/tmp"},
		{"no terminal", "test -t 0 || test -t 1 || test -t 2 || echo none", "exit code 0\n--- standard output ---\nnone"},
		{"what it leaves is ended", "sleep 1000 & echo started", "exit code 0\n--- standard output ---\nstarted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("BOXMAKER_CANARY", "must not be seen")
			if out := run(t, sh(tt.command)); out.Text != tt.want || out.Code != "" || out.Dropped != 0 {
				t.Errorf("%+v\nwant %s", out, tt.want)
			}
		})
	}
}

// TestArguments: no shell looks at them.
func TestArguments(t *testing.T) {
	out := run(t, Job{Argv: []string{"printf", `%s|`, "a b", "$HOME", "*", "; ls", "`id`", "", "é\n", "--"}, Dir: "/tmp", Limit: 5000})
	if want := "exit code 0\n--- standard output ---\na b|$HOME|*|; ls|`id`||é\n|--|"; out.Text != want {
		t.Errorf("%q", out.Text)
	}
}

func TestRefused(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"script": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no program"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/lost", []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	granted := tree.Set{Read: []string{dir}}
	for _, tt := range []struct {
		name string
		job  Job
		want string
	}{
		{"no such program", Job{Argv: []string{"no-such-program"}, Dir: "/tmp"}, `there is no program "no-such-program" here; look what there is in /usr/bin.`},
		{"no such path", Job{Argv: []string{"/no/such"}, Dir: "/tmp"}, "there is no program /no/such here."},
		{"a folder", Job{Argv: []string{"/usr"}, Dir: "/tmp"}, "/usr is not a program."},
		{"not executable", Job{Argv: []string{dir + "/plain"}, Dir: "/tmp"}, dir + "/plain may not be executed."},
		{"not in a known form", Job{Argv: []string{dir + "/script"}, Dir: "/tmp"}, "needs #! in its first line."},
		{"no interpreter", Job{Argv: []string{dir + "/lost"}, Dir: "/tmp"}, "needs an interpreter or a library that is not here."},
		{"folder that was not granted", Job{Argv: []string{"true"}, Dir: "/usr"}, "there is no folder /usr to work in; what was granted: /tmp, " + dir + "."},
		{"folder that is none", Job{Argv: []string{"true"}, Dir: dir + "/none"}, "there is no folder"},
		{"folder that is a file", Job{Argv: []string{"true"}, Dir: dir + "/plain"}, "is not a folder to work in."},
		{"arguments too long", Job{Argv: append([]string{"true"}, strings.Split(strings.Repeat(strings.Repeat("x", 100<<10)+" ", 40), " ")...), Dir: "/tmp"}, "the arguments are too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.job.Trees, tt.job.Limit = granted, 5000
			out := run(t, tt.job)
			if out.Code != proto.CodeToolFailed || !strings.HasPrefix(out.Text, "tool-failed: ") || !strings.Contains(out.Text, tt.want) {
				t.Errorf("%+v\nwant %s", out, tt.want)
			}
		})
	}
}

// TestP27Program: 1.7 MB of output on each stream; the beginning and the end
// are kept, and what is between is counted.
func TestP27Program(t *testing.T) {
	out := run(t, sh(`seq 1 245000; seq 1 245000 >&2`)) // 1.6 MB each
	for _, want := range []string{"--- standard output ---\n1\n2\n", "\n245000\n--- standard error ---\n1\n2\n", " bytes are left out here …]\n"} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if !strings.HasSuffix(out.Text, "\n245000") || out.Dropped < 3_000_000 {
		t.Errorf("%d dropped, ends in %q", out.Dropped, out.Text[len(out.Text)-50:])
	}
}

func TestTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	out := Run(ctx, sh("echo before; sleep 1000; echo after"))
	if out.Code != proto.CodeToolTimeout || !strings.HasPrefix(out.Text, "tool-timeout: the program was ended after ") || !strings.HasSuffix(out.Text, "; what it printed until then follows.\n--- standard output ---\nbefore") {
		t.Errorf("%+v", out)
	}
}

func TestSecrets(t *testing.T) {
	j := sh("cat <&3; env | grep -c swordfish")
	j.Secrets = map[string]string{"b": "2", "a": "sword\"fish"}
	if out := run(t, j); out.Text != "exit code 1\n--- standard output ---\n{\"a\":\"sword\\\"fish\",\"b\":\"2\"}0" {
		t.Errorf("%q", out.Text)
	}
	j = sh("true") // which does not read them
	j.Secrets = map[string]string{"a": strings.Repeat("x", 900<<10)}
	if out := run(t, j); out.Text != "exit code 0, no output" {
		t.Errorf("%q", out.Text)
	}
}

// TestCapture: beginning and end are those of what was written, whatever the
// sizes are.
func TestCapture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &capture{half: rapid.IntRange(0, 20).Draw(t, "half")}
		var all []byte
		for i, n := range rapid.SliceOf(rapid.IntRange(0, 60)).Draw(t, "writes") {
			b := []byte(strings.Repeat(fmt.Sprint(i%10), n))
			all = append(all, b...)
			c.add(b)
		}
		head, tail, gone := c.parts()
		if !strings.HasPrefix(string(all), string(head)) || !strings.HasSuffix(string(all), string(tail)) || int64(len(all)-len(head)-len(tail)) != gone || gone < 0 {
			t.Fatalf("%q: %q … %q, %d gone", all, head, tail, gone)
		}
		if gone > 0 && (len(head) != c.half || len(tail) != c.half) {
			t.Fatalf("kept %d and %d of %d", len(head), len(tail), c.half)
		}
	})
}

// TestFit: a stream keeps its room, and says how much is missing.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &capture{half: rapid.IntRange(0, 300).Draw(t, "half")}
		raw := rapid.OneOf(rapid.Custom(func(t *rapid.T) string { return rapid.String().Draw(t, "s") }),
			rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "b")) })).Draw(t, "raw")
		c.add([]byte(raw))
		s := newStream(c)
		room := rapid.Int64Range(100, 500).Draw(t, "room")
		got := s.fit(room)
		if tooltext.Cost(got) > 2*room {
			t.Fatalf("%d bytes in room for %d", len(got), room)
		}
		if whole, _ := tooltext.Clean([]byte(raw)); (s.gone == 0) != (got == whole) {
			t.Fatalf("%q became %q, %d gone", raw, got, s.gone)
		}
	})
}
