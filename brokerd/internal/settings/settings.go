// Package settings is brokerd's configuration file: its keys, their defaults and
// their bounds. A file that leaves everything out is valid.
package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"boxmaker/internal/config"
)

// Settings is config/brokerd.toml.
type Settings struct {
	Approval Approval `toml:"approval"`
	Calls    Calls    `toml:"calls"`
	Limits   Limits   `toml:"limits"`
	Secrets  Secrets  `toml:"secrets"`
	Gateway  Gateway  `toml:"gateway"`
}

// Approval says how the owner is asked.
type Approval struct {
	Expires config.Duration `toml:"expires"` // then it is denied
	Waiting int             `toml:"waiting"` // as many may wait at a time
}

// Calls bounds what goes on at a time.
type Calls struct {
	Running int `toml:"running"` // containers; more calls wait in line
	Live    int `toml:"live"`    // calls that are decided, wait or run; more are refused
	Session int `toml:"session"` // of these in one session
	Rate    int `toml:"rate"`    // calls a minute, over a long time; ten times as many at once
}

// Limits hold for every call. Those of time, output, memory and processes are in
// its grant, or runnerd's.
type Limits struct {
	Egress config.Size `toml:"egress"` // bytes over the network, both ways
}

// Secrets says where the key of the store is.
type Secrets struct {
	Key string `toml:"key"` // absolute path; empty: where bxctl init put it
}

// Default is the configuration of an empty file.
func Default() Settings {
	return Settings{
		Approval: Approval{Expires: config.Duration(15 * time.Minute), Waiting: 16},
		Calls:    Calls{Running: 8, Live: 64, Session: 4, Rate: 240},
		Limits:   Limits{Egress: 64 << 20},
		Gateway:  defaultGateway(),
	}
}

// Load reads path over the defaults. An error is a *config.Error.
func Load(path string) (Settings, error) {
	s := Default()
	if err := config.Load(path, &s); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// Validate checks bounds; config.Load calls it.
func (s *Settings) Validate() error {
	errs := []error{
		between("approval.expires", s.Approval.Expires, time.Second, 7*24*time.Hour),
		within("approval.waiting", s.Approval.Waiting, 1, 64),
		within("calls.running", s.Calls.Running, 1, 64),
		within("calls.live", s.Calls.Live, 1, 1024),
		within("calls.session", s.Calls.Session, 1, 64),
		within("calls.rate", s.Calls.Rate, 1, 100_000),
	}
	errs = append(errs, s.Gateway.validate())
	if v := s.Limits.Egress; v < 1<<10 || v > 64<<30 {
		errs = append(errs, fmt.Errorf("limits.egress is %s; it must be from 1KiB to 64GiB", v))
	}
	if s.Secrets.Key != "" && !filepath.IsAbs(s.Secrets.Key) {
		errs = append(errs, errors.New("secrets.key is not an absolute path"))
	}
	return errors.Join(errs...)
}

func within(key string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("%s is %d; it must be from %d to %d", key, v, low, high)
	}
	return nil
}

func between(key string, v config.Duration, low, high time.Duration) error {
	if time.Duration(v) < low || time.Duration(v) > high {
		return fmt.Errorf("%s is %s; it must be from %s to %s", key, v, low, high)
	}
	return nil
}
