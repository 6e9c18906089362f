package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnlock: who asked for the passphrase hands on what the key file holds, and
// who got that reads the store without asking, until the key is another one.
func TestUnlock(t *testing.T) {
	k := newKit(t).create()
	k.must(k.open().Set("token", NewText("hunter2-hunter2")))
	if k.cfg.Locked() {
		t.Error("a key without a passphrase is locked")
	}
	k.must(k.open().SetPassphrase(NewText("correct horse")))
	if !k.cfg.Locked() {
		t.Error("the key is not locked")
	}
	_, err := Open(k.cfg)
	wantsKey(t, err, "secret-passphrase", "nobody to ask")

	asking := k.cfg
	asking.Key.Passphrase = func() (string, error) { return "wrong horse", nil }
	_, err = Unlock(asking)
	wantsKey(t, err, "secret-passphrase", "wrong passphrase")
	if !errors.Is(err, ErrPassphrase) {
		t.Errorf("%v", err)
	}
	asking.Key.Passphrase = func() (string, error) { return "correct horse", nil }
	plain, err := Unlock(asking)
	k.must(err)
	if strings.Contains(plain.Reveal(), "horse") || !strings.Contains(plain.Reveal(), "AGE-SECRET-KEY-") {
		t.Error("not the key, or with the passphrase")
	}

	handed := k.cfg
	handed.Key.Unlocked = plain
	s, err := Open(handed)
	k.must(err)
	k.wants(s, "token", "hunter2-hunter2")
	if got := s.Source(); got != k.cfg.Key.File+", unlocked with its passphrase at the start" {
		t.Error(got)
	}

	owner, err := Open(asking)
	k.must(err)
	k.must(owner.SetPassphrase(NewText("another horse"))) // the same key: nobody else needs to know
	k.must(owner.Set("token", NewText("hunter3-hunter3")))
	k.wants(s, "token", "hunter3-hunter3")
	k.must(owner.Rotate())
	_, err = s.Get("token")
	wantsKey(t, err, "secret-passphrase", "another one since Boxmaker was started")
	_, err = Open(handed)
	wantsKey(t, err, "secret-passphrase", "bxctl up")

	k.must(owner.SetPassphrase(Text{})) // with none, the file itself counts
	k.wants(s, "token", "hunter3-hunter3")
	if k.cfg.Locked() || s.Source() != k.cfg.Key.File {
		t.Errorf("still locked: %v, %s", k.cfg.Locked(), s.Source())
	}
}

// TestReadUnlocked: several starts of a program read from one descriptor.
func TestReadUnlocked(t *testing.T) {
	k := newKit(t).create()
	plain, err := Unlock(k.cfg)
	k.must(err)
	f, err := os.Create(filepath.Join(t.TempDir(), "handed"))
	k.must(err)
	defer f.Close()
	_, err = f.WriteString(plain.Reveal())
	k.must(err)
	for range 2 {
		got, err := ReadUnlocked(f)
		if err != nil || got.Reveal() != plain.Reveal() {
			t.Errorf("%v", err)
		}
	}
	k.must(f.Truncate(10))
	_, err = ReadUnlocked(f)
	wantsKey(t, err, "secret-passphrase", "handed over")
	if strings.Contains(err.Error(), plain.Reveal()[:10]) {
		t.Error("the error quotes the key")
	}
}

// TestUnlockNeedsTheStoresKey: a key that opens another store is told at once,
// where somebody sits who can mend it.
func TestUnlockNeedsTheStoresKey(t *testing.T) {
	k, other := newKit(t).create(), newKit(t).create()
	b, err := os.ReadFile(other.cfg.Key.File)
	k.must(err)
	k.must(os.WriteFile(k.cfg.Key.File, b, 0o600))
	_, err = Unlock(k.cfg)
	wantsKey(t, err, "secret-key", "does not fit")
	k.must(os.Remove(filepath.Join(k.cfg.Dir, FileName)))
	if _, err := Unlock(k.cfg); err != nil {
		t.Errorf("without a store: %v", err)
	}
}
