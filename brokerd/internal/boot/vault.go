package boot

import (
	"fmt"
	"log/slog"
	"sync"

	"boxmaker/brokerd/internal/scan"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// A vault is the store of secrets as the driver uses it. A store that was never
// made holds nothing. One that cannot be read any more gives no value, but what
// was read before is still taken out of texts.
type vault struct {
	cfg secret.Config
	log *slog.Logger

	mu    sync.Mutex // guards what follows
	store *secret.Store
	cache scan.Cache
	last  *scan.Scanner // of the newest list that could be read
	err   error         // why the newest could not
}

// openVault refuses a store or a key that is there and not as it must be.
func openVault(cfg secret.Config, log *slog.Logger) (*vault, error) {
	v := &vault{cfg: cfg, log: log}
	if err := v.open(); err != nil && !isMissing(err) {
		return nil, err
	}
	return v, nil
}

// open opens the store, if there is one now. Precondition: mu is held, or nobody
// else has v.
func (v *vault) open() error {
	if v.store != nil {
		return nil
	}
	s, err := secret.Open(v.cfg)
	if err == nil {
		v.store = s
	}
	return err
}

// Get gives a value.
func (v *vault) Get(name string) (secret.Text, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.open(); err != nil {
		return secret.Text{}, err
	}
	t, err := v.store.Get(name)
	if err != nil {
		return t, err
	}
	return t, nil
}

// withheld stands for a text that nobody could look through.
const withheld = "[withheld: the store of secrets was made after brokerd began and cannot be read, so that nobody knows whether a secret is in this text; the owner's bxctl status says more]"

// Clean takes the values out of a text.
func (v *vault) Clean(text string) string {
	s, err := v.scanner()
	switch {
	case err != nil && text != "":
		return withheld
	case s == nil:
		return text
	}
	clean, _ := s.Clean(text)
	return clean
}

// scanner is nil where there are no values. An error means that they never could
// be read.
func (v *vault) scanner() (*scan.Scanner, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.open(); err != nil {
		if isMissing(err) {
			err = nil
		}
		return nil, err
	}
	all, err := v.store.All()
	if err != nil && v.err == nil {
		v.log.Error("the secrets cannot be read any more; what was read before is still taken out of results", "error", err.Error())
	}
	v.err = err
	if err == nil || len(all) > 0 {
		v.last = v.cache.For(all)
	}
	return v.last, nil
}

// check is the row of the status.
func (v *vault) check() proto.Check {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := proto.Check{Name: "secrets", State: "ok"}
	err := v.open()
	var names []string
	if err == nil {
		names, err = v.store.Names()
	}
	switch {
	case isMissing(err):
		c.State, c.Detail = "skipped", "there is no store of secrets; `bxctl init` makes one"
	case err != nil:
		c.State, c.Detail, c.Runbook = "failed", err.Error(), "secret-store"
	default:
		c.Detail = fmt.Sprintf("%d secrets, key: %s", len(names), v.store.Source())
	}
	return c
}
