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
	p := filepath.Join(t.TempDir(), "egressd.toml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(p)
}

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	s, err := load(t, "# nothing\n")
	if err != nil || s != Default() {
		t.Errorf("%+v %v", s, err)
	}
}

func TestKeysAreRead(t *testing.T) {
	s, err := load(t, "resolver = \"[::1]:5353\"\n[limits]\nbytes = \"1MiB\"\nidle = \"5s\"\n")
	if err != nil || s.Resolver != "[::1]:5353" || s.Limits.Bytes != 1<<20 || s.Limits.Idle != 5e9 || s.Limits.Doors != Default().Limits.Doors {
		t.Errorf("%+v %v", s, err)
	}
}

func TestBadSettings(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "resolvers = \"1.1.1.1:53\"", "resolvers"},
		{"a resolver by name", "resolver = \"dns.example:53\"", "resolver"},
		{"a resolver without a port", "resolver = \"1.1.1.1\"", "resolver"},
		{"no connections", "[limits]\nconnections = 0", "connections"},
		{"no doors", "[limits]\ndoors = 0", "doors"},
		{"few bytes", "[limits]\nbytes = \"1B\"", "bytes"},
		{"no patience", "[limits]\nidle = \"1ms\"", "idle"},
		{"too much patience", "[limits]\ndial = \"2h\"", "dial"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, tc.text)
			var e *config.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
