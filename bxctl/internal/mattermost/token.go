package mattermost

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
	"boxmaker/internal/secret"
)

// CheckToken refuses what no server gives out as a token, before anybody is asked. The
// value is not repeated.
func CheckToken(t string) error {
	if n := len(t); n < 8 || n > 512 || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &fault.Fault{
			Code: fault.Usage, What: "that is no token of a bot", Means: "one has 8 to 512 visible characters, usually 26, in one line; nothing was changed",
			Do: "copy it as the server showed it when the bot was made", Key: "mattermost-token",
		}
	}
	return nil
}

// Stored gives the token that is kept; an empty one if there is no store, or none in it.
func Stored(c secret.Config) (secret.Text, error) {
	s, err := secret.Open(c)
	if err == nil {
		var t secret.Text
		t, err = s.Get(setup.GatewayToken)
		if err == nil {
			return t, nil
		}
	}
	_, gone := os.Lstat(filepath.Join(c.Dir, c.File))
	if errors.Is(err, secret.ErrUnknown) || errors.Is(gone, fs.ErrNotExist) {
		return secret.Text{}, nil
	}
	return secret.Text{}, storeFault(err)
}

// Keep puts the token into the store, which is made if there is none.
func Keep(c secret.Config, t secret.Text) error {
	if _, err := secret.Create(c); err != nil {
		return storeFault(err)
	}
	s, err := secret.Open(c)
	if err == nil {
		err = s.Set(setup.GatewayToken, t)
	}
	return storeFault(err)
}

// storeFault makes a fault of an error of package secret, whose advice is mostly about
// brokerd's store.
func storeFault(err error) error {
	var e *config.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	f := &fault.Fault{
		What: "the store of the bot's token can't be used", Err: errors.New(e.What), Key: "mattermost-token",
		Do: "if it can't be mended, move " + setup.GatewayStore + " and " + setup.GatewayKey + " away and run bxctl mattermost setup: both are made anew",
	}
	if e.Runbook == "secret-permissions" {
		f.Do, _, _ = strings.Cut(e.Do, "; ")
		f.Do += "; if others may have read store and key, make a new token on the server"
	}
	return f
}
