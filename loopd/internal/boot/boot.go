// Package boot brings loopd from start to its first turn: it waits for the
// inference server, runs the self-test, and knows from then on what a new epoch
// starts with. Until it is done no turn starts; what it does in the meantime
// stands in the status.
package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/agent"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/neutral"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/selftest"
	"boxmaker/loopd/internal/settings"
	"boxmaker/loopd/internal/toolset"

	"github.com/go-json-experiment/json/jsontext"
)

// thinkingMark is what the server writes at the end of thinking that hits its
// cap. It is part of the sampling bytes of an epoch. Its form matters: the server
// tokenises it apart from what stands around it, so that only a text that begins
// with one space and ends in a letter comes back as the same tokens when the
// template renders the message, and the next turn hits the cache.
const thinkingMark = " I have thought long enough and answer now"

// maxSystem bounds a replaced system prompt, in bytes.
const maxSystem = 16 << 10

// Config is what a Boot works with.
type Config struct {
	Model    *llama.Client
	Settings settings.Settings
	System   string // text of the system prompt
	Log      *slog.Logger
}

// A Boot is made by [New] and run once.
type Boot struct {
	cfg   Config
	since time.Time

	mu     sync.Mutex // guards status
	status proto.Status
}

// New makes a Boot.
func New(cfg Config) *Boot {
	b := &Boot{cfg: cfg, since: time.Now()}
	b.status = proto.Status{State: "starting", Since: proto.Time(b.since), Checks: []proto.Check{}}
	return b
}

// Status tells how far it has come. The caller adds what it knows itself.
func (b *Boot) Status() *proto.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Checks = append([]proto.Check{}, s.Checks...)
	return &s
}

func (b *Boot) update(f func(*proto.Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

// SystemPrompt reads the owner's replacement of the system prompt, or gives the
// built-in one if path is empty.
func SystemPrompt(path string) (string, error) {
	if path == "" {
		return toolset.DefaultSystem(), nil
	}
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("prompt.system cannot be read: %w (see runbook: system-prompt)", err)
	case len(text) > maxSystem:
		return "", fmt.Errorf("prompt.system has %d bytes; the limit is %d (see runbook: system-prompt)", len(text), maxSystem)
	case !utf8.Valid(text):
		return "", errors.New("prompt.system is not UTF-8 text (see runbook: system-prompt)")
	case strings.TrimSpace(string(text)) == "":
		return "", errors.New("prompt.system is empty; leave the key out for the built-in prompt (see runbook: system-prompt)")
	}
	return strings.TrimSpace(string(text)), nil
}

// Run returns once the server has passed. An error other than the context's is a
// check that failed: the owner has to change something.
func (b *Boot) Run(ctx context.Context) (agent.Serving, error) {
	sampling, err := b.sampling()
	if err != nil {
		return agent.Serving{}, err
	}
	system := prompt.SystemMessage(b.cfg.System)
	breaks := 0
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		report, err := selftest.Run(ctx, b.selftest(sampling, system))
		if err == nil {
			return b.passed(report, sampling, system), nil
		}
		var e *llama.Error
		switch {
		case ctx.Err() != nil:
			return agent.Serving{}, ctx.Err()
		case !errors.As(err, &e):
			return agent.Serving{}, err
		case e.Why == proto.WhyUnreachable:
			b.wait(absence(e))
		case brokeOff(e) && breaks < maxBreaks:
			breaks++
			b.wait("the inference server broke off in the middle of the self-test (" + e.Message + "), which is tried again (see runbook: " + e.Runbook() + ")")
		default:
			return agent.Serving{}, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return agent.Serving{}, ctx.Err()
		}
	}
}

const (
	away    = "the inference server cannot be reached; start it, or check the address that inferproxy was given (see runbook: server-unreachable)"
	loading = "the inference server is loading its model"
)

// absence says why a server is not there yet.
func absence(e *llama.Error) string {
	if e.Status == http.StatusServiceUnavailable {
		return loading
	}
	return away
}

// maxBreaks is how often a server may die during the self-test before it counts as
// one that does not fit.
const maxBreaks = 4

// brokeOff tells a server that died or failed at work, as one does that is just
// being restarted, from one that gave an answer that does not do.
func brokeOff(e *llama.Error) bool {
	return e.Why == proto.WhyCut || e.Why == proto.WhyServerError && e.Retry
}

// wait says in status and log why no turn can start yet.
func (b *Boot) wait(detail string) {
	b.cfg.Log.Warn("waiting for the inference server", "detail", detail)
	b.update(func(s *proto.Status) { s.State, s.Detail, s.Checks = "waiting", detail, []proto.Check{} })
}

// selftest configures the self-test with the very bytes that sessions will send.
func (b *Boot) selftest(sampling, system jsontext.Value) selftest.Config {
	set := b.cfg.Settings
	return selftest.Config{
		Client: b.cfg.Model, System: system, Tools: toolset.Tools(), Sampling: sampling,
		Main: set.Slots.Main, Background: set.Slots.Background, Skip: set.SelfTest.Skip,
		Expect: selftest.Expect{
			Model: set.Upstream.Model, Context: set.Expect.Context, Slots: set.Expect.Slots,
			Template: set.Expect.Template, Build: set.Expect.Build,
		},
		On: func(c proto.Check) {
			b.update(func(s *proto.Status) { s.State, s.Detail, s.Checks = "starting", "", append(s.Checks, c) })
		},
		Wait: func(ev llama.Event) {
			detail := ""
			switch ev.(type) {
			case llama.Loading:
				detail = loading
			case llama.Unreachable:
				detail = away
			default:
				return
			}
			b.update(func(s *proto.Status) { s.State, s.Detail = "waiting", detail })
		},
	}
}

func (b *Boot) sampling() (jsontext.Value, error) {
	s := b.cfg.Settings.Sampling
	return prompt.Sampling(prompt.Params{
		Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK,
		MaxTokens: s.MaxTokens, ThinkingCap: s.ThinkingTokens, ThinkingMessage: thinkingMark,
		PingSeconds: pings(time.Duration(b.cfg.Settings.Upstream.Idle)),
	})
}

// pings is how often the server is asked to show that it lives, in seconds: three
// times within the limit of silence. The server's own default, 30 s, is that
// limit's default too, and a batch of a slow prompt may take as long.
func pings(idle time.Duration) int { return max(1, min(10, int(idle/(3*time.Second)))) }

func (b *Boot) passed(r selftest.Report, sampling, system jsontext.Value) agent.Serving {
	b.update(func(s *proto.Status) {
		s.State, s.Detail, s.Server, s.Baseline = "ready", "", r.Server, r.Baseline
	})
	b.cfg.Log.Info("self-test passed", "model", r.Server.Model, "build", r.Server.Build, "context", r.Server.Context, "baseline", r.Baseline)
	return agent.Serving{
		Neutral:      neutral.New(b.cfg.Settings.Neutral.Tokens, r.Template),
		Slots:        r.Server.Slots,
		ThinkingMark: thinkingMark,
		Baseline: func(slot int) *proto.Baseline {
			return &proto.Baseline{
				Model: r.Server.Model, Slot: slot, Sampling: sampling, Tools: toolset.Tools(),
				System: system, Template: r.Server.Template, Window: r.Server.Context,
			}
		},
	}
}
