package setup

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxmaker/internal/config"
	"boxmaker/internal/durable"
	"boxmaker/internal/secret"
)

//go:embed files/gatewayd.toml
var gatewayText string

// Names of the bot's token: its store in the folder of secrets, its key, and what it
// is called there.
const (
	GatewayStore = "gatewayd.age"
	GatewayKey   = "gatewayd.key"
	GatewayToken = "mattermost-token"
)

// Gateway is config/gatewayd.toml. gatewayd's own settings package can't be imported
// from here, so the keys stand here once more; a test holds the two together. The
// bounds of values are gatewayd's to judge.
type Gateway struct {
	URL      string         `toml:"url"`
	Plain    bool           `toml:"plain"`
	Owners   []string       `toml:"owners" config:"public"`
	Channels []string       `toml:"channels" config:"public"`
	Secrets  GatewaySecrets `toml:"secrets"`
	Limits   GatewayLimits  `toml:"limits"`
}

// GatewaySecrets says where the key of the token's store is.
type GatewaySecrets struct {
	Key string `toml:"key"`
}

// GatewayLimits bound what gatewayd does.
type GatewayLimits struct {
	Parts   int             `toml:"parts"`
	Open    int             `toml:"open"`
	CatchUp config.Duration `toml:"catch_up"`
}

// DefaultGateway is a file that names only server and owner.
func DefaultGateway() Gateway {
	return Gateway{Limits: GatewayLimits{Parts: 4, Open: 32, CatchUp: config.Duration(5 * time.Minute)}}
}

// Validate asks for what gatewayd can't do without; config.Load calls it.
func (g *Gateway) Validate() error {
	var errs []error
	if g.URL == "" {
		errs = append(errs, config.Invalid("url", "the address of the Mattermost server is missing; bxctl mattermost setup writes it"))
	}
	if len(g.Owners) == 0 {
		errs = append(errs, config.Invalid("owners", "nobody would be heard; bxctl mattermost setup finds your id by your name"))
	}
	return errors.Join(errs...)
}

// LoadGateway reads the file. One that is not there is an error that is
// [fs.ErrNotExist].
func LoadGateway(l config.Layout) (Gateway, error) {
	g := DefaultGateway()
	return g, config.Load(filepath.Join(l.Config, FileGateway), &g)
}

// Secret says where the bot's token is. For root, store and key belong to the user
// that brokerd runs as, like all else in these folders.
func (g Gateway) Secret(l config.Layout, root bool, s Settings) secret.Config {
	c := secret.Config{Dir: l.Secrets, File: GatewayStore, Key: secret.Key{File: filepath.Join(l.Keys, GatewayKey)}}
	if g.Secrets.Key != "" {
		c.Key.File = g.Secrets.Key
	}
	if root {
		c.Owner = int(s.UID("brokerd"))
	}
	return c
}

// A GatewayChange is a file as it is to be, and how it differs.
type GatewayChange struct {
	Text    string
	Changes []string // "url: (not set) -> "https://…"", in words; empty: it is so already
	Old     bool     // there is one now
}

// ChangeGateway says what to do so that the file says url, plain, owners and channels
// of g. Lines about other things, and comments, stay as they are where there is a
// file that can be read; one that cannot is replaced as a whole.
func ChangeGateway(l config.Layout, g Gateway) (GatewayChange, error) {
	old, err := os.ReadFile(filepath.Join(l.Config, FileGateway))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return GatewayChange{}, unwritable(filepath.Join(l.Config, FileGateway), err)
	}
	c := GatewayChange{Old: err == nil}
	was := DefaultGateway()
	readable := false
	if c.Old {
		_, err := config.Decode(FileGateway, old, &was)
		readable = err == nil
		if !readable {
			was = DefaultGateway()
			c.Changes = append(c.Changes, "the whole file is written anew: what is there can't be used")
		}
	}
	c.Changes = append(c.Changes, differences(was, g)...)
	if len(c.Changes) == 0 {
		c.Text = string(old)
		return c, nil
	}
	if readable {
		if text := g.put(string(old)); g.says(text, was) {
			c.Text = text
			return c, nil
		}
		c.Changes = append(c.Changes, "comments of yours are lost: the file is laid out in a way that can't be changed line by line")
	}
	g.Secrets, g.Limits = was.Secrets, was.Limits
	c.Text = g.whole()
	if !g.says(c.Text, was) {
		return GatewayChange{}, fmt.Errorf("setup: %s does not say what it should", FileGateway)
	}
	return c, nil
}

// put changes the lines of the four keys.
func (g Gateway) put(text string) string {
	text, _ = setKey(text, "", "channels", literals(g.Channels))
	text, _ = setKey(text, "", "owners", literals(g.Owners))
	text, _ = setKey(text, "", "plain", fmt.Sprint(g.Plain))
	text, _ = setKey(text, "", "url", literal(g.URL))
	return text
}

// whole writes the file of a new installation.
func (g Gateway) whole() string {
	text, std := g.put(gatewayText), DefaultGateway()
	for _, k := range []struct{ section, key, now, std string }{
		{"secrets", "key", literal(g.Secrets.Key), literal(std.Secrets.Key)},
		{"limits", "parts", fmt.Sprint(g.Limits.Parts), fmt.Sprint(std.Limits.Parts)},
		{"limits", "open", fmt.Sprint(g.Limits.Open), fmt.Sprint(std.Limits.Open)},
		{"limits", "catch_up", literal(g.Limits.CatchUp.String()), literal(std.Limits.CatchUp.String())},
	} {
		if k.now != k.std {
			text, _ = setKey(text, k.section, k.key, k.now)
		}
	}
	return text
}

// says reports whether a text means g, with the rest as it was.
func (g Gateway) says(text string, was Gateway) bool {
	now := DefaultGateway()
	if _, err := config.Decode(FileGateway, []byte(text), &now); err != nil {
		return false
	}
	return now.URL == g.URL && now.Plain == g.Plain && slices.Equal(now.Owners, g.Owners) && slices.Equal(now.Channels, g.Channels) &&
		now.Secrets == was.Secrets && now.Limits == was.Limits
}

func differences(was, now Gateway) []string {
	var out []string
	for _, k := range []struct{ key, was, now string }{
		{"url", literal(was.URL), literal(now.URL)},
		{"plain", fmt.Sprint(was.Plain), fmt.Sprint(now.Plain)},
		{"owners", literals(was.Owners), literals(now.Owners)},
		{"channels", literals(was.Channels), literals(now.Channels)},
	} {
		if k.was != k.now {
			out = append(out, k.key+": "+k.was+" -> "+k.now)
		}
	}
	return out
}

func literals(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = literal(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// WriteGateway replaces the file, whole or not at all. The former one is kept beside
// it under the name that is given back, if its words change.
func WriteGateway(l config.Layout, c GatewayChange, now time.Time) (kept string, err error) {
	root, err := os.OpenRoot(l.Config)
	if err != nil {
		return "", unwritable(l.Config, err)
	}
	defer root.Close()
	if old, err := readIn(root, FileGateway); err == nil && old != c.Text {
		kept = FileGateway + ".old-" + now.UTC().Format("20060102T150405Z")
		if err := durable.WriteFile(root, kept, []byte(old), 0o600); err != nil {
			return "", unwritable(l.Config, err)
		}
	}
	if err := durable.WriteFile(root, FileGateway, []byte(c.Text), 0o600); err != nil {
		return kept, unwritable(l.Config, err)
	}
	return kept, nil
}
