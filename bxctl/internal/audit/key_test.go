package audit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The folder is brokerd's own: what it puts in the key's place must neither
// make bxctl up wait for ever, nor have it read something else as root.
func TestThePublicKeyIsAPlainFile(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, publicFile)
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte("key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"a pipe": func() error { return unix.Mkfifo(at, 0o600) },
		"a link": func() error { return os.Symlink("other", at) },
		"folder": func() error { return os.Mkdir(at, 0o700) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if key, err := plainText(at); err == nil {
			t.Errorf("%s: %q", name, key)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
	if key, err := plainText(filepath.Join(dir, "other")); err != nil || key != "key" {
		t.Errorf("%q, %v", key, err)
	}
}
