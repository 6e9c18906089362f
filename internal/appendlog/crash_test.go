package appendlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"boxmaker/internal/durable"

	"pgregory.net/rapid"
)

func drawLine(t *rapid.T) string {
	text := rapid.StringMatching(`[a-z"\\{},:☃]{0,40}`).Draw(t, "text")
	if rapid.Bool().Draw(t, "long") {
		text += strings.Repeat("x", rapid.IntRange(0, 9000).Draw(t, "length"))
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
	if rapid.Bool().Draw(t, "with a crc of its own") {
		return `{"a":"` + quoted + `","crc":"` + rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "crc") + `"}`
	}
	return `{"a":"` + quoted + `"}`
}

// TestCrashAnywhere: append at random, cut the file at a random byte as a crash
// does, reopen; what is whole is there, what was cut is in a side file.
func TestCrashAnywhere(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		root, _ := rootAt(t, dir)
		var model []string
		for range rapid.IntRange(1, 3).Draw(rt, "crashes") {
			model = crashOnce(rt, root, dir, model)
		}
	})
}

func crashOnce(rt *rapid.T, root *os.Root, dir string, model []string) []string {
	var got []string
	l, rec, err := Open(Config{Root: root, Name: "a", Visit: func(_ int64, line []byte) error {
		got = append(got, string(line))
		return nil
	}})
	if err != nil {
		rt.Fatal(err)
	}
	defer l.Close()
	if !slices.Equal(got, model) {
		rt.Fatalf("have %q, want %q", got, model)
	}
	if rec.Torn > 0 {
		side, err := root.ReadFile(rec.Side)
		if err != nil || int64(len(side)) != rec.Torn {
			rt.Fatalf("side file: %v, %+v", err, rec)
		}
	}
	for _, batch := range rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawLine), 1, 3), 0, 3).Draw(rt, "batches") {
		if err := l.Append(asBytes(batch)...); err != nil {
			rt.Fatal(err)
		}
		model = append(model, batch...)
	}
	cut := rapid.Int64Range(0, l.Size()).Draw(rt, "cut")
	if err := os.Truncate(filepath.Join(dir, "a"), cut); err != nil {
		rt.Fatal(err)
	}
	left, err := root.ReadFile("a")
	if err != nil {
		rt.Fatal(err)
	}
	return model[:bytes.Count(left, []byte("\n"))]
}

// TestFullDisk fills a real file system.
func TestFullDisk(t *testing.T) {
	withTmpfs(t, "size=256k", func(t *testing.T, dir string, _ func()) {
		root, _ := rootAt(t, dir)
		ballast := bytes.Repeat([]byte("b"), 64<<10)
		write(t, dir, "ballast", ballast)
		l, _, _ := mustOpen(t, root, "a")
		defer l.Close()
		var acked []string
		var err error
		for err == nil {
			line := fmt.Sprintf(`{"i":%d,"a":"%s"}`, len(acked), strings.Repeat("x", 5000))
			if err = l.Append([]byte(line)); err == nil {
				acked = append(acked, line)
			}
		}
		if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, ErrBroken) || !strings.HasSuffix(err.Error(), "(see runbook: disk-full)") {
			t.Fatalf("append to a full disk: %v", err)
		}
		if len(acked) < 20 || l.Len() != int64(len(acked)) {
			t.Fatalf("%d lines acknowledged, Len %d", len(acked), l.Len())
		}
		if err := l.Append([]byte(`{"a":1}`)); !errors.Is(err, ErrBroken) {
			t.Errorf("append again: %v", err)
		}
		l.Close()
		checkStillFull(t, root, dir, acked)
		if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
			t.Fatal(err)
		}
		l, rec, got := mustOpen(t, root, "a")
		defer l.Close()
		if !slices.Equal(got, acked) || rec.Torn == 0 {
			t.Fatalf("after freeing space: %d of %d lines, %+v", len(got), len(acked), rec)
		}
		if err := l.Append([]byte(`{"after":true}`)); err != nil {
			t.Fatal(err)
		}
	})
}

// checkStillFull: with no space for the side file, Open changes nothing and
// says why; reading works.
func checkStillFull(t *testing.T, root *os.Root, dir string, acked []string) {
	t.Helper()
	untouched(t, dir, "a", func() {
		_, _, err := Open(Config{Root: root, Name: "a"})
		if !errors.Is(err, syscall.ENOSPC) || !strings.HasSuffix(err.Error(), "(see runbook: disk-full)") {
			t.Errorf("open on a full disk: %v", err)
		}
		var got []string
		if _, err := Scan(root, "a", keep(t, &got)); err != nil || !slices.Equal(got, acked) {
			t.Errorf("scan on a full disk: %d of %d lines, %v", len(got), len(acked), err)
		}
	})
	big := bytes.Repeat([]byte("x"), 64<<10)
	if err := durable.WriteFile(root, "ballast", big, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("durable.WriteFile: %v", err)
	}
	if err := durable.Create(root, "new", big, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("durable.Create: %v", err)
	}
	if b := read(t, dir, "ballast"); len(b) != 64<<10 || b[0] != 'b' {
		t.Error("the old file did not stand")
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	withTmpfs(t, "size=256k", func(t *testing.T, dir string, readOnly func()) {
		root, _ := rootAt(t, dir)
		write(t, dir, "a", append(sealed(fourLines...), "torn"...))
		readOnly()
		for _, name := range []string{"a", "new"} {
			_, _, err := Open(Config{Root: root, Name: name})
			if !errors.Is(err, syscall.EROFS) || !strings.HasSuffix(err.Error(), "(see runbook: state-read-only)") {
				t.Errorf("open %s: %v", name, err)
			}
		}
		var got []string
		rec, err := Scan(root, "a", keep(t, &got))
		if err != nil || rec.Torn != 4 || !slices.Equal(got, fourLines) {
			t.Errorf("scan: %+v, %v", rec, err)
		}
	})
}
