package settings

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"boxmaker/internal/config"
)

func load(t *testing.T, text string) (Settings, error) {
	t.Helper()
	p := filepath.Join(t.TempDir(), "brokerd.toml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(p)
}

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	s, err := load(t, "# nothing\n")
	if err != nil || !reflect.DeepEqual(s, Default()) {
		t.Errorf("%+v %v", s, err)
	}
}

func TestKeysAreRead(t *testing.T) {
	s, err := load(t, "[approval]\nexpires = \"1h\"\nwaiting = 3\n[calls]\nrunning = 2\n[limits]\negress = \"1MiB\"\n[secrets]\nkey = \"/k\"\n")
	if err != nil || s.Approval.Expires != config.Duration(3600e9) || s.Approval.Waiting != 3 || s.Calls.Running != 2 || s.Limits.Egress != 1<<20 || s.Secrets.Key != "/k" {
		t.Errorf("%+v %v", s, err)
	}
}

func TestBadSettings(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "[approval]\nexpire = \"1h\"", "expire"},
		{"other case", "[Approval]\nexpires = \"1h\"", "Approval"},
		{"a number without a unit", "[approval]\nexpires = \"30\"", "expires"},
		{"an approval that never ends", "[approval]\nexpires = \"9000h\"", "approval.expires"},
		{"nobody may wait", "[approval]\nwaiting = 0", "approval.waiting"},
		{"nothing may run", "[calls]\nrunning = 0", "calls.running"},
		{"no call at all", "[calls]\nrate = 0", "calls.rate"},
		{"no network at all", "[limits]\negress = \"1B\"", "limits.egress"},
		{"a relative key", "[secrets]\nkey = \"key\"", "secrets.key"},
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
