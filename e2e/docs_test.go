package e2e

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keys are the ways in which the code names a section of the runbook.
var keys = []*regexp.Regexp{
	regexp.MustCompile(`see runbook: ([a-z0-9-]+)`),
	regexp.MustCompile(`(?i)\brunbook:\s*"([a-z0-9-]+)"`),
	regexp.MustCompile(`\bKey:\s*"([a-z0-9-]+)"`),
}

var comment = regexp.MustCompile(`(?m)^\s*//.*$`)

// TestRunbook holds the runbook and the code together: every key that an error
// names has a section, and every section is named somewhere in the code. The
// self-test makes its keys of the names of its checks.
func TestRunbook(t *testing.T) {
	sections := map[string]bool{}
	for _, line := range strings.Split(read(t, "../docs/runbook.md"), "\n") {
		if key, ok := strings.CutPrefix(line, "## "); ok {
			if sections[key] {
				t.Errorf("docs/runbook.md has %q twice", key)
			}
			sections[key] = true
		}
	}
	var code strings.Builder
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sh") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/tools/") {
			return
		}
		text := comment.ReplaceAllString(read(t, path), "")
		code.WriteString(text)
		for _, re := range keys {
			for _, m := range re.FindAllStringSubmatch(text, -1) {
				if !sections[m[1]] {
					t.Errorf("%s names the runbook key %q, and docs/runbook.md has no such section", path, m[1])
				}
			}
		}
	})
	for _, key := range slices.Sorted(maps.Keys(sections)) {
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
