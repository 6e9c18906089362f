// Package settings is runnerd's configuration file: its keys, their defaults
// and their bounds. A file that leaves everything out is valid.
package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"boxmaker/internal/config"
)

// Settings is config/runnerd.toml.
type Settings struct {
	Runtime    string   `toml:"runtime"`    // crun or podman
	Path       string   `toml:"path"`       // of the runtime's program; empty: found on PATH
	Concurrent int      `toml:"concurrent"` // containers at one time; more calls wait
	Limits     Limits   `toml:"limits"`
	Userland   Userland `toml:"userland"`
}

// Limits hold for a call whose grant names none. Time and output always hold,
// memory and pids where the machine can enforce them. DiskFree is what every call
// that may write leaves free, of small file systems a tenth; 0 is none of that.
type Limits struct {
	Time     config.Duration `toml:"time"`
	Memory   config.Size     `toml:"memory"`
	Output   config.Size     `toml:"output"`
	PIDs     int             `toml:"pids"`
	DiskFree config.Size     `toml:"disk_free"`
}

// Userland says where the programs of run and shell come from.
type Userland struct {
	Root string `toml:"root"` // root file system for grants that want one and name none
}

// MaxOutput is the most that one call can give back: what fits into a frame.
const MaxOutput = 3<<20 - 64<<10

// Default is the configuration of an empty file.
func Default() Settings {
	return Settings{Runtime: "crun", Concurrent: 8, Limits: Limits{
		Time: config.Duration(2 * time.Minute), Memory: 512 << 20, Output: 1 << 20, PIDs: 256, DiskFree: 1 << 30,
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
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch s.Runtime {
	case "crun", "podman":
	default:
		bad(`runtime is %q; it must be "crun" or "podman"`, s.Runtime)
	}
	if s.Path != "" && !filepath.IsAbs(s.Path) {
		bad("path must be absolute")
	}
	if s.Userland.Root != "" && !filepath.IsAbs(s.Userland.Root) {
		bad("userland.root must be absolute")
	}
	if s.Concurrent < 1 || s.Concurrent > 64 {
		bad("concurrent is %d; it must be from 1 to 64", s.Concurrent)
	}
	if t := time.Duration(s.Limits.Time); t < time.Second || t > 24*time.Hour {
		bad("limits.time is outside 1s to 24h")
	}
	if s.Limits.Memory < 16<<20 {
		bad("limits.memory is less than 16MiB, which no tool can start in")
	}
	if s.Limits.Output < 4<<10 || s.Limits.Output > MaxOutput {
		bad("limits.output is outside 4KiB to %d bytes", MaxOutput)
	}
	if s.Limits.DiskFree < 0 || s.Limits.DiskFree > 1<<40 {
		bad("limits.disk_free is outside 0B to 1024GiB")
	}
	if s.Limits.PIDs < 16 || s.Limits.PIDs > 1<<16 {
		bad("limits.pids is %d; it must be from 16 to %d", s.Limits.PIDs, 1<<16)
	}
	return errors.Join(errs...)
}
