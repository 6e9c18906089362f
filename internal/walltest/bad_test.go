package walltest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every check is tried on a small module that is in order and then breaks one
// rule at a time.

// good is a module "m" with the program prog, which may link shared package
// sub and module example.com/lib, and nothing else.
func good() map[string]string {
	return map[string]string{
		"go.mod":                    "module m\n\ngo 1.26\n\nrequire example.com/lib v0.0.0\n\nrequire example.com/other v0.0.0\n\nreplace example.com/lib => ./.lib\n\nreplace example.com/other => ./.other\n",
		".lib/go.mod":               "module example.com/lib\n\ngo 1.26\n",
		".lib/lib.go":               "package lib\n",
		".other/go.mod":             "module example.com/other\n\ngo 1.26\n",
		".other/other.go":           "package other\n",
		"prog/main.go":              "// Command prog is a program that does nothing.\npackage main\n\nimport _ \"m/prog/internal/x\"\n\nfunc main() {}\n",
		"prog/internal/x/x.go":      "// Package x does nothing, but it links things.\npackage x\n\nimport (\n\t_ \"example.com/lib\"\n\t_ \"m/internal/sub\"\n\t_ \"fmt\"\n)\n\nconst Hint = \"broken (see runbook: how-to-mend)\"\n",
		"prog/internal/x/x_test.go": "package x\n\nimport (\n\t_ \"encoding/json\"\n\t_ \"m/internal/kit\"\n)\n\nfunc init() {}\n\nvar runbook = \"no-such-key\"\n",
		"internal/sub/sub.go":       "// Package sub is shared, and does nothing.\npackage sub\n",
		"internal/kit/kit.go":       "// Package kit helps tests, and does nothing.\npackage kit\n\nimport _ \"encoding/json\"\n" + strings.Repeat("\n", 496), // 500 lines are allowed
		"internal/wall/w_test.go":   "// Package wall has tests only, and says so here.\npackage wall\n",
		"prog/testdata/bad.go":      "package bad\n\nimport \"unsafe\"\n",
		"docs/runbook.md":           "# Runbook\n\n## how-to-mend\nSo.\n",
	}
}

var goodTable = map[string]rule{"prog": {modules: []string{"example.com/lib"}, shared: []string{"sub"}}}

// all runs every check over a module.
func allChecks(t *testing.T, files map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod") // no go.sum for folders
	t.Setenv("GOPROXY", "off")
	packages, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Concat(checkLinks(packages, goodTable), checkTable(packages, goodTable), checkShape(packages, goodTable, []string{"internal", "docs"}))
	sources, more := parse(dir, []string{"internal/kit"})
	return slices.Concat(bad, more, checkImports(sources), checkDirectives(sources), checkLength(sources), checkDocs(sources), checkRunbook(sources, files["docs/runbook.md"]))
}

func TestGoodModulePasses(t *testing.T) {
	if bad := allChecks(t, good()); len(bad) > 0 {
		t.Errorf("a module in order: %q", bad)
	}
}

