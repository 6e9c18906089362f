// Package loopdconf reads loopd's configuration file for the owner's tools.
//
// loopd's own settings package can't be imported from here, so the keys stand
// here once more; a test holds the two together. What loopd accepts, this
// accepts; the bounds of numbers are loopd's to judge, but for those that other
// settings depend on.
package loopdconf

import (
	"errors"
	"path/filepath"
	"time"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
)

// Settings is config/loopd.toml.
type Settings struct {
	Upstream Upstream `toml:"upstream"`
	Slots    Slots    `toml:"slots"`
	Sampling Sampling `toml:"sampling"`
	Limits   Limits   `toml:"limits"`
	Expect   Expect   `toml:"expect"`
	SelfTest SelfTest `toml:"selftest"`
	Neutral  Neutral  `toml:"neutral"`
	Prompt   Prompt   `toml:"prompt"`
}

// Upstream says which model is asked for, and how patient loopd is.
type Upstream struct {
	Model     string          `toml:"model"`
	FirstByte config.Duration `toml:"first_byte"`
	Load      config.Duration `toml:"load"`
	Idle      config.Duration `toml:"idle"`
	Reach     config.Duration `toml:"reach"`
}

// Slots are the server's slots that loopd uses, by id_slot.
type Slots struct {
	Main       int `toml:"main"`
	Background int `toml:"background"`
}

// Sampling is sent with every request; decimals are text.
type Sampling struct {
	Temperature    string `toml:"temperature"`
	TopP           string `toml:"top_p"`
	TopK           int    `toml:"top_k"`
	MaxTokens      int    `toml:"max_tokens"`
	ThinkingTokens int    `toml:"thinking_tokens"`
}

// Limits bound turns and messages.
type Limits struct {
	ToolRounds int         `toml:"tool_rounds"`
	Result     config.Size `toml:"result"`
	Message    config.Size `toml:"message"`
	Queue      int         `toml:"queue"`
}

// Expect pins what loopd's self-test must find; zero is not checked.
type Expect struct {
	Context  int64  `toml:"context"` // tokens of a slot, at least
	Slots    int    `toml:"slots"`   // at least
	Template string `toml:"template"`
	Build    string `toml:"build"` // prefix
}

// SelfTest names checks that the owner answers for.
type SelfTest struct {
	Skip []string `toml:"skip"`
}

// Neutral adds control tokens of the owner's model.
type Neutral struct {
	Tokens []string `toml:"tokens"`
}

// Prompt replaces the built-in system prompt and sets the clock's zone.
type Prompt struct {
	System string `toml:"system"`
	Zone   string `toml:"zone"`
}

// Default is the configuration of an empty file.
func Default() Settings {
	return Settings{
		Upstream: Upstream{
			FirstByte: config.Duration(10 * time.Minute), Load: config.Duration(3 * time.Minute),
			Idle: config.Duration(30 * time.Second), Reach: config.Duration(30 * time.Second),
		},
		Slots:    Slots{Main: 0, Background: 1},
		Sampling: Sampling{Temperature: "0.6", TopP: "0.95", TopK: 20, MaxTokens: 8192, ThinkingTokens: 4096},
		Limits:   Limits{ToolRounds: 25, Result: 32 << 10, Message: 256 << 10, Queue: 32},
		Prompt:   Prompt{Zone: "Local"},
	}
}

// Load reads loopd.toml of an installation over the defaults. An error is a
// *config.Error, or several.
func Load(l config.Layout) (Settings, error) {
	s := Default()
	return s, config.Load(filepath.Join(l.Config, setup.FileLoopd), &s)
}

// Validate checks what loopd's start depends on; config.Load calls it.
func (s *Settings) Validate() error {
	var errs []error
	in := func(key string, v, low, high int) {
		if v < low || v > high {
			errs = append(errs, config.Invalid(key, "%d is out of range; it must be from %d to %d", v, low, high))
		}
	}
	in("slots.main", s.Slots.Main, 0, 1023)
	in("slots.background", s.Slots.Background, 0, 1023)
	in("sampling.max_tokens", s.Sampling.MaxTokens, 64, 1<<20)
	in("sampling.thinking_tokens", s.Sampling.ThinkingTokens, 0, s.Sampling.MaxTokens)
	if s.Slots.Main == s.Slots.Background {
		errs = append(errs, config.Invalid("slots.background", "it is the same slot as slots.main: background work would throw the live conversation out of the cache"))
	}
	if _, err := time.LoadLocation(s.Prompt.Zone); err != nil {
		errs = append(errs, config.Invalid("prompt.zone", "%v", err))
	}
	return errors.Join(errs...)
}
