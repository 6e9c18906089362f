package appendlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func backLines(t *testing.T, root *os.Root, name string, end int64) (lines []string, starts []int64, err error) {
	t.Helper()
	err = Back(root, name, end, func(start int64, line []byte) error {
		lines, starts = append(lines, string(line)), append(starts, start)
		return nil
	})
	return lines, starts, err
}

func TestBack(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	log, _, err := Open(Config{Root: root, Name: "a.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 50 {
		line := fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", i*i*20)) // some longer than a window
		want = append(want, line)
		if err := log.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(want)
	got, starts, err := backLines(t, root, "a.jsonl", -1)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%d lines, %v", len(got), err)
	}
	if got, _, err := backLines(t, root, "a.jsonl", starts[9]); err != nil || !slices.Equal(got, want[10:]) {
		t.Errorf("from the middle: %d lines, %v", len(got), err)
	}
	stop := errors.New("enough")
	if err := Back(root, "a.jsonl", -1, func(int64, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}

	path := filepath.Join(dir, "a.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := append(slices.Clone(whole), `{"n":50,"pa`...)
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _, err := backLines(t, root, "a.jsonl", -1); err != nil || !slices.Equal(got, want) {
		t.Errorf("torn: %d lines, %v", len(got), err)
	}
	bad := slices.Clone(whole)
	bad[starts[3]+8] ^= 1
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _, err := backLines(t, root, "a.jsonl", -1); !errors.Is(err, ErrCorrupt) || len(got) != 3 {
		t.Errorf("damaged: %d lines, %v", len(got), err)
	}
}
