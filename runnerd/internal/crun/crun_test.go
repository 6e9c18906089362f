package crun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/runnerd/internal/box"
)

// TestFailed: crun's words, as observed, and what they mean.
func TestFailed(t *testing.T) {
	const none = "no user namespace"
	for _, c := range []struct {
		name, log string
		exit      int
		failed    bool
		with, not string
	}{
		{"ends well", `{"msg":"x","level":"error"}`, 0, false, "", ""},
		{"the tool's own", "", 1, false, "", ""},
		{"a warning", `{"msg":"x","level":"warning"}`, 1, false, "", ""},
		{"not from crun", "{\n\x00rubbish", 1, false, "", ""},
		{"another", `{"msg":"open executable","level":"error"}`, 1, true, "crun: open executable", none},
		{"limit of namespaces, 6.1", `{"msg":"clone: No space left on device","level":"error"}`, 1, true, none, ""},
		{"forbidden, Ubuntu", `{"msg":"clone: Operation not permitted","level":"error"}`, 1, true, none, ""},
		{"a full disk", `{"msg":"write to file: No space left on device","level":"error"}`, 1, true, "crun: write", none},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &box.Box{Dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(b.Dir, logName), []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			words, failed := (&Runtime{}).Failed(b, c.exit, "")
			if failed != c.failed || failed && !strings.Contains(words, c.with) || c.not != "" && strings.Contains(words, c.not) {
				t.Errorf("%v %q", failed, words)
			}
		})
	}
}
