// Package settings is egressd's configuration file: its keys, their defaults
// and their bounds. A file that leaves everything out is valid.
package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"boxmaker/internal/config"
)

// Settings is config/egressd.toml.
type Settings struct {
	// Resolver is the name server, ip:port. Empty: as the machine resolves
	// names (/etc/resolv.conf and /etc/hosts).
	Resolver string `toml:"resolver"`
	Limits   Limits `toml:"limits"`
}

// Limits bound every door.
type Limits struct {
	Connections int             `toml:"connections"` // of one call at the same time
	Attempts    int             `toml:"attempts"`    // of one call in all
	Doors       int             `toml:"doors"`       // open at the same time
	Bytes       config.Size     `toml:"bytes"`       // of a call, both directions, where the grant has no figure; and the most that counts
	Idle        config.Duration `toml:"idle"`        // a connection without a byte
	Dial        config.Duration `toml:"dial"`        // names and all addresses together
}

// Default is the configuration of an empty file.
func Default() Settings {
	return Settings{Limits: Limits{
		Connections: 32, Attempts: 1000, Doors: 64, Bytes: 256 << 20,
		Idle: config.Duration(2 * time.Minute), Dial: config.Duration(10 * time.Second),
	}}
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
	l := s.Limits
	errs := []error{
		within("limits.connections", int64(l.Connections), 1, 1000), within("limits.attempts", int64(l.Attempts), 1, 100_000),
		within("limits.doors", int64(l.Doors), 1, 1000), within("limits.bytes", int64(l.Bytes), 1<<10, 1<<40),
	}
	for name, d := range map[string]config.Duration{"idle": l.Idle, "dial": l.Dial} {
		if time.Duration(d) < 100*time.Millisecond || time.Duration(d) > time.Hour {
			errs = append(errs, fmt.Errorf("limits.%s is outside 100ms to 1h", name))
		}
	}
	if s.Resolver != "" {
		if _, err := netip.ParseAddrPort(s.Resolver); err != nil {
			errs = append(errs, errors.New(`resolver must be an address with a port, such as "192.168.1.1:53"`))
		}
	}
	return errors.Join(errs...)
}

func within(key string, v, low, high int64) error {
	if v < low || v > high {
		return fmt.Errorf("%s is %d; it must be from %d to %d", key, v, low, high)
	}
	return nil
}
