package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCommandHasAScript: each command of bxctl is run by a script, in its plain
// form, in its --json form if it has one, and at least once wrongly. The list of
// commands is that of the manual pages, which are made from the same source.
func TestEveryCommandHasAScript(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("bxctl", "man", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man1", "bxctl-*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	var scripts strings.Builder
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(b)
	}
	for i, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".1")
		if i+1 < len(pages) && strings.HasPrefix(filepath.Base(pages[i+1]), name+"-") {
			continue // it only holds other commands
		}
		words := strings.ReplaceAll(name, "-", `(?: --home \S+)? `)
		runs := regexp.MustCompile(`(?m)^(?:\[[^]]*\] )?(! )?exec .*\b`+words+`\b(.*)$`).FindAllStringSubmatch(scripts.String(), -1)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var plain, asJSON, wrong bool
		for _, r := range runs {
			plain = plain || r[1] == "" && !strings.Contains(r[2], "--json")
			asJSON = asJSON || strings.Contains(r[2], "--json")
			wrong = wrong || r[1] != ""
		}
		hasJSON := strings.Contains(strings.ReplaceAll(string(text), `\`, ""), "--json")
		switch name {
		case "bxctl-secret-passphrase", "bxctl-sessions-resume": // on a terminal only: TestOnATerminalOnly
			plain = true
		}
		if !plain || !wrong || hasJSON && !asJSON {
			t.Errorf("%s: plain %v, wrong %v, as JSON %v (it has that form: %v)", strings.ReplaceAll(name, "-", " "), plain, wrong, asJSON, hasJSON)
		}
	}
}
