package mattermost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

const (
	playEnv = "MATTERMOST_TEST_PLAY"
	token   = "stbecqdfdj8pwf5gw8a14n5o7e"
)

// The test binary also plays gatewayd, in the way that the environment names.
func TestMain(m *testing.M) {
	if how := os.Getenv(playEnv); how != "" {
		os.Exit(play(how))
	}
	os.Exit(m.Run())
}

func play(how string) int {
	body, err := frame.Read(os.Stdin)
	if err != nil {
		return 9
	}
	m, err := proto.ProbeRequests.Decode(body)
	if err != nil {
		return 9
	}
	tok, _ := io.ReadAll(os.Stdin)
	ask, _ := m.(*proto.Probe)
	send := func(m proto.Message) int {
		b, err := proto.Encode(m)
		if err != nil || frame.Write(os.Stdout, b) != nil {
			return 9
		}
		return 0
	}
	switch how {
	case "ok": // tells what it was given
		return send(&proto.Probed{
			Steps: []proto.ProbeStep{{Name: "server", State: "ok", Detail: strings.Join(os.Args[1:], " ")}}, Version: ask.URL,
			Bot: proto.Named{Name: fmt.Sprint(len(tok), strings.Contains(strings.Join(os.Environ(), " "), string(tok)))},
		})
	case "crash":
		fmt.Fprintf(os.Stderr, "first\npanic: %s\x1b[2J\n", tok)
		return 1
	case "silent":
		return 0
	case "nonsense":
		_, _ = os.Stdout.WriteString("hello, here I am")
		return 0
	case "empty":
		return send(&proto.Probed{})
	case "other":
		return send(&proto.Probe{URL: "x"})
	case "hang":
		select {}
	}
	return 9
}

func prober(how string) Prober {
	return Prober{Program: os.Args[0], Env: []string{playEnv + "=" + how}}
}

// The token goes over the pipe: it is neither an argument nor in the environment.
func TestAsk(t *testing.T) {
	p := prober("ok")
	p.UID = 62106
	m, err := p.Ask(t.Context(), &proto.Probe{URL: "https://chat.example.com"}, secret.NewText(token))
	if err != nil {
		t.Fatal(err)
	}
	if m.Version != "https://chat.example.com" || m.Bot.Name != "26 false" || m.Steps[0].Detail != "probe -uid 62106" {
		t.Errorf("%+v", m)
	}
	if m, err = prober("ok").Ask(t.Context(), &proto.Probe{URL: "x"}, secret.Text{}); err != nil || m.Steps[0].Detail != "probe" || !strings.HasPrefix(m.Bot.Name, "0 ") {
		t.Errorf("%+v %v", m, err)
	}
}

// Whatever goes wrong with gatewayd is told, without the token.
func TestAskInVain(t *testing.T) {
	for _, c := range []struct{ how, key, words string }{
		{"crash", "mattermost-probe", "[secret]"},
		{"silent", "mattermost-probe", "EOF"},
		{"nonsense", "mattermost-probe", "no answer"},
		{"empty", "mattermost-probe", "says nothing"},
		{"other", "mattermost-probe", "no answer"},
	} {
		_, err := prober(c.how).Ask(t.Context(), &proto.Probe{URL: "x"}, secret.NewText(token))
		var f *fault.Fault
		if !errors.As(err, &f) || f.Key != c.key {
			t.Errorf("%s: %v", c.how, err)
			continue
		}
		if text := fault.Text(err); !strings.Contains(text, c.words) || strings.Contains(text, token) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %s", c.how, text)
		}
	}
	p := Prober{Program: filepath.Join(t.TempDir(), "gatewayd")}
	var f *fault.Fault
	if _, err := p.Ask(t.Context(), &proto.Probe{URL: "x"}, secret.Text{}); !errors.As(err, &f) || f.Key != "program-missing" {
		t.Errorf("%v", err)
	}
	p = prober("hang")
	p.Patience = time.Millisecond
	if _, err := p.Ask(t.Context(), &proto.Probe{URL: "x"}, secret.Text{}); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &f) || f.Key != "mattermost-probe" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := prober("hang").Ask(ctx, &proto.Probe{URL: "x"}, secret.Text{}); !errors.Is(err, context.Canceled) || errors.As(err, new(*fault.Fault)) {
		t.Errorf("%v", err)
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	l := config.Layout{Secrets: filepath.Join(dir, "secrets"), Keys: filepath.Join(dir, "keys")}
	for _, d := range []string{l.Secrets, l.Keys} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := setup.DefaultGateway().Secret(l, false, setup.DefaultSettings())
	want := func(v string) {
		t.Helper()
		if got, err := Stored(c); err != nil || got.Reveal() != v {
			t.Errorf("stored is %d bytes, %v; want %d", len(got.Reveal()), err, len(v))
		}
	}
	want("")
	for _, v := range []string{token, "another-token"} {
		if err := Keep(c, secret.NewText(v)); err != nil {
			t.Fatal(err)
		}
		want(v)
	}
	for _, path := range []string{filepath.Join(l.Secrets, setup.GatewayStore), c.Key.File} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode() != 0o600 {
			t.Errorf("%s: %v %v", path, fi, err)
		}
		if b, _ := os.ReadFile(path); bytes.Contains(b, []byte("another-token")) {
			t.Errorf("%s holds the token", path)
		}
	}
	broken := func(name, key, words string) {
		t.Helper()
		for _, err := range []error{second(Stored(c)), Keep(c, secret.NewText(token))} {
			var f *fault.Fault
			if !errors.As(err, &f) || f.Key != key || !strings.Contains(f.Error(), words) || strings.Contains(f.Error(), token) || strings.Contains(f.Error(), "bxctl init") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	store := filepath.Join(l.Secrets, setup.GatewayStore)
	if err := os.Chmod(store, 0o644); err != nil {
		t.Fatal(err)
	}
	broken("readable for all", "mattermost-token", "chmod 600 "+store)
	if err := os.Chmod(store, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.Key.File); err != nil {
		t.Fatal(err)
	}
	broken("without its key", "mattermost-token", "away and run bxctl mattermost setup")
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	want("")
	if err := Keep(c, secret.NewText(token)); err != nil {
		t.Error(err)
	}
	want(token)
}

func second[T any](_ T, err error) error { return err }

func TestCheckToken(t *testing.T) {
	if err := CheckToken(token); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "short", "two words and more", "a-line\nand-another", "not-ascii-ü-at-all", strings.Repeat("x", 513)} {
		err := CheckToken(bad)
		if err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}
