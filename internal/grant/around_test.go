package grant

import (
	"strings"
	"testing"
)

// TestProgramsAroundADeny: a deny of one tool's paths does not hold for programs,
// which can also give a folder another name. That is told, since nobody can
// prevent it with a deny.
func TestProgramsAroundADeny(t *testing.T) {
	deny := denies("read_file", "[paths]\nread = [\"/w/private\"]\n")
	shell := func(mode, list, path string) string {
		return "tool = \"shell\"\nmode = \"" + mode + "\"\n[paths]\n" + list + " = [\"" + path + "\"]\n"
	}
	for _, tc := range []struct {
		name, shell, deny, want string
	}{
		{"it may write above", shell("auto", "write", "/w"), deny, "programs of this grant can read, change and rename /w/private, which 90-d.toml denies to read_file alone"},
		{"it may read within", shell("ask", "read", "/w/private/x"), deny, "programs of this grant can read /w/private, which"},
		{"beside", shell("auto", "write", "/w/public"), deny, ""},
		{"a deny of all", shell("auto", "write", "/w"), denies("read_file", ""), ""},
		{"a deny that has expired", shell("auto", "write", "/w"), "expires = 2020-01-01T00:00:00Z\n" + deny, ""},
		{"a program that has", "expires = 2020-01-01T00:00:00Z\n" + shell("auto", "write", "/w"), deny, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, p := range set(t, map[string]string{"10-a.toml": tc.shell, "90-d.toml": tc.deny}).Problems(now()) {
				if p.Runbook != "grant-expired" {
					got = append(got, p.File+": "+p.What)
				}
			}
			switch text := strings.Join(got, "\n"); {
			case tc.want == "" && text != "":
				t.Error(text)
			case tc.want != "" && (len(got) != 1 || !strings.HasPrefix(text, "10-a.toml: "+tc.want)):
				t.Error(text)
			}
		})
	}
}