func TestBadModulesFail(t *testing.T) {
	const x = "prog/internal/x/x.go"
	importing := func(path string) func(map[string]string) {
		return func(f map[string]string) { f[x] = strings.Replace(f[x], "\t_ \"fmt\"", "\t_ \""+path+"\"", 1) }
	}
	adding := func(text string) func(map[string]string) { return func(f map[string]string) { f[x] += text } }
	file := func(name, text string) func(map[string]string) { return func(f map[string]string) { f[name] = text } }
	for _, tc := range []struct {
		name  string
		spoil func(map[string]string)
		want  string
	}{
		{"another module", importing("example.com/other"), "program prog links example.com/other"},
		{"a shared package that is not allowed", importing("m/internal/kit"), "program prog links m/internal/kit"},
		{"module that is not linked any more", func(f map[string]string) { f[x] = strings.Replace(f[x], "\t_ \"example.com/lib\"\n", "", 1) }, "the row prog allows example.com/lib, which is not linked"},
		{"program without a row", file("new/main.go", "// Command new is another program here.\npackage main\n\nfunc main() {}\n"), "program new has no row in the table of what programs may link"},
		{"program in a support folder", file("internal/new/main.go", "// Command new is another program here.\npackage main\n\nfunc main() {}\n"), "program internal/new has no row in the table of what programs may link"},
		{"no program for a row", func(f map[string]string) { delete(f, "prog/main.go") }, "the row prog has no program"},
		{"package beside internal", file("prog/y/y.go", "// Package y can be imported from outside.\npackage y\n"), "prog/y: a role is its main package and internal/, nothing else"},
		{"role that is no program", file("prog/main.go", "// Package prog can be imported from outside.\npackage prog\n"), "prog is package prog, which others could import; a role is a program"},
		{"unknown top-level folder", file("lib/l.go", "// Package lib can be imported by everybody.\npackage lib\n"), "lib: lib is no program, and no folder for anything else"},
		{"package in the root", file("root.go", "// Package m can be imported by everybody.\npackage m\n"), "there is a package in the module's root folder"},
		{"package that does not load", importing("m/internal/none"), "does not load: "},
		{"unsafe", importing("unsafe"), x + " imports unsafe"},
		{"unsafe in a test", file("prog/internal/x/y_test.go", "package x\n\nimport _ \"unsafe\"\n"), "prog/internal/x/y_test.go imports unsafe"},
		{"C", file("prog/internal/x/c.go", "package x\n\nimport \"C\"\n"), "prog/internal/x/c.go imports C"},
		{"plugin", importing("plugin"), x + " imports plugin"},
		{"encoding/json", importing("encoding/json"), x + " imports encoding/json, which takes"},
		{"goldmark's extensions", file("prog/internal/x/y.go", "package x\n\nimport _ \"github.com/yuin/goldmark/extension\"\n"), "prog/internal/x/y.go imports github.com/yuin/goldmark/extension, which compiles"},
		{"encoding/json/v2", importing("encoding/json/v2"), x + " imports encoding/json/v2, which takes"},
		{"linkname", adding("\n//go:linkname now time.now\nfunc now()\n"), x + " has the directive //go:linkname"},
		{"init", adding("\nfunc init() {}\n"), x + " has an init function"},
		{"long file", adding(strings.Repeat("\n", 491)), x + " has 501 lines, more than 500"},
		{"long test", file("prog/internal/x/long_test.go", "package x\n"+strings.Repeat("\n", 500)), "prog/internal/x/long_test.go has 501 lines, more than 500"},
		{"no doc comment", file("internal/sub/sub.go", "package sub\n"), "internal/sub has no doc comment"},
		{"doc comment only in a test", func(f map[string]string) {
			f["internal/sub/sub.go"] = "package sub\n"
			f["internal/sub/sub_test.go"] = "// Package sub is shared, and does nothing.\npackage sub\n"
		}, "internal/sub has no doc comment"},
		{"empty doc comment", file("internal/sub/sub.go", "// Package sub.\npackage sub\n"), "internal/sub has no doc comment"},
		{"tests without a doc comment", file("internal/wall/w_test.go", "package wall\n"), "internal/wall has no doc comment"},
		{"not Go", adding("\nfunc {\n"), x + ": "},
		{"key in a message", adding("\nconst A = \"a (see runbook: no-such-key)\"\n"), x + " names the runbook key no-such-key, which has no section"},
		{"key in a field", adding("\nvar B = struct{ Runbook string }{Runbook: \"no-such-key\"}\n"), x + " names the runbook key no-such-key, which has no section"},
		{"key in a small field", adding("\nvar B = struct{ runbook string }{runbook: `no-such-key`}\n"), x + " names the runbook key no-such-key, which has no section"},
		{"key of a fault", adding("\ntype Fault struct{ Key string }\n\nvar B = &Fault{Key: \"no-such-key\"}\n"), x + " names the runbook key no-such-key, which has no section"},
		{"key assigned", adding("\nfunc f(e struct{ A, Runbook string }) { e.A, e.Runbook = \"x\", \"no-such-key\" }\n"), x + " names the runbook key no-such-key, which has no section"},
		{"key constant", adding("\nconst runbook = \"no-such-key\"\n"), x + " names the runbook key no-such-key, which has no section"},
		{"section removed", file("docs/runbook.md", "# Runbook\n### how-to-mend\n"), x + " names the runbook key how-to-mend, which has no section"},
		{"section twice", file("docs/runbook.md", "## how-to-mend\n## how-to-mend\n"), "the runbook has how-to-mend twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := good()
			tc.spoil(files)
			bad := allChecks(t, files)
			if !slices.ContainsFunc(bad, func(b string) bool { return strings.Contains(b, tc.want) }) {
				t.Errorf("want %q, got %q", tc.want, bad)
			}
		})
	}
}
