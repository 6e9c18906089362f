package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/config"
)

const owner = "abcdefghijklmnopqrstuvwx12"

func load(t *testing.T, text string) (Settings, error) {
	t.Helper()
	p := filepath.Join(t.TempDir(), "gatewayd.toml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(p)
}

func TestKeysAreRead(t *testing.T) {
	s, err := load(t, "url = \"https://chat.example.com\"\nowners = [\""+owner+"\"]\nchannels = [\"zzcdefghijklmnopqrstuvwx12\"]\n[limits]\ncatch_up = \"1m\"\n")
	if err != nil || s.Owners[0] != owner || len(s.Channels) != 1 || s.Limits.CatchUp != 60e9 || s.Limits.Parts != Default().Limits.Parts {
		t.Errorf("%+v %v", s, err)
	}
}

func TestBadSettings(t *testing.T) {
	const head = "url = \"https://chat.example.com\"\n"
	const good = head + "owners = [\"" + owner + "\"]\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "address of the Mattermost server"},
		{"no owner", head, "nobody would be heard"},
		{"an owner by name", head + "owners = [\"anna\"]", "entry 1 is no id"},
		{"an owner twice", head + "owners = [\"" + owner + "\", \"" + owner + "\"]", "entry 2 is there twice"},
		{"a channel by name", good + "channels = [\"town-square\"]", "entry 1 is no id"},
		{"no address", "url = \"chat\"\nowners = [\"" + owner + "\"]", "has no host"},
		{"another scheme", "url = \"ftp://chat.example.com\"\nowners = [\"" + owner + "\"]", "begins with https"},
		{"a query", "url = \"https://chat.example.com/?x=y\"\nowners = [\"" + owner + "\"]", "no user, query"},
		{"in the clear", "url = \"http://chat.example.com\"\nowners = [\"" + owner + "\"]", "in the clear"},
		{"the token in the file", good + "token = \"ab1cdefghijklmnopqrstuvw12\"", "token"},
		{"unknown key", good + "owner = \"x\"", "owner"},
		{"no parts", good + "[limits]\nparts = 0", "limits.parts"},
		{"hasty", good + "[limits]\ncatch_up = \"1s\"", "limits.catch_up"},
		{"a key that moves", good + "[secrets]\nkey = \"keys/x\"", "absolute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.text)
			var e *config.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestPlainWhereItIsAllowed(t *testing.T) {
	for _, text := range []string{"url = \"http://127.0.0.1:8065\"\n", "url = \"http://chat.example.com\"\nplain = true\n"} {
		if _, err := load(t, text+"owners = [\""+owner+"\"]\n"); err != nil {
			t.Error(err)
		}
	}
}
