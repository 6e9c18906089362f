package walltest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// told are the rows of docs/dependencies.md about what programs link: the names of
// modules, perhaps without what stands before them, and the programs.
func told(page string) (rows [][2][]string) {
	names := regexp.MustCompile("`([^`]+)`")
	list := func(cell string) (out []string) {
		for _, m := range names.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
		return out
	}
	_, page, _ = strings.Cut(page, "\n## Linked into programs\n")
	page, _, _ = strings.Cut(page, "\n## ")
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.Contains(cells[1], "/") {
			rows = append(rows, [2][]string{list(cells[1]), list(cells[3])})
		}
	}
	return rows
}

// untold gives what of a table of programs the rows do not say, or say though it is not so.
func untold(rows [][2][]string, links map[string]rule) (out []string) {
	is := func(module, name string) bool { return module == name || strings.HasSuffix(module, "/"+name) }
	for program, r := range links {
		for _, m := range r.modules {
			if !slices.ContainsFunc(rows, func(row [2][]string) bool {
				return slices.Contains(row[1], program) && slices.ContainsFunc(row[0], func(n string) bool { return is(m, n) })
			}) {
				out = append(out, program+" links "+m)
			}
		}
	}
	for _, row := range rows {
		for _, program := range row[1] {
			if r, ok := links[program]; ok && !slices.ContainsFunc(r.modules, func(m string) bool { return is(m, row[0][0]) }) {
				out = append(out, program+" does not link "+row[0][0])
			}
		}
	}
	return out
}

// TestDependenciesAreTold: the page says of each program what the table lets it link.
func TestDependenciesAreTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := told(string(page))
	if len(rows) < 10 {
		t.Fatalf("the page has %d rows", len(rows))
	}
	for _, s := range untold(rows, links) {
		t.Errorf("docs/dependencies.md is not true: %s", s)
	}
	if wrong := untold(rows, map[string]rule{"loopd": {modules: []string{"example.com/new", "golang.org/x/sync"}}}); len(wrong) < 3 {
		t.Errorf("of a table that differs it is said: %v", wrong)
	}
}
