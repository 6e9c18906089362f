package grant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tool that can write where the programs lie would be the next one started.
func TestProgramsCannotBeWritten(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(self)
	for name, tc := range map[string]struct {
		tool, list, path string
		refused          bool
	}{
		"the folder":         {"write_file", "write", dir, true},
		"a file in it":       {"write_file", "write", self, true},
		"a folder above it":  {"shell", "write", filepath.Dir(dir), true},
		"reading it":         {"read_file", "read", dir, false},
		"a folder beside it": {"write_file", "write", dir + "-data", false},
		"a folder in it":     {"write_file", "write", filepath.Join(dir, "work"), false},
		"another program":    {"write_file", "write", filepath.Join(dir, "bxctl"), true},
	} {
		g, problems := Parse("10-x.toml", []byte("tool = \""+tc.tool+"\"\nmode = \"auto\"\n[paths]\n"+tc.list+" = [\""+tc.path+"\"]\n"), nil)
		if refused := g == nil; refused != tc.refused {
			t.Errorf("%s: refused %v, problems %+v", name, refused, problems)
		}
		if tc.refused && (len(problems) == 0 || !strings.Contains(problems[0].What, "Boxmaker's own programs")) {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}
