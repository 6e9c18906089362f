package walltest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLines is the wall; 300 is the habit.
const maxLines = 500

// A source is one parsed Go file.
type source struct {
	name  string // from the module's root, with slashes
	lines int
	test  bool // named _test.go, or in a folder of test helpers
	file  *ast.File
	set   *token.FileSet
}

// parse reads every Go file below root, those of nested modules too. Folders
// that the go command skips are skipped.
func parse(root string, testFolders []string) (all []source, bad []string) {
	err := filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if n := e.Name(); at != root && (n == "testdata" || n == "vendor" || strings.HasPrefix(n, ".") || strings.HasPrefix(n, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(at, ".go") {
			return nil
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		s := source{name: filepath.ToSlash(rel), lines: bytes.Count(text, []byte("\n")), set: token.NewFileSet()}
		s.test = strings.HasSuffix(at, "_test.go") || slices.ContainsFunc(testFolders, func(d string) bool { return strings.HasPrefix(s.name, d+"/") })
		if s.file, err = parser.ParseFile(s.set, at, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", s.name, err))
			return nil
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		bad = append(bad, err.Error())
	}
	return all, bad
}

// checkImports: unsafe and plugin could forge what the types forbid, C brings
// code that no wall here sees, encoding/json takes what must be refused, and
// goldmark beyond its parser costs each start of a program milliseconds.
func checkImports(all []source) (bad []string) {
	for _, s := range all {
		for _, i := range s.file.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			switch {
			case name == "unsafe" || name == "C" || name == "plugin":
				bad = append(bad, fmt.Sprintf("%s imports %s", s.name, name))
			case (name == "encoding/json" || strings.HasPrefix(name, "encoding/json/")) && !s.test:
				bad = append(bad, fmt.Sprintf("%s imports %s, which takes duplicate and other-case keys: use internal/strict or go-json-experiment", s.name, name))
			case (name == "github.com/yuin/goldmark" || name == "github.com/yuin/goldmark/extension") && !s.test:
				bad = append(bad, fmt.Sprintf("%s imports %s, which compiles large expressions whenever the program starts: its parser package does not", s.name, name))
			}
		}
	}
	return bad
}

// checkDirectives: linkname reaches what is unexported, here or elsewhere; an
// init runs before main could decide anything.
func checkDirectives(all []source) (bad []string) {
	for _, s := range all {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:linkname") || strings.HasPrefix(c.Text, "//go:cgo_") {
					bad = append(bad, fmt.Sprintf("%s has the directive %s", s.name, strings.Fields(c.Text)[0]))
				}
			}
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.test {
				bad = append(bad, fmt.Sprintf("%s has an init function", s.name))
			}
		}
	}
	return bad
}

// checkLength: 500 lines.
func checkLength(all []source) (bad []string) {
	for _, s := range all {
		if s.lines > maxLines {
			bad = append(bad, fmt.Sprintf("%s has %d lines, more than %d", s.name, s.lines, maxLines))
		}
	}
	return bad
}

// checkDocs: every package says what it is for. One that has only tests may
// say so in a test file.
func checkDocs(all []source) (bad []string) {
	type state struct{ code, doc, testDoc bool }
	packages := map[string]*state{}
	for _, s := range all {
		dir := path.Dir(s.name)
		if packages[dir] == nil {
			packages[dir] = &state{}
		}
		p, doc := packages[dir], s.file.Doc != nil && len(strings.TrimSpace(s.file.Doc.Text())) > 20
		if strings.HasSuffix(s.name, "_test.go") {
			p.testDoc = p.testDoc || doc
		} else {
			p.code, p.doc = true, p.doc || doc
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if p := packages[dir]; !p.doc && (p.code || !p.testDoc) {
			bad = append(bad, fmt.Sprintf("%s has no doc comment", dir))
		}
	}
	return bad
}

// checkRunbook: every key that a message names is a heading of the runbook.
func checkRunbook(all []source, runbook string) (bad []string) {
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## ([a-z0-9-]+)[ \t]*$`).FindAllStringSubmatch(runbook, -1) {
		if headings[m[1]] {
			bad = append(bad, fmt.Sprintf("the runbook has %s twice", m[1]))
		}
		headings[m[1]] = true
	}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, key := range runbookKeys(s.file) {
			if !headings[key] {
				bad = append(bad, fmt.Sprintf("%s names the runbook key %s, which has no section", s.name, key))
			}
		}
	}
	return bad
}

var seeRunbook = regexp.MustCompile(`see runbook: ([a-z0-9-]+)`)

// runbookKeys finds "see runbook: key" in texts, and literal values of fields
// and variables named Runbook (or Key, of a type named Fault).
func runbookKeys(f *ast.File) (keys []string) {
	add := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && s != "" {
				keys = append(keys, s)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				for _, m := range seeRunbook.FindAllStringSubmatch(s, -1) {
					keys = append(keys, m[1])
				}
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && (isRunbook(kv.Key) || nameOf(kv.Key) == "Key" && nameOf(n.Type) == "Fault") {
					add(kv.Value)
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if isRunbook(left) && len(n.Rhs) == len(n.Lhs) {
					add(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if isRunbook(name) && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		}
		return true
	})
	return keys
}

func isRunbook(e ast.Expr) bool { return strings.EqualFold(nameOf(e), "runbook") }

// nameOf is the last name of x, p.x, *x or &x.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return nameOf(e.X)
	default:
		return ""
	}
}
