package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/config"
)

// kit is a store in a folder of its own, its key in another.
type kit struct {
	t   *testing.T
	cfg Config
}

func newKit(t *testing.T) kit {
	t.Helper()
	dir := t.TempDir()
	k := kit{t, Config{Dir: filepath.Join(dir, "secrets"), Key: Key{File: filepath.Join(dir, "keys", "brokerd.key")}, work: 2}}
	for _, d := range []string{k.cfg.Dir, filepath.Dir(k.cfg.Key.File)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k kit) create() kit {
	k.t.Helper()
	if _, err := Create(k.cfg); err != nil {
		k.t.Fatal(err)
	}
	return k
}

func (k kit) open() *Store {
	k.t.Helper()
	s, err := Open(k.cfg)
	if err != nil {
		k.t.Fatal(err)
	}
	return s
}

func (k kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k kit) wants(s *Store, name, value string) {
	k.t.Helper()
	if v, err := s.Get(name); err != nil || v.Reveal() != value {
		k.t.Errorf("%s is %q, %v; want %q", name, v.Reveal(), err, value)
	}
}

// wantsKey checks that an error is for the owner and names the runbook.
func wantsKey(t *testing.T, err error, key, part string) {
	t.Helper()
	var e *config.Error
	if !errors.As(err, &e) || e.Runbook != key || e.Do == "" || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v; want one with the key %s and %q in it", err, key, part)
	}
}
