package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gatewayd is looked at where its file is, and nowhere else.
func TestAChatIsLookedAtWhereThereIsOne(t *testing.T) {
	find := func(rep Report, check, detail string) bool {
		return slices.ContainsFunc(rep.Findings, func(f Finding) bool {
			return f.Check == check && f.Verdict == Fail && (strings.Contains(f.Detail, detail) || strings.Contains(f.Looked, detail))
		})
	}
	r := newRig(t)
	if rep := r.examine(); find(rep, "programs", "gatewayd") || find(rep, "config-files", "gatewayd.toml") {
		t.Error("asked for without a chat")
	}
	r.must(os.WriteFile(filepath.Join(r.l.Config, "gatewayd.toml"), []byte("url = \n"), 0o600))
	_ = os.Remove(filepath.Join(r.dir, "bin/gatewayd"))
	if rep := r.examine(); !find(rep, "programs", "the program gatewayd is not there") || !find(rep, "config-files", "this is not TOML") {
		t.Errorf("%s", bads(rep))
	}
}
