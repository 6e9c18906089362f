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
