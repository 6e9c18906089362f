package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
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
		"-loop", "run/loopd/loop.sock", "-listen", "run/gatewayd/gateway.sock", "-listen-status", "run/gatewayd/status.sock", "-peer", strconv.Itoa(os.Getuid()), "-die-with-parent",
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

// question is an approval as brokerd asks for it.
func question(id string) *proto.Ask {
	return &proto.Ask{
		Approval: id, Code: "K7M4PX", Digest: strings.Repeat("ab", 32), Asked: proto.Time(time.Now()), Expires: proto.Time(time.Now().Add(time.Hour)),
		Session: "chat-a", Tool: "write_file", Fields: []proto.Field{}, Read: []string{}, Write: []string{}, Hosts: []string{}, Secrets: []string{},
		Class: proto.ClassPrivate, Taint: proto.ClassPublic, Grant: "g",
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
	if err := c.Send(question("a1")); err != nil {
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
