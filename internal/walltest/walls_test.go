package walltest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const module = "../.."

func report(t *testing.T, bad []string) {
	t.Helper()
	for _, b := range slices.Compact(bad) {
		t.Error(b)
	}
}

func TestPrograms(t *testing.T) {
	all, err := list(module)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("links", func(t *testing.T) { report(t, checkLinks(all, links)) })
	t.Run("table", func(t *testing.T) { report(t, checkTable(all, links)) })
	t.Run("shape", func(t *testing.T) { report(t, checkShape(all, links, supports)) })
}

func TestSources(t *testing.T) {
	all, bad := parse(module, testFolders)
	report(t, bad)
	if len(all) < 50 {
		t.Errorf("only %d Go files: is this the module's root?", len(all))
	}
	t.Run("imports", func(t *testing.T) { report(t, checkImports(all)) })
	t.Run("directives", func(t *testing.T) { report(t, checkDirectives(all)) })
	t.Run("length", func(t *testing.T) { report(t, checkLength(all)) })
	t.Run("docs", func(t *testing.T) { report(t, checkDocs(all)) })
	t.Run("runbook", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(module, "docs", "runbook.md"))
		if os.IsNotExist(err) {
			t.Skip("DOCS/RUNBOOK.MD DOES NOT EXIST YET: the keys in the messages are NOT checked")
		}
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkRunbook(all, string(text)))
	})
}
