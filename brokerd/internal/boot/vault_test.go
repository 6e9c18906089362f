package boot

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/secret"
)

// A store that breaks while the first call runs takes nothing back: the value
// that was handed out is still taken out of what comes back.
func TestAStoreThatBreaksWhileACallRuns(t *testing.T) {
	dir := t.TempDir()
	cfg := secret.Config{Dir: dir, Key: secret.Key{File: filepath.Join(dir, "key")}}
	if _, err := secret.Create(cfg); err != nil {
		t.Fatal(err)
	}
	owner, err := secret.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Set("token", secret.NewText("hunter2-hunter2")); err != nil {
		t.Fatal(err)
	}
	v, err := openVault(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get("token"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, secret.FileName), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := v.Clean("it is hunter2-hunter2"); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if _, err := v.Get("token"); err == nil {
		t.Error("a broken store gives values")
	}
}

// An encrypted key is no reason to ask: whoever started brokerd has. The status
// tells where the key is from.
func TestAKeyThatWasHandedOver(t *testing.T) {
	dir := t.TempDir()
	cfg := secret.Config{Dir: dir, Key: secret.Key{File: filepath.Join(dir, "key"), Passphrase: func() (string, error) { return "correct horse", nil }}}
	if _, err := secret.Create(cfg); err != nil {
		t.Fatal(err)
	}
	plain, err := secret.Unlock(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Key.Passphrase = nil
	if _, err := openVault(cfg, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("it opened without a passphrase")
	}
	cfg.Key.Unlocked = plain
	v, err := openVault(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if c := v.check(); c.State != "ok" || !strings.HasSuffix(c.Detail, "key, unlocked with its passphrase at the start") {
		t.Errorf("%+v", c)
	}
}

// A store that is there and whose key is not is no store that was never made:
// its values could not be found in results.
func TestAStoreWithoutItsKey(t *testing.T) {
	dir := t.TempDir()
	cfg := secret.Config{Dir: dir, Key: secret.Key{File: filepath.Join(dir, "key")}}
	v, err := openVault(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("a store that was never made: %v", err)
	}
	if c := v.check(); c.State != "skipped" || v.Clean("any text") != "any text" {
		t.Errorf("a store that was never made: %+v", c)
	}
	late, err := openVault(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Create(cfg); err != nil {
		t.Fatal(err)
	}
	if c := v.check(); c.State != "ok" {
		t.Errorf("a store that was made meanwhile: %+v", c)
	}
	if err := os.Remove(cfg.Key.File); err != nil {
		t.Fatal(err)
	}
	if c := v.check(); c.State != "failed" || !strings.Contains(c.Detail, "key is not there") {
		t.Errorf("a key that was taken away: %+v", c)
	}
	if got := late.Clean("any text"); got != withheld || late.Clean("") != "" {
		t.Errorf("a store that was made meanwhile and was never read: %q", got)
	}
	if _, err := openVault(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "key is not there") {
		t.Errorf("it opened without the key: %v", err)
	}
}
