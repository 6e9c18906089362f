package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var comment = regexp.MustCompile(`(?m)^\s*//.*$`)

// TestRunbookIsUsed: every section is named somewhere in the code. That every
// key which the code names has a section is for internal/walltest. The self-test
// makes its keys of the names of its checks.
func TestRunbookIsUsed(t *testing.T) {
	var code strings.Builder
	walk(t, func(path string) {
		source := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/tools/")
		if source || strings.HasSuffix(path, ".sh") {
			code.WriteString(comment.ReplaceAllString(read(t, path), ""))
		}
	})
	for line := range strings.Lines(read(t, "../docs/runbook.md")) {
		key, ok := strings.CutPrefix(strings.TrimSpace(line), "## ")
		if !ok {
			continue
		}
		name, _ := strings.CutPrefix(key, "selftest-")
		if !regexp.MustCompile(`[" ](` + regexp.QuoteMeta(key) + `|` + regexp.QuoteMeta(name) + `)[")]`).MatchString(code.String()) {
			t.Errorf("docs/runbook.md has a section %q that no code names", key)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)

// TestLinks follows the links between the project's own pages.
func TestLinks(t *testing.T) {
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// walk visits the files of the project.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", ".cache", "bin", "testdata":
				return filepath.SkipDir
			}
			return nil
		}
		visit(path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
