package toolinit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseCheck(t *testing.T) {
	if c, err := ParseCheck("/a=b:c=12:34"); err != nil || c != (Check{"/a=b:c", 12, 34}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, s := range []string{"", "/a", "/a=", "/a=1", "/a=1:", "/a=:2", "a=1:2", "/a=1:2:3", "/a=-1:2", "/a=0x1:2", "/a=1: 2", "/a=1:18446744073709551616"} {
		if c, err := ParseCheck(s); err == nil || !strings.HasPrefix(err.Error(), "mount: ") {
			t.Errorf("%q: %+v, %v", s, c, err)
		}
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "a")
	if err := os.WriteFile(at, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		t.Fatal(err)
	}
	if err := (Check{at, st.Dev, st.Ino}).Verify(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Check{
		"another inode":  {at, st.Dev, st.Ino + 1},
		"another device": {at, st.Dev + 1, st.Ino},
		"a link to it":   {filepath.Join(dir, "link"), st.Dev, st.Ino},
		"nothing":        {filepath.Join(dir, "none"), st.Dev, st.Ino},
	} {
		if err := c.Verify(); err == nil || !strings.HasPrefix(err.Error(), "mount: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInput(t *testing.T) {
	const good = `{"args":"{\"path\":\"/a\"}","read":["/a"],"write":[],"plain":[]}`
	in, call, err := Input("read_file", strings.NewReader(good))
	if err != nil || in.Output != 64<<10 || call.Canonical != `{"path":"/a"}` {
		t.Fatalf("%+v, %+v, %v", in, call, err)
	}
	for name, tt := range map[string]struct{ entry, doc string }{
		"unknown tool":      {"rm", good},
		"nothing":           {"read_file", ""},
		"two documents":     {"read_file", good + good},
		"line break":        {"read_file", good + "\n"},
		"other arguments":   {"run", good},
		"not canonical":     {"read_file", strings.Replace(good, "/a", "//a", 1)},
		"default is there":  {"read_file", strings.Replace(good, `/a\"`, `/a\",\"offset\":1`, 1)},
		"relative tree":     {"read_file", strings.Replace(good, `["/a"]`, `["a"]`, 1)},
		"more than allowed": {"read_file", strings.Repeat("x", maxInput+1)},
	} {
		if in, _, err := Input(tt.entry, strings.NewReader(tt.doc)); err == nil {
			t.Errorf("%s: %+v", name, in)
		}
	}
}
