// Package settings is loopd's configuration file: its keys, their defaults and
// their bounds. A file that leaves everything out is valid.
package settings

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

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

// Upstream says how patient loopd is with the inference server. There is no
// total deadline: a stream may go on for hours as long as it is alive.
type Upstream struct {
	Model     string          `toml:"model"`      // empty: the first that the server lists
	FirstByte config.Duration `toml:"first_byte"` // a busy slot is silent until it is free
	Load      config.Duration `toml:"load"`       // 503 while a model loads
	Idle      config.Duration `toml:"idle"`       // silence after the first byte
	Reach     config.Duration `toml:"reach"`      // a server that refuses connections
}

// Slots are the server's slots that loopd uses, by id_slot.
type Slots struct {
	Main       int `toml:"main"`
	Background int `toml:"background"`
}

// Sampling is sent with every request of a new epoch. The decimal numbers are
// text, so that their bytes in the request are the ones in the file.
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
	Result     config.Size `toml:"result"`  // bytes of one tool result
	Message    config.Size `toml:"message"` // bytes of one message of the owner
	Queue      int         `toml:"queue"`   // messages that may wait in one session
}

// Expect pins what the self-test must find; a zero value is not checked.
type Expect struct {
	Context  int64  `toml:"context"`  // n_ctx of a slot, at least
	Slots    int    `toml:"slots"`    // at least
	Template string `toml:"template"` // SHA-256 of the chat template, hex
	Build    string `toml:"build"`    // prefix of the server's build
}

// SelfTest names checks that the owner takes upon himself.
type SelfTest struct {
	Skip []string `toml:"skip"`
}

// Neutral adds control tokens of the owner's model.
type Neutral struct {
	Tokens []string `toml:"tokens"`
}

// Prompt replaces the built-in system prompt and sets the clock's zone.
type Prompt struct {
	System string `toml:"system"` // path of a file; empty: built in
	Zone   string `toml:"zone"`   // IANA name, or Local
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

// Load reads path over the defaults. An error is a *config.Error.
func Load(path string) (Settings, error) {
	s := Default()
	if err := config.Load(path, &s); err != nil {
		return Settings{}, err
	}
	return s, nil
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.[0-9]{1,6})?$`)

// Validate checks bounds; config.Load calls it.
func (s *Settings) Validate() error {
	errs := []error{
		within("slots.main", s.Slots.Main, 0, 1023), within("slots.background", s.Slots.Background, 0, 1023),
		within("sampling.top_k", s.Sampling.TopK, 0, 1000), within("sampling.max_tokens", s.Sampling.MaxTokens, 64, 1<<20),
		within("sampling.thinking_tokens", s.Sampling.ThinkingTokens, 0, s.Sampling.MaxTokens),
		within("limits.tool_rounds", s.Limits.ToolRounds, 1, 1000), within("limits.queue", s.Limits.Queue, 1, 10000),
		within("limits.result", int(s.Limits.Result), 1<<10, 1<<20), within("limits.message", int(s.Limits.Message), 1<<10, 2<<20),
		number("sampling.temperature", s.Sampling.Temperature, 2), number("sampling.top_p", s.Sampling.TopP, 1),
	}
	if s.Slots.Main == s.Slots.Background {
		errs = append(errs, errors.New("slots.main and slots.background are the same slot: background work would throw the live conversation out of the cache"))
	}
	for name, d := range map[string]config.Duration{"first_byte": s.Upstream.FirstByte, "load": s.Upstream.Load, "idle": s.Upstream.Idle, "reach": s.Upstream.Reach} {
		if time.Duration(d) < 100*time.Millisecond || time.Duration(d) > 24*time.Hour {
			errs = append(errs, fmt.Errorf("upstream.%s is outside 100ms to 24h", name))
		}
	}
	if _, err := time.LoadLocation(s.Prompt.Zone); err != nil {
		errs = append(errs, fmt.Errorf("prompt.zone: %w", err))
	}
	return errors.Join(errs...)
}

func within(key string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("%s is %d; it must be from %d to %d", key, v, low, high)
	}
	return nil
}

func number(key, text string, most float64) error {
	v, err := strconv.ParseFloat(text, 64)
	if !decimal.MatchString(text) || err != nil || v > most {
		return fmt.Errorf("%s is %q; it must be a plain decimal number from 0 to %g", key, text, most)
	}
	return nil
}
