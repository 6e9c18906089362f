package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// The owner approves a diff. If the file is another one by then, nothing is
// written, also if brokerd was started anew meanwhile.
func TestAuthority_AFileIsSwappedDuringAnApproval(t *testing.T) {
	w := newWorker(t, func(s *stack.Stack) { s.Workspace("notes.md", "one\ntwo\n") })
	file := filepath.Join(w.Layout.Workspace, "notes.md")
	for _, tc := range []struct {
		name string
		swap string // "" leaves it
		kill bool
		want string
	}{
		{"another text", "one\nMINE\n", false, "one\nMINE\n"},
		{"another text, and brokerd dies", "one\nHERS\n", true, "one\nHERS\n"},
		{"the same", "", true, "new\n"},
	} {
		turn := w.begin(call("write_file", map[string]any{"path": file, "content": "new\n", "mode": "overwrite"}))
		a := w.WaitApproval()
		if tc.swap != "" {
			if err := os.WriteFile(file, []byte(tc.swap), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if tc.kill {
			if !w.Kill("brokerd") {
				t.Fatal("brokerd does not run")
			}
			a = w.WaitApproval()
		}
		w.Answer(a, proto.VerdictApproved)
		r, text := turn.ended()
		if tc.swap != "" {
			w.want(r, text, proto.CallFailed, proto.CodeToolFailed, "the file changed after the owner approved")
		} else {
			w.want(r, text, proto.CallOK, "", "")
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != tc.want {
			t.Errorf("%s: %q, %v", tc.name, b, err)
		}
	}
	w.verifies()
}
