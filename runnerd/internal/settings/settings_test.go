package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/config"
)

func load(t *testing.T, text string) (Settings, error) {
	t.Helper()
	p := filepath.Join(t.TempDir(), "runnerd.toml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(p)
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "# nothing\n", ""},
		{"all", "runtime = \"podman\"\npath = \"/usr/bin/podman\"\nconcurrent = 3\n[limits]\ntime = \"30s\"\nmemory = \"64MiB\"\noutput = \"64KiB\"\npids = 64\ndisk_free = \"0B\"\n[userland]\nroot = \"/srv/root\"", ""},
		{"unknown key", "runtimes = \"crun\"", "runtimes"},
		{"another runtime", "runtime = \"docker\"", "runtime is"},
		{"relative program", "path = \"crun\"", "path must be absolute"},
		{"relative root", "[userland]\nroot = \"x\"", "userland.root"},
		{"none at a time", "concurrent = 0", "concurrent"},
		{"no time", "[limits]\ntime = \"1ms\"", "limits.time"},
		{"no memory", "[limits]\nmemory = \"1MiB\"", "limits.memory"},
		{"more than a frame", "[limits]\noutput = \"3MiB\"", "limits.output"},
		{"more than a disk", "[limits]\ndisk_free = \"2000GiB\"", "limits.disk_free"},
		{"no processes", "[limits]\npids = 1", "limits.pids"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := load(t, tc.text)
			var e *config.Error
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%+v %v", s, err)
			}
		})
	}
}
