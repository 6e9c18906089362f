package secret

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestSetGetRemove(t *testing.T) {
	k := newKit(t).create()
	s := k.open()
	reader := k.open() // as brokerd: it sees what another process writes
	k.must(s.Set("b", NewText("value-of-b")))
	k.must(s.Set("a", NewText("value-of-a\x00\xff\n")))
	k.wants(reader, "b", "value-of-b")
	k.wants(reader, "a", "value-of-a\x00\xff\n")
	k.must(s.Set("b", NewText("second-value")))
	k.wants(reader, "b", "second-value")
	if names, err := reader.Names(); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("names are %q, %v", names, err)
	}
	k.must(s.Remove("b"))
	if _, err := reader.Get("b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a removed secret gives %v", err)
	}
	if err := s.Remove("b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a second removal gives %v", err)
	}
	_, err := reader.Get("../\x1b[2J")
	wantsKey(t, err, "secret-unknown", "of that name")
	var all []string
	named, err := reader.All()
	k.must(err)
	for _, n := range named {
		all = append(all, n.Name+"="+n.Value.Reveal())
	}
	if want := []string{"a=value-of-a\x00\xff\n", "b=value-of-b", "b=second-value"}; !slices.Equal(all, want) {
		t.Errorf("All is %q, want %q: what was replaced must still be found in results", all, want)
	}
	k.nothingPlain("value-of-a", "value-of-b", "second-value")
}

// nothingPlain looks through every file for values.
func (k kit) nothingPlain(values ...string) {
	k.t.Helper()
	err := filepath.WalkDir(filepath.Dir(k.cfg.Dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, v := range values {
			if bytes.Contains(b, []byte(v)) {
				k.t.Errorf("%s holds %q", path, v)
			}
		}
		return err
	})
	k.must(err)
}

func TestRefusedValues(t *testing.T) {
	k := newKit(t).create()
	s := k.open()
	for _, c := range []struct{ name, secret, value, key, part string }{
		{"empty name", "", "a-good-value", "secret-name", "1 to 64"},
		{"path", "../a", "a-good-value", "secret-name", "a-z"},
		{"capital", "Token", "a-good-value", "secret-name", "a-z"},
		{"long name", strings.Repeat("a", 65), "a-good-value", "secret-name", "64"},
		{"short", "a", "12345", "secret-value", "5 bytes"},
		{"empty", "a", "", "secret-value", "no value"},
		{"blank", "a", " \t\n     ", "secret-value", "blank space"},
		{"long", "a", strings.Repeat("x", MaxValue+1), "secret-value", "65537 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.Set(c.secret, NewText(c.value))
			wantsKey(t, err, c.key, c.part)
			if c.value != "" && strings.Contains(err.Error(), c.value) {
				t.Error("the message shows the value")
			}
		})
	}
	k.must(s.Set(strings.Repeat("a", 64), NewText(strings.Repeat("x", MaxValue))))
	k.must(s.Set("six", NewText("123456")))
	if names, err := s.Names(); err != nil || len(names) != 2 {
		t.Errorf("kept %q, %v", names, err)
	}
}

// TestTwoWriters: no change is lost.
func TestTwoWriters(t *testing.T) {
	k := newKit(t).create()
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		s := k.open()
		wg.Go(func() {
			for i := range 5 {
				if err := s.Set(name+string(rune('0'+i)), NewText("value-"+name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	s := k.open()
	wg.Go(func() {
		for range 5 {
			if err := s.Rotate(); err != nil {
				t.Error(err)
			}
		}
	})
	r := k.open()
	wg.Go(func() {
		for range 50 {
			if _, err := r.All(); err != nil {
				t.Errorf("a reader meets %v", err)
			}
		}
	})
	wg.Wait()
	if names, err := k.open().Names(); err != nil || len(names) != 20 {
		t.Errorf("%d secrets, %v; want 20", len(names), err)
	}
}

func TestCreate(t *testing.T) {
	k := newKit(t)
	if _, err := Open(k.cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store gives %v", err)
	}
	made, err := Create(k.cfg)
	if err != nil || !slices.Equal(made, []string{k.cfg.Key.File, k.cfg.path()}) {
		t.Fatalf("made %q, %v", made, err)
	}
	k.must(k.open().Set("a", NewText("a-good-value")))
	if made, err = Create(k.cfg); err != nil || len(made) != 0 {
		t.Errorf("a second time made %q, %v", made, err)
	}
	k.wants(k.open(), "a", "a-good-value")
	for _, f := range []string{k.cfg.Key.File, k.cfg.path()} {
		if fi, err := os.Stat(f); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", f, fi.Mode(), err)
		}
	}
	k.must(os.Rename(k.cfg.Key.File, k.cfg.Key.File+".away"))
	_, err = Create(k.cfg)
	wantsKey(t, err, "secret-key", "not there")
	_, err = Open(k.cfg)
	wantsKey(t, err, "secret-key", "not there")
	k.must(os.Rename(k.cfg.Key.File+".away", k.cfg.Key.File))
	k.must(os.Remove(k.cfg.path()))
	if made, err = Create(k.cfg); err != nil || !slices.Equal(made, []string{k.cfg.path()}) {
		t.Errorf("a missing store made %q, %v", made, err)
	}
}

// TestRotate breaks each step, before and after it was done. Whatever breaks,
// the files fit together, also for who opened them before, and rotating again
// leaves one key that is new.
func TestRotate(t *testing.T) {
	errInjected := errors.New("injected")
	for i, stepName := range []string{"both keys", "store", "new key", ""} {
		for _, after := range []bool{false, true} {
			k := newKit(t).create()
			s := k.open()
			k.must(s.Set("a", NewText("a-good-value")))
			before, err := os.ReadFile(k.cfg.Key.File)
			k.must(err)
			reader := k.open()
			var seen []string
			broken := k.cfg
			broken.step = func(name string, f func() error) error {
				seen = append(seen, name)
				if name != stepName {
					return f()
				}
				if after {
					return errors.Join(errInjected, f())
				}
				return errInjected
			}
			b, err := Open(broken)
			k.must(err)
			err = b.Rotate()
			if stepName != "" && (!errors.Is(err, errInjected) || len(seen) != i+1) || stepName == "" && err != nil {
				t.Fatalf("%s: %v after %q", stepName, err, seen)
			}
			k.wants(reader, "a", "a-good-value")
			k.wants(k.open(), "a", "a-good-value")
			k.must(k.open().Set("b", NewText("another-value")))
			k.must(k.open().Rotate())
			k.wants(reader, "b", "another-value")
			now, err := os.ReadFile(k.cfg.Key.File)
			k.must(err)
			if n := bytes.Count(now, []byte("AGE-SECRET-KEY-")); n != 1 {
				t.Errorf("%s: %d keys are left", stepName, n)
			}
			k.must(os.WriteFile(k.cfg.Key.File, before, 0o600))
			_, err = Open(k.cfg)
			wantsKey(t, err, "secret-key", "does not fit")
		}
	}
}

// Two programs may keep a store each in one folder, with a key each.
func TestFileOfItsOwn(t *testing.T) {
	k := newKit(t).create()
	other := k
	other.cfg.File, other.cfg.Key.File = "gatewayd.age", filepath.Join(filepath.Dir(k.cfg.Key.File), "gatewayd.key")
	other.create()
	k.must(other.open().Set("token", NewText("a-good-value")))
	other.wants(other.open(), "token", "a-good-value")
	if _, err := k.open().Get("token"); !errors.Is(err, ErrUnknown) {
		t.Errorf("the first store has it too: %v", err)
	}
}
