package main

import (
	"bytes"
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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/settings"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
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
		{"as bxctl up gives them", append([]string{"-peer", "1", "-die-with-parent", "-uid", "5", "-secrets-owner", "6"}, all...), ""},
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

// A house is what bxctl up gives the program.
type house struct {
	t    *testing.T
	dir  string
	fake *fakemost.Server
	me   *fakemost.User
	bot  *fakemost.User
	dm   string
	env  []string
	log  buffer
}

// A buffer takes what a program prints while the test looks at it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }

func (b *buffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "gatewayd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &house{t: t, dir: dir, fake: fakemost.New(t)}
	h.me, h.bot = h.fake.AddUser("owner"), h.fake.AddBot("boxmaker")
	h.dm = h.fake.Direct(h.me, h.bot)
	for _, d := range []string{"config", "state", "secrets", "keys", "run/gatewayd", "run/loopd"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // the program becomes another user
		for _, d := range []string{"state", "run/gatewayd", "run/loopd"} {
			if err := os.Chown(filepath.Join(dir, d), roleUID, roleUID); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range []string{"", "run"} {
			if err := os.Chmod(filepath.Join(dir, d), 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.settings(h.fake.URL, h.me.ID)
	h.token(settings.TokenName, h.bot.Token)
	return h
}

func (h *house) settings(address string, owners ...string) {
	h.t.Helper()
	text := fmt.Sprintf("url = %q\nowners = [%s]\n", address, `"`+strings.Join(owners, `", "`)+`"`)
	h.write("config/gatewayd.toml", text)
}

func (h *house) write(name, text string) {
	h.t.Helper()
	at := filepath.Join(h.dir, name)
	if err := errors.Join(os.WriteFile(at+".new", []byte(text), 0o600), os.Rename(at+".new", at)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) token(name, value string) {
	h.t.Helper()
	c := secret.Config{Dir: filepath.Join(h.dir, "secrets"), File: settings.StoreName, Key: secret.Key{File: filepath.Join(h.dir, "keys/k")}}
	if _, err := os.Stat(c.Key.File); err != nil {
		if _, err := secret.Create(c); err != nil {
			h.t.Fatal(err)
		}
	}
	s, err := secret.Open(c)
	if err == nil {
		err = s.Set(name, secret.NewText(value))
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) command() *exec.Cmd {
	args := []string{
		"-config", "config/gatewayd.toml", "-state", "state", "-secrets", "secrets", "-key", "keys/k",
		"-loop", "run/loopd/loop.sock", "-listen", "run/gatewayd/gateway.sock", "-peer", strconv.Itoa(os.Getuid()), "-die-with-parent",
	}
	if os.Getuid() == 0 {
		args = append(args, "-uid", strconv.Itoa(roleUID))
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = h.dir
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), h.env...)
	cmd.Stdout, cmd.Stderr = &h.log, &h.log
	return cmd
}

// start starts the program and waits until it says that it is ready.
func (h *house) start() *exec.Cmd {
	h.t.Helper()
	at := filepath.Join(h.dir, "notify")
	_ = os.Remove(at)
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		h.t.Fatal(err)
	}
	defer ln.Close()
	cmd := h.command()
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+at)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_ = ln.SetReadDeadline(time.Now().Add(time.Minute))
	word := make([]byte, 64)
	if n, err := ln.Read(word); err != nil || string(word[:n]) != "READY=1\n" {
		h.t.Fatalf("%q, %v\n%s", word[:n], err, &h.log)
	}
	return cmd
}

func (h *house) status() *proto.GatewayStatus {
	h.t.Helper()
	m, err := ipc.Ask(h.t.Context(), filepath.Join(h.dir, "run/gatewayd/gateway.sock"), proto.GatewayEvents, &proto.GetGateway{})
	if err != nil {
		h.t.Fatalf("%v\n%s", err, &h.log)
	}
	return m.(*proto.GatewayStatus)
}

// row waits until a row of the status is as wanted.
func (h *house) row(name, state, detail string) proto.Check {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // it has no other way to tell
		for _, c := range h.status().Checks {
			if c.Name == name && c.State == state && strings.Contains(c.Detail, detail) {
				return c
			}
		}
		if time.Now().After(end) {
			h.t.Fatalf("%+v\n%s", h.status().Checks, &h.log)
		}
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

// approval has a card shown.
func (h *house) approval() {
	h.t.Helper()
	c, err := ipc.Dial(h.t.Context(), filepath.Join(h.dir, "run/gatewayd/gateway.sock"), proto.GatewayEvents)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	ask := &proto.Ask{
		Approval: "a1", Code: "K7M4PX", Digest: strings.Repeat("ab", 32), Asked: proto.Time(time.Now()), Expires: proto.Time(time.Now().Add(time.Hour)),
		Session: "chat-a", Tool: "write_file", Fields: []proto.Field{}, Read: []string{}, Write: []string{}, Hosts: []string{}, Secrets: []string{},
		Class: proto.ClassPrivate, Taint: proto.ClassPublic, Grant: "g",
	}
	if err := c.Send(ask); err != nil {
		h.t.Fatal(err)
	}
	if m, err := c.Recv(); err != nil || m.Tag() != "shown" {
		h.t.Fatalf("%v, %v\n%s", m, err, &h.log)
	}
	for _, p := range h.fake.Posts(h.dm) {
		if strings.Contains(p.Message, "K7M4PX") {
			h.until("two reactions on the card", func() bool { return len(h.fake.Reactions(p.ID)) == 2 })
			return
		}
	}
	h.t.Error("there is no card")
}

func (h *house) until(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("it did not happen: %s\n%s", what, &h.log)
		}
	}
}

// owns checks that all in its folder is the program's own: the next start is another
// user's at first.
func (h *house) owns() {
	h.t.Helper()
	want, n := uint32(os.Geteuid()), 0
	if want == 0 {
		want = roleUID
	}
	err := filepath.Walk(filepath.Join(h.dir, "state"), func(path string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		n++
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != want || fi.Mode().Perm()&0o077 != 0 {
			h.t.Errorf("%s belongs to %d and has mode %o", path, st.Uid, fi.Mode().Perm())
		}
		return nil
	})
	if err != nil || n < 4 {
		h.t.Errorf("%d files, %v", n, err)
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
