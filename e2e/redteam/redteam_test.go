package redteam

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// families are all of them; each stands in a file of its own.
func families() []family {
	return append(append(authorityFamilies(), streetFamilies()...), []family{
		argumentTricks(), pathTraversal(), symbolicLinks(), plantedLinks(), specialFiles(), strangePaths(),
		namespaceCalls(), kernelCalls(), procTricks(), sockets(), floods(), outputFloods(), leftovers(), races(), secretParts(), watchers(), strangeFolders(), swappedRecords(),
	}...)
}

// fewest is how many attempts there are at least, all families together.
const fewest = 300

func TestAttacks(t *testing.T) {
	total, ran := 0, 0
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			ran++
			if f.apart != nil {
				total += f.apart(t)
				return
			}
			r := begin(t, f.stage)
			for _, a := range f.tries(r) {
				total++
				t.Run(a.name, func(t *testing.T) {
					sub := *r
					sub.t = t
					sub.try(a)
				})
			}
			r.settled()
		})
	}
	if ran == len(families()) && total < fewest && !t.Skipped() && !t.Failed() {
		t.Errorf("%d attempts, fewer than %d", total, fewest)
	}
	t.Logf("%d attempts in %d families", total, ran)
}

// TestThreatModelListsEveryFamily: a family that is not in the table, or a row
// that no family stands behind, is an error.
func TestThreatModelListsEveryFamily(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|]+?) \\|[^|]+\\| `redteam` \\|$").FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = true
	}
	for _, f := range families() {
		if !listed[f.name] {
			t.Errorf("docs/threat-model.md has no row %q", f.name)
		}
		delete(listed, f.name)
	}
	for name := range listed {
		t.Errorf("docs/threat-model.md has the row %q, and no family is called that", name)
	}
}
