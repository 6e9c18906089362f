// Package settings is gatewayd's configuration file: its keys, their defaults and
// their bounds. The address of the server and the owner's user id have no default.
package settings

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/config"
)

// The bot's token: the file of its store in the folder of secrets, and its name there.
const (
	StoreName = "gatewayd.age"
	TokenName = "mattermost-token"
)

// Settings is config/gatewayd.toml.
type Settings struct {
	URL   string `toml:"url"`   // https://host[:port][/path]
	Plain bool   `toml:"plain"` // http:// to another machine, everything in the clear
	// Owners are the user ids that are heard, Channels the ids of channels where
	// they are heard if they name the bot.
	Owners   []string `toml:"owners" config:"public"`
	Channels []string `toml:"channels" config:"public"`
	Secrets  Secrets  `toml:"secrets"`
	Limits   Limits   `toml:"limits"`
}

// Secrets says where the key of the store with the token is.
type Secrets struct {
	Key string `toml:"key"` // absolute path; empty: where it was put by the setup
}

// Limits bound what goes on.
type Limits struct {
	Parts   int             `toml:"parts"`    // posts of an answer; a longer one is a file
	Open    int             `toml:"open"`     // messages that are worked on at a time; more wait
	CatchUp config.Duration `toml:"catch_up"` // how often the server is asked for what no event told
}

// Default is what a file that names only server and owner has.
func Default() Settings {
	return Settings{Limits: Limits{Parts: 4, Open: 32, CatchUp: config.Duration(5 * time.Minute)}}
}

// Load reads path over the defaults. An error is a *config.Error.
func Load(path string) (Settings, error) {
	s := Default()
	if err := config.Load(path, &s); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// Validate checks values; config.Load calls it.
func (s *Settings) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) { errs = append(errs, config.Invalid(key, format, args...)) }
	if s.URL == "" {
		bad("url", "the address of the Mattermost server is missing, such as https://chat.example.com; bxctl mattermost setup writes it")
	} else if err := mattermost.CheckURL(s.URL, s.Plain); err != nil {
		bad("url", "%v", err)
	}
	if len(s.Owners) == 0 {
		bad("owners", "nobody would be heard; give your user id, 26 letters and digits (bxctl mattermost setup finds it by your name)")
	}
	for key, list := range map[string][]string{"owners": s.Owners, "channels": s.Channels} {
		for i, id := range list {
			if !mattermost.ValidID(id) {
				bad(key, "entry %d is no id of a Mattermost server, 26 small letters and digits; names do not count, since others can take them over", i+1)
			} else if slices.Contains(list[:i], id) {
				bad(key, "entry %d is there twice", i+1)
			}
		}
	}
	if s.Secrets.Key != "" && !filepath.IsAbs(s.Secrets.Key) {
		bad("secrets.key", "it is not an absolute path")
	}
	for key, v := range map[string][3]int{"limits.parts": {s.Limits.Parts, 1, 40}, "limits.open": {s.Limits.Open, 1, 64}} {
		if v[0] < v[1] || v[0] > v[2] {
			bad(key, "%d is not from %d to %d", v[0], v[1], v[2])
		}
	}
	if d := time.Duration(s.Limits.CatchUp); d < 10*time.Second || d > time.Hour {
		bad("limits.catch_up", "it is not from 10s to 1h")
	}
	return errors.Join(errs...)
}
