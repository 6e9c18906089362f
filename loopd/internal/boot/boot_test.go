package boot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/selftest"
	"boxmaker/loopd/internal/settings"
)

func newBoot(socket string, change func(*settings.Settings)) *Boot {
	set := settings.Default()
	if change != nil {
		change(&set)
	}
	model := llama.New(llama.Config{Socket: socket, Limits: llama.Limits{Reach: 50 * time.Millisecond, Load: 50 * time.Millisecond}})
	return New(Config{Model: model, Settings: set, System: "be brief", Log: slog.New(slog.DiscardHandler)})
}

func TestAServerThatFits(t *testing.T) {
	l := testkit.NewLlama(t)
	b := newBoot(l.Socket, nil)
	if s := b.Status(); s.State != "starting" {
		t.Error(s.State)
	}
	serving, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := b.Status()
	if s.State != "ready" || len(s.Checks) != len(selftest.Names()) || s.Baseline == 0 {
		t.Errorf("%+v", s)
	}
	if serving.Slots != s.Server.Slots || serving.Slots == 0 {
		t.Errorf("%d slots of %d", serving.Slots, s.Server.Slots)
	}
	base := serving.Baseline(1)
	if base.Slot != 1 || base.Window != s.Server.Context || base.Window == 0 || base.Template != s.Server.Template || base.Template == "" {
		t.Errorf("%+v", base)
	}
	if _, err := prompt.New(base); err != nil {
		t.Error(err)
	}
	if err := base.Validate(); err != nil {
		t.Error(err)
	}
}

func TestAServerThatDoesNotFitIsNamed(t *testing.T) {
	l := testkit.NewLlama(t)
	l.SetSlots(1)
	_, err := newBoot(l.Socket, nil).Run(t.Context())
	var f *selftest.Failure
	if !errors.As(err, &f) || !strings.Contains(err.Error(), "selftest-slots") {
		t.Fatal(err)
	}
	if _, err := newBoot(l.Socket, func(s *settings.Settings) { s.SelfTest.Skip = selftest.Names() }).Run(t.Context()); err != nil {
		t.Error("the owner took it upon himself, and still:", err)
	}
}

// TestAServerThatIsNotThereYet: it is waited for, for as long as it takes.
func TestAServerThatIsNotThereYet(t *testing.T) {
	l := testkit.NewLlama(t)
	link := filepath.Join(t.TempDir(), "later.sock")
	b := newBoot(link, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.Run(ctx)
		done <- err
	}()
	for b.Status().State != "waiting" {
		select {
		case err := <-done:
			t.Fatal("did not wait: ", err)
		case <-time.After(time.Millisecond):
		}
	}
	if s := b.Status(); !strings.Contains(s.Detail, "runbook: server-unreachable") && !strings.Contains(s.Detail, "runbook: selftest-server") {
		t.Error(s.Detail)
	}
	if err := os.Symlink(l.Socket, link); err != nil { // now it is there
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := b.Status(); s.State != "ready" || s.Detail != "" {
		t.Errorf("%+v", s)
	}
}

func TestSystemPrompt(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		p := filepath.Join(dir, "system.md")
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if got, err := SystemPrompt(""); err != nil || got == "" {
		t.Error(got, err)
	}
	if got, err := SystemPrompt(write("  mine\n")); err != nil || got != "mine" {
		t.Error(got, err)
	}
	for name, path := range map[string]string{"missing": filepath.Join(dir, "no"), "empty": write(" \n"), "a folder": dir} {
		if name == "empty" {
			path = write(" \n")
		}
		if _, err := SystemPrompt(path); err == nil || !strings.Contains(err.Error(), "runbook: system-prompt") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := SystemPrompt(write(strings.Repeat("x", maxSystem+1))); err == nil {
		t.Error("a huge prompt was taken")
	}
	if _, err := SystemPrompt(write("a\xff")); err == nil {
		t.Error("a prompt that is not UTF-8 was taken")
	}
}

func TestPings(t *testing.T) {
	for idle, want := range map[time.Duration]int{30 * time.Second: 10, time.Second: 1, 6 * time.Second: 2, time.Hour: 10} {
		if got := pings(idle); got != want {
			t.Errorf("idle %s: every %d s, want %d", idle, got, want)
		}
	}
}
