package filestamp

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

func TestStamp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	get := func() Stamp {
		t.Helper()
		var st unix.Stat_t
		must(unix.Lstat(path, &st))
		fi, err := os.Lstat(path)
		must(err)
		s, ok := OfInfo(fi)
		if !ok || s != Of(&st) {
			t.Fatalf("two stamps of one file: %+v, %+v", s, Of(&st))
		}
		return s
	}
	must(os.WriteFile(path, []byte("one"), 0o600))
	must(os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
	before := get()
	if before != get() || before == (Stamp{}) || before.Size() != 3 {
		t.Errorf("%+v, %+v", before, get())
	}
	for _, tt := range []struct {
		name   string
		change func() error
		same   bool // file
	}{
		{"longer", func() error { return os.WriteFile(path, []byte("three"), 0o600) }, true},
		{"rights", func() error { return os.Chmod(path, 0o640) }, true},
		{"time", func() error { return os.Chtimes(path, time.Time{}, time.Unix(2, 0)) }, true},
		{"another file", func() error {
			fresh := path + ".new"
			if err := os.WriteFile(fresh, []byte("three"), 0o640); err != nil {
				return err
			}
			return os.Rename(fresh, path)
		}, false},
	} {
		before := get()
		must(tt.change())
		if after := get(); after == before || after.SameFile(before) != tt.same {
			t.Errorf("%s: %+v, then %+v", tt.name, before, after)
		}
	}
	fi, err := fs.Stat(fstest.MapFS{"f": &fstest.MapFile{}}, "f")
	must(err)
	if s, ok := OfInfo(fi); ok {
		t.Errorf("a file of no kernel has %+v", s)
	}
}
