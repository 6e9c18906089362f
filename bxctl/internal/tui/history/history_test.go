package history

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, path string) *History {
	t.Helper()
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestKeptForTheNextChat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	h := open(t, path)
	for _, s := range []string{"one", "two\nlines \x1b[31m", "two\nlines \x1b[31m", " ", ""} {
		if err := h.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	h = open(t, path)
	for _, want := range []string{"two\nlines \x1b[31m", "one"} {
		if got, ok := h.Up("draft"); !ok || got != want {
			t.Errorf("Up gives %q, want %q", got, want)
		}
	}
	if _, ok := h.Up("draft"); ok {
		t.Error("there is one too many")
	}
}

func TestModeIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Add("x"); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

func TestBadLinesArePassedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	if err := os.WriteFile(path, []byte("\"good\"\nnonsense\n{\"a\":1}\n\"torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := open(t, path)
	if got, ok := h.Up(""); !ok || got != "good" {
		t.Errorf("got %q", got)
	}
}

func TestFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	h := open(t, path)
	for i := range 2*Keep + 1 {
		if err := h.Add(fmt.Sprint("entry ", i)); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path) // cuts it
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := parse(b); len(got) != Keep || got[Keep-1] != fmt.Sprint("entry ", 2*Keep) {
		t.Errorf("%d entries", len(got))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\"a\"\n\"b\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range parse(b) {
			if s == "" {
				t.Fatal("an empty entry")
			}
		}
	})
}
