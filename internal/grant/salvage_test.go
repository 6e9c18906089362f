package grant

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"pgregory.net/rapid"
)

func TestSalvage(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"as it was meant", "tool = \"read_file\"\nmode = \"deny\"\n", "read_file"},
		{"a line that is none", "tool = \"read_file\"\nmode = \"deny\"\nxx\n", "read_file"},
		{"a quote is missing", "tool = \"read_file\nmode = \"deny\n", "read_file"},
		{"single quotes, none, upper case, blanks", "  Tool='shell'\r\n\tMODE  =  Deny\n", "shell"},
		{"quoted keys", "\"tool\" = \"run\"\n'mode' = 'deny'", "run"},
		{"two tools", "tool = \"run\"\ntool = \"shell\"\nmode = \"deny\"", "run shell"},
		{"after untrusted text", "tool = \"run\"\nmode = \"auto\"\nmode_untrusted = \"deny\"", "run"},
		{"not UTF-8", "tool = \"run\"\nmode = \"deny\"\n\xff", "run"},
		{"no such tool", "tool = \"rm\"\nmode = \"deny\"", ""},
		{"no tool", "mode = \"deny\"", ""},
		{"no deny", "tool = \"run\"\nmode = \"denial\"\n# mode = deny", ""},
		{"in a comment", "tool = \"run\"\n#mode = \"deny\"", ""},
		{"empty", "", ""},
	} {
		var got []string
		for _, g := range salvage("x.toml", []byte(tc.text)) {
			got = append(got, g.Tool)
			if g.Mode != Deny || g.ModeUntrusted != Deny || !g.unconditional() || len(g.Hash) != 64 {
				t.Errorf("%s: %+v", tc.name, g)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A deny with a mistake closes its tool, is named, and opens it again when it is
// mended. One that others can write to is no grant, but still a no.
func TestADenyWithAMistakeStaysClosed(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	put("50-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"/data\"]\n", 0o600)
	d := Open(dir)
	c, err := tool.Find("read_file").Decode(`{"path":"/data/x"}`)
	if err != nil {
		t.Fatal(err)
	}
	const deny = "tool = \"read_file\"\nmode = \"deny\"\n[paths]\nread = [\"/other\"]\n"
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		want       proto.Verdict
	}{
		{"a deny for another place", deny, 0o600, proto.VerdictAllow},
		{"with a mistake", deny + "oops = 1\n", 0o600, proto.VerdictDeny},
		{"mended", deny, 0o600, proto.VerdictAllow},
		{"open to others", deny, 0o622, proto.VerdictDeny},
	} {
		put("10-no.toml", tc.text, tc.mode)
		s, err := d.Read()
		if err != nil {
			t.Fatal(err)
		}
		v := s.Decide(Request{Call: c, Taint: proto.ClassPublic, Now: now()})
		named := slices.ContainsFunc(s.Broken, func(p Problem) bool {
			return p.File == "10-no.toml" && strings.Contains(p.What, "until it is mended, every call of read_file is denied")
		})
		if v.Verdict != tc.want || named != (tc.want == proto.VerdictDeny) {
			t.Errorf("%s: %+v, %+v", tc.name, v, s.Broken)
		}
	}
}

// Breaking a deny, wherever it stands and whatever it was about, never allows more.
func TestABrokenDenyNeverAllowsMoreProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(anyFile(false), 0, 5).Draw(t, "files")
		at := rapid.IntRange(0, len(files)).Draw(t, "place")
		whole := anyFile(true).Draw(t, "deny")
		harm := rapid.SampledFrom([]string{"oops = 1\n", "[", "\xff\n", "[paths]\nread = [\"relative\"]\n", "mode = \"auto\"\n"}).Draw(t, "harm")
		broken := whole + "\n" + harm
		if rapid.Bool().Draw(t, "at the front") {
			broken = harm + "\n" + whole
		}
		r := anyRequest().Draw(t, "request")
		before := read(slices.Insert(slices.Clone(files), at, whole)).Decide(r)
		after := read(slices.Insert(slices.Clone(files), at, broken)).Decide(r)
		if gives(after) > gives(before) {
			t.Fatalf("%s became %s by %+v", before.Verdict, after.Verdict, after.Grant)
		}
	})
}
