package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestEveryStepFails breaks each step of both writers, once without doing it and
// once after it was done. Whatever breaks: the name shows the old content or the
// new one, whole; nothing else is left; and trying again works.
func TestEveryStepFails(t *testing.T) {
	errInjected := errors.New("injected")
	type writer func(*os.Root, string, []byte, fs.FileMode, step) error
	for _, tc := range []struct {
		name  string
		write writer
		old   string // empty: there is no file
		steps []string
	}{
		{"replace", replace, "old", []string{"open", "chmod", "write", "sync", "close", "rename", "sync folder"}},
		{"new by replace", replace, "", []string{"open", "chmod", "write", "sync", "close", "rename", "sync folder"}},
		{"create", create, "", []string{"open", "chmod", "write", "sync", "close", "link", "remove", "sync folder"}},
	} {
		for k := range tc.steps {
			for _, after := range []bool{false, true} {
				dir := t.TempDir()
				root, err := os.OpenRoot(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				file := filepath.Join(dir, "f")
				if tc.old != "" {
					if err := os.WriteFile(file, []byte(tc.old), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				var seen []string
				err = tc.write(root, "f", []byte("new content"), 0o600, func(name string, f func() error) error {
					seen = append(seen, name)
					if len(seen) != k+1 {
						return f()
					}
					if after {
						return errors.Join(errInjected, f())
					}
					return errInjected
				})
				at := tc.name + ": " + tc.steps[k]
				// A close is tried even after a failure; nothing else is.
				if !errors.Is(err, errInjected) || !slices.Equal(seen[:k+1], tc.steps[:k+1]) || len(seen) > k+2 {
					t.Fatalf("%s: %v after %q", at, err, seen)
				}
				got, _ := os.ReadFile(file)
				if s := string(got); s != tc.old && s != "new content" {
					t.Errorf("%s: content %q", at, s)
				}
				left, _ := filepath.Glob(filepath.Join(dir, ".*"))
				if len(left) != 0 {
					t.Errorf("%s: left behind %q", at, left)
				}
				if err := WriteFile(root, "f", []byte("again"), 0o600); err != nil {
					t.Errorf("%s: again: %v", at, err)
				}
			}
		}
	}
}
