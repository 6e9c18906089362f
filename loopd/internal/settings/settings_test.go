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
	p := filepath.Join(t.TempDir(), "loopd.toml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(p)
}

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	s, err := load(t, "# nothing\n")
	if err != nil {
		t.Fatal(err)
	}
	if s.Sampling != Default().Sampling || s.Limits != Default().Limits || s.Upstream != Default().Upstream {
		t.Errorf("%+v", s)
	}
}

func TestKeysAreRead(t *testing.T) {
	s, err := load(t, "[upstream]\nidle = \"1m\"\n[limits]\nresult = \"64KiB\"\n[sampling]\ntemperature = \"0.25\"\n")
	if err != nil || s.Limits.Result != 64<<10 || s.Sampling.Temperature != "0.25" || s.Upstream.Idle != config.Duration(60e9) {
		t.Errorf("%+v %v", s, err)
	}
}

func TestBadSettings(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "[limits]\nresults = \"1KiB\"", "results"},
		{"other case", "[Limits]\nqueue = 3", "Limits"},
		{"wrong type", "[limits]\nqueue = \"three\"", "queue"},
		{"one slot for both", "[slots]\nmain = 1", "same slot"},
		{"thinking over the limit", "[sampling]\nthinking_tokens = 9000", "thinking_tokens"},
		{"temperature in words", "[sampling]\ntemperature = \"hot\"", "temperature"},
		{"temperature with an exponent", "[sampling]\ntemperature = \"1e-1\"", "temperature"},
		{"no patience", "[upstream]\nidle = \"1ms\"", "idle"},
		{"no such zone", "[prompt]\nzone = \"Mars/Olympus\"", "zone"},
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
