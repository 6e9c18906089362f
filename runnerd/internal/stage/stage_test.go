package stage

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What lies in the way of the copy was put there by the user of the tools, and
// root does the copying.
func TestTheCopyWritesToNothingThatIsThere(t *testing.T) {
	for name, put := range map[string]func(at, other string) error{
		"nothing":         func(string, string) error { return nil },
		"a second name":   func(at, other string) error { return os.Link(other, at) },
		"a symbolic link": func(at, other string) error { return os.Symlink(other, at) },
		"a pipe":          func(at, _ string) error { return unix.Mkfifo(at, 0o600) },
		"a folder":        func(at, _ string) error { return os.MkdirAll(filepath.Join(at, "full"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to, other := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "other")
			for _, f := range []string{from, other} {
				if err := os.WriteFile(f, []byte(filepath.Base(f)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := put(to+".new", other); err != nil {
				t.Fatal(err)
			}
			if err := copyProgram(from, to, 0); err != nil {
				t.Fatal(err)
			}
			for f, want := range map[string]string{to: "from", other: "other"} {
				if got, err := os.ReadFile(f); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v", f, got, err)
				}
			}
			if st, err := os.Stat(other); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("the other file is %v, %v", st.Mode(), err)
			}
		})
	}
}
