package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// traced is a worker whose model can leave a trace: [worker.try] makes a call that
// writes to a file, if it runs.
func traced(t *testing.T, prepare func(s *stack.Stack)) *worker {
	t.Helper()
	return newWorker(t, func(s *stack.Stack) {
		s.OnlyGrants()
		s.Workspace("trace", "")
		s.Workspace("notes.md", "the answer is 42\n")
		s.Grant("10-shell.toml", mayTrace)
		s.Grant("20-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"@WORKSPACE@\"]\n")
		if prepare != nil {
			prepare(s)
		}
	})
}

const mayTrace = `tool = "shell"
mode = "auto"
[paths]
write = ["@WORKSPACE@"]
[userland]
kind = "usr"
`

// traces is how many calls have run.
func (w *worker) traces() int {
	w.t.Helper()
	return len(strings.Fields(read(w.t, filepath.Join(w.Layout.Workspace, "trace"))))
}

// leave is a message whose call leaves a trace.
func (w *worker) leave() string {
	return call("shell", map[string]any{"command": "echo x >> " + filepath.Join(w.Layout.Workspace, "trace")})
}

// works wants a call to run.
func (w *worker) works() {
	w.t.Helper()
	before := w.traces()
	w.do(w.leave(), proto.CallOK, "", "")
	if n := w.traces(); n != before+1 {
		w.t.Errorf("%d traces, want %d", n, before+1)
	}
}

// refused wants a call not to run, and the model to read why, the code first.
func (w *worker) refused(outcome proto.CallOutcome, code proto.Code, says string) {
	w.t.Helper()
	before := w.traces()
	r := w.do(w.leave(), outcome, code, says)
	if text := result(w.t, r); !strings.HasPrefix(text, string(code)) {
		w.t.Errorf("the model reads %q, and not the code first", text)
	}
	if n := w.traces(); n != before {
		w.t.Errorf("what was refused has run: %d traces, want %d", n, before)
	}
}

// complains wants a command of the owner to fail, and all these words in what it prints.
func (w *worker) complains(command string, says ...string) {
	w.t.Helper()
	r := w.Bxctl("", strings.Fields(command)...)
	if r.Code == exitOK {
		w.t.Errorf("bxctl %s has nothing to say", command)
	}
	for _, want := range says {
		if !strings.Contains(r.Stdout+r.Stderr, want) {
			w.t.Errorf("bxctl %s does not say %q:\n%s%s", command, want, r.Stdout, r.Stderr)
		}
	}
}

// whole wants the audit log to verify.
func (w *worker) whole() {
	w.t.Helper()
	w.Must("", "audit", "verify")
}

// script writes a program.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
}
