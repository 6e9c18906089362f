package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

func TestResolvConf(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"etc", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	plain, link := filepath.Join(dir, "etc/plain"), filepath.Join(dir, "etc/link")
	for _, f := range []string{plain, filepath.Join(dir, "run/stub")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../run/stub", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{plain: plain, link: filepath.Join(dir, "run"), filepath.Join(dir, "etc/none"): filepath.Join(dir, "etc/none")} {
		if got := resolvConf(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
