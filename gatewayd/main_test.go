package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/settings"
	"boxmaker/internal/testkit/fakemost"
)

// The program itself is this test binary once more.
const asProgram = "GATEWAYD_TEST_PROGRAM"

// roleUID is a user for the program where the test is root.
const roleUID = 61236

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	all := []string{"-config", "a", "-state", "b", "-secrets", "c", "-key", "d", "-loop", "e", "-listen", "f"}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"enough", all, ""},
		{"as bxctl up gives them", append([]string{"-peer", "1", "-listen-status", "g", "-peer-status", "0", "-die-with-parent", "-uid", "5", "-secrets-owner", "6"}, all...), ""},
		{"no key", []string{"-config", "a", "-state", "b", "-secrets", "c", "-loop", "e", "-listen", "f"}, "-key"},
		{"nothing", nil, "-config"},
		{"an argument", append([]string{"x"}, all...), "unexpected"},
		{"an unknown flag", append([]string{"-token", "x"}, all...), "not defined"},
		{"a peer that is none", append([]string{"-peer", "me"}, all...), "invalid"},
		{"a large uid", append([]string{"-uid", "4294967296"}, all...), "-uid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(tc.args)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// The program as it runs: confined, as a user of its own, on a server.
func TestProgram(t *testing.T) {
	h := newHouse(t)
	cmd := h.start()
	h.row("mattermost", "ok", "connected as @boxmaker")
	for _, row := range h.status().Confinement {
		if row.State != "ok" && !strings.HasPrefix(row.Detail, "not available") {
			t.Errorf("%s is %s: %s", row.Name, row.State, row.Detail)
		}
	}
	if n := len(h.status().Checks); n != 4 {
		t.Errorf("%+v", h.status().Checks)
	}
	h.fake.Post(h.me, h.dm, "", "help")
	h.row("queue", "ok", "0 messages")
	h.row("events", "ok", "the last one at")
	h.approval()
	h.owns()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v\n%s", err, &h.log)
	}
	if strings.Contains(h.log.String(), h.bot.Token) {
		t.Error("the token is in the log")
	}
}

// TestCaseP57: there is no door to it but its Unix socket.
func TestCaseP57(t *testing.T) {
	h := newHouse(t)
	cmd := h.start()
	h.row("mattermost", "ok", "")
	inodes := map[string]bool{}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid))
	if err != nil {
		t.Skip("its descriptors cannot be looked at here: ", err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", cmd.Process.Pid, fd.Name())); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	seen := 0
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || !inodes[f[9]] {
				continue
			}
			seen++
			if f[3] == "0A" {
				t.Errorf("it listens: %s", line)
			}
		}
	}
	if seen == 0 {
		t.Error("not even its connection to the server is seen, so that this says nothing")
	}
}

// TestRefusals: what the owner has to mend first ends in 78 and a word on it.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name string
		harm func(h *house)
		want string
	}{
		{"no settings", func(h *house) { os.Remove(filepath.Join(h.dir, "config/gatewayd.toml")) }, "gatewayd.toml"},
		{"a slip in the settings", func(h *house) { h.write("config/gatewayd.toml", "owners = [") }, "gatewayd.toml:1"},
		{"no owner", func(h *house) { h.write("config/gatewayd.toml", "url = \"https://chat.example.com\"\n") }, "nobody would be heard"},
		{"in the clear", func(h *house) { h.settings("http://chat.example.com", h.me.ID) }, "in the clear"},
		{"no address", func(h *house) { h.settings("chat", h.me.ID) }, "no host"},
		{"no store", func(h *house) { os.Remove(filepath.Join(h.dir, "secrets", settings.StoreName)) }, "bxctl mattermost setup (see runbook: mattermost-token)"},
		{"no key", func(h *house) { os.Remove(filepath.Join(h.dir, "keys/k")) }, "mattermost-token"},
		{"no token in it", func(h *house) {
			os.Remove(filepath.Join(h.dir, "secrets", settings.StoreName))
			os.Remove(filepath.Join(h.dir, "keys/k"))
			h.token("another", "long enough")
		}, "mattermost-token"},
		{"no token but something", func(h *house) { h.token(settings.TokenName, "two words") }, "visible ASCII"},
		{"others may read the store", func(h *house) { os.Chmod(filepath.Join(h.dir, "secrets", settings.StoreName), 0o644) }, "mattermost-token"},
		{"no state", func(h *house) { os.RemoveAll(filepath.Join(h.dir, "state")) }, "gatewayd-state"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t)
			tc.harm(h)
			err := h.command().Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitRefused || !strings.Contains(h.log.String(), tc.want) {
				t.Errorf("%v\n%s", err, &h.log)
			}
			if strings.Contains(h.log.String(), h.bot.Token) {
				t.Error("the token is in the log")
			}
		})
	}
}

// What is no fault of the settings ends nothing: it is told, and tried again.
func TestTroubleThatIsOutlasted(t *testing.T) {
	for _, tc := range []struct {
		name         string
		harm         func(t *testing.T, h *house)
		detail, book string
	}{
		{"nobody at the address", func(_ *testing.T, h *house) { h.settings("http://127.0.0.1:1", h.me.ID) }, "refused", "mattermost-unreachable"},
		{"a wrong token", func(_ *testing.T, h *house) { h.token(settings.TokenName, fakemost.NewID()) }, "401", "mattermost-token"},
		{"a bot that is disabled", func(_ *testing.T, h *house) { h.fake.Disable(h.bot) }, "401", "mattermost-token"},
		{"an expired certificate", func(t *testing.T, h *house) { h.settings(expired(t, h), h.me.ID) }, "certificate", "mattermost-certificate"},
		{"no chat server", func(t *testing.T, h *house) {
			s := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(s.Close)
			h.settings(s.URL, h.me.ID)
		}, "404", "mattermost-unreachable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t)
			tc.harm(t, h)
			cmd := h.start()
			if c := h.row("mattermost", "failed", tc.detail); c.Runbook != tc.book {
				t.Errorf("%+v", c)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the end: %v", err)
			}
			if strings.Contains(h.log.String(), h.bot.Token) {
				t.Error("the token is in the log")
			}
		})
	}
}

// expired puts a certificate of yesterday before the server, signed by somebody whom
// the program trusts.
func expired(t *testing.T, h *house) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	make := func(c *x509.Certificate, parent *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-9999 * time.Hour), NotAfter: now.Add(9999 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := make(ca, ca)
	to, err := url.Parse(h.fake.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(to))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{make(leaf, ca)}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	trust := filepath.Join(h.dir, "ca.pem")
	if err := os.WriteFile(trust, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "SSL_CERT_FILE="+trust, "SSL_CERT_DIR="+h.dir)
	return s.URL
}

// TestNewSettings: a change ends the program for a new start, and one that cannot be
// used leaves what held before.
func TestNewSettings(t *testing.T) {
	t.Parallel() // it waits, lest a supervisor take it for a crash
	h := newHouse(t)
	cmd := h.start()
	h.row("mattermost", "ok", "")
	h.write("config/gatewayd.toml", "owners = [")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &h.log)
	}
	cmd = h.start()
	if c := h.row("settings", "failed", "what held before still holds"); c.Runbook != "gatewayd-settings" {
		t.Errorf("%+v", c)
	}
	h.row("mattermost", "ok", "")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	h.settings(h.fake.URL, h.me.ID)
	h.start()
	h.row("mattermost", "ok", "")
	for _, c := range h.status().Checks {
		if c.Name == "settings" {
			t.Errorf("%+v", c)
		}
	}
}
