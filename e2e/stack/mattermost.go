package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/secret"
)

// The files that set a chat up.
const (
	gatewayFile  = "gatewayd.toml"
	gatewayStore = "gatewayd.age"
	gatewayKey   = "gatewayd.key"
	tokenName    = "mattermost-token"
)

// A Chat is what there is to set up of an owner's chat.
type Chat struct {
	URL, Token       string
	Plain            bool     // http:// to another machine
	Owners, Channels []string // ids
	CatchUp          string   // empty: as it is by default
}

// SetChat makes the files that `bxctl mattermost setup` makes, so that up starts
// gatewayd. To be called after init; also to change them.
func (s *Stack) SetChat(c Chat) {
	s.TB.Helper()
	text := fmt.Sprintf("url = %q\nplain = %t\nowners = %s\nchannels = %s\n", c.URL, c.Plain, list(c.Owners), list(c.Channels))
	if c.CatchUp != "" {
		text += fmt.Sprintf("[limits]\ncatch_up = %q\n", c.CatchUp)
	}
	path := filepath.Join(s.Layout.Config, gatewayFile)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		s.TB.Fatal(err)
	}
	if c.Token != "" {
		s.setToken(c.Token)
	}
}

func list(ids []string) string {
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = fmt.Sprintf("%q", id)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// setToken puts the bot's token into a store of its own.
func (s *Stack) setToken(token string) {
	s.TB.Helper()
	c := secret.Config{Dir: s.Layout.Secrets, File: gatewayStore, Key: secret.Key{File: filepath.Join(s.Layout.Keys, gatewayKey)}}
	if os.Geteuid() == 0 { // all in the folder is brokerd's there
		c.Owner = RoleUID("brokerd")
	}
	_, err := os.Lstat(filepath.Join(c.Dir, gatewayStore))
	if err != nil {
		_, err = secret.Create(c)
	}
	if err != nil {
		s.TB.Fatal(err)
	}
	store, err := secret.Open(c)
	if err == nil {
		err = store.Set(tokenName, secret.NewText(token))
	}
	if err != nil {
		s.TB.Fatal(err)
	}
}
