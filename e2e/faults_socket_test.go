package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// dialRaw connects to the owner's socket without our own client.
func dialRaw(t *testing.T, s *stack.Stack) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(stack.Patience)); err != nil {
		t.Fatal(err)
	}
	if err := stack.PresentKey(conn, s.Socket()); err != nil {
		t.Fatal(err)
	}
	return conn
}

func framed(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// A client that is not ours gets a reason or an end, and harms nobody.
func TestFault_User_RawClient(t *testing.T) {
	s := fresh(t)
	s.Up()
	pid := s.PID("loopd")
	submit := `{"type":"submit","session":"chat-raw","origin":"o1","text":"hello","surface":"ask"}`
	for _, c := range []struct {
		name string
		send []byte
		code proto.ErrCode // "": the connection ends without a word
		key  string
	}{
		{"nothing", nil, "", ""},
		{"half a head", []byte{0, 0}, proto.ErrBadRequest, "bad-request"},
		{"half a frame", framed(submit)[:40], proto.ErrBadRequest, "bad-request"},
		{"empty frame", framed(""), proto.ErrBadRequest, "bad-request"},
		{"4 GB announced", []byte{0xff, 0xff, 0xff, 0xff, '{'}, proto.ErrBadRequest, "bad-request"},
		{"a byte over the limit", framed(strings.Repeat(" ", frame.MaxBytes+1)), proto.ErrBadRequest, "bad-request"},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), proto.ErrBadRequest, "bad-request"},
		{"binary", framed("\x00\xff\xfe\x01"), proto.ErrBadRequest, "bad-request"},
		{"no object", framed(`[1,2]`), proto.ErrBadRequest, "bad-request"},
		{"deep nesting", framed(strings.Repeat("[", 1<<20)), proto.ErrBadRequest, "bad-request"},
		{"unknown type", framed(`{"type":"approve"}`), proto.ErrBadRequest, "bad-request"},
		{"an event as a request", framed(`{"type":"stopped","running":true}`), proto.ErrBadRequest, "bad-request"},
		{"no type", framed(`{"session":"chat-raw"}`), proto.ErrBadRequest, "bad-request"},
		{"type not in front", framed(`{"session":"chat-raw","type":"stop"}`), proto.ErrBadRequest, "bad-request"},
		{"a key twice", framed(`{"type":"stop","session":"chat-raw","session":"chat-a"}`), proto.ErrBadRequest, "bad-request"},
		{"a key in another case", framed(`{"type":"stop","Session":"chat-raw"}`), proto.ErrBadRequest, "bad-request"},
		{"unknown key", framed(`{"type":"stop","session":"chat-raw","force":true}`), proto.ErrBadRequest, "bad-request"},
		{"null", framed(`{"type":"stop","session":null}`), proto.ErrBadRequest, "bad-request"},
		{"fraction", framed(`{"type":"sessions","limit":1.5}`), proto.ErrBadRequest, "bad-request"},
		{"negative", framed(`{"type":"sessions","limit":-1}`), proto.ErrBadRequest, "bad-request"},
		{"white space", framed(`{"type": "status"}`), proto.ErrBadRequest, "bad-request"},
		{"line break behind it", framed("{\"type\":\"status\"}\n"), proto.ErrBadRequest, "bad-request"},
		{"invalid UTF-8", framed(strings.Replace(submit, "hello", "caf\xe9", 1)), proto.ErrBadRequest, "bad-request"},
		{"a lone surrogate", framed(strings.Replace(submit, "hello", `\ud800`, 1)), proto.ErrBadRequest, "bad-request"},
		{"session ../", framed(strings.Replace(submit, "chat-raw", "../x", 1)), proto.ErrBadRequest, "bad-request"},
		{"session in upper case", framed(strings.Replace(submit, "chat-raw", "CHAT", 1)), proto.ErrBadRequest, "bad-request"},
		{"session too long", framed(strings.Replace(submit, "chat-raw", strings.Repeat("a", 65), 1)), proto.ErrBadRequest, "bad-request"},
		{"origin with a slash", framed(strings.Replace(submit, "o1", "o/1", 1)), proto.ErrBadRequest, "bad-request"},
		{"unknown surface", framed(strings.Replace(submit, `"ask"`, `"mail"`, 1)), proto.ErrBadRequest, "bad-request"},
		{"empty message", framed(strings.Replace(submit, "hello", " ", 1)), proto.ErrEmptyMessage, "empty-message"},
		{"1 MB", framed(strings.Replace(submit, "hello", strings.Repeat("x", 1<<20), 1)), proto.ErrMessageLarge, "message-too-large"},
		{"no such session", framed(`{"type":"session","session":"chat-none"}`), proto.ErrNoSession, "no-session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dialRaw(t, s)
			// It may be refused, and the connection closed, before all is sent.
			if _, err := conn.Write(c.send); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if c.name == "nothing" || strings.HasPrefix(c.name, "half a ") { // no more comes
				if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			body, err := frame.Read(conn)
			if c.code == "" {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%q, %v", body, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("no reason was given: %v", err)
			}
			m, err := proto.LoopEvents.Decode(body)
			if e, ok := m.(*proto.Error); err != nil || !ok || e.Code != c.code || e.Runbook != c.key || e.Text == "" {
				t.Errorf("%s, %v", body, err)
			} else {
				checkKey(t, e.Error(), c.key)
			}
		})
	}
	if s.PID("loopd") != pid {
		t.Error("loopd was started again")
	}
	if ids, _ := filepath.Glob(s.Layout.Sessions + "/[a-z0-9]*"); len(ids) != 0 {
		t.Errorf("sessions were made: %v", ids)
	}
	answered(t, s, "chat-raw", "Hello.")
	s.Down()
}

// A second request on a connection ends the stream, and a client that leaves ends
// nothing: what was accepted is answered.
func TestFault_User_LeavesOrAsksTwice(t *testing.T) {
	t.Parallel()
	s := stack.New(t)
	server := s.Serve("-gen-tps", "100")
	s.Up()
	for name, then := range map[string]func(conn net.Conn) error{
		"twice":  func(conn net.Conn) error { _, err := conn.Write(framed(`{"type":"status"}`)); return err },
		"leaves": func(conn net.Conn) error { return conn.Close() },
	} {
		conn := dialRaw(t, s)
		if _, err := conn.Write(framed(`{"type":"submit","session":"chat-` + name + `","origin":"` + name + `","text":"say 20 words","surface":"ask"}`)); err != nil {
			t.Fatal(err)
		}
		for tag := ""; tag != "accepted"; { // it may have to wait a moment
			body, err := frame.Read(conn)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			m, err := proto.LoopEvents.Decode(body)
			if err != nil {
				t.Fatalf("%s: %q, %v", name, body, err)
			}
			tag = m.Tag()
		}
		if err := then(conn); err != nil {
			t.Fatal(err)
		}
	}
	epochs := settled(t, s)
	for _, id := range []string{"chat-twice", "chat-leaves"} {
		if ends := records[*proto.TurnEnd](epoch(t, epochs, id, 1)); len(ends) != 1 || ends[0].Outcome != proto.TurnAnswered {
			t.Errorf("%s: %+v", id, ends)
		}
	}
	wantGrowth(t, epochs, recorded(t, server))
	s.Down()
}

// Clients that connect and say nothing take only so many places, and give them
// back.
func TestFault_User_TooManyClients(t *testing.T) {
	s := fresh(t)
	s.Up()
	var idle []net.Conn
	var last string
	for len(idle) < 300 && last == "" {
		conn := dialRaw(t, s)
		idle = append(idle, conn)
		if len(idle) > 100 { // one that is refused hears of it at once
			if r := s.Bxctl("", "status"); r.Code != exitOK {
				last = r.Stderr
			}
		}
	}
	if !strings.Contains(last, "too many connections") || !strings.Contains(last, "too-many-connections") {
		t.Errorf("after %d idle connections: %q", len(idle), last)
	}
	for _, c := range idle {
		c.Close()
	}
	answered(t, s, "chat-after", "Hello.")
	s.Down()
}

// Another user is kept out by the folders and, if those were open, by the check of
// who connects.
func TestFault_User_AnotherUID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as another user")
	}
	s := fresh(t)
	s.Up()
	const stranger = 64321
	as := func(uid uint32, args ...string) stack.Result {
		t.Helper()
		cmd := s.Command(t.Context(), args...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return stack.Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
	}
	open := func(mode os.FileMode, paths ...string) {
		t.Helper()
		for _, p := range paths {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(0o711, s.Home)
	view{exitFailed, "socket-permission", []string{"another user"}}.check(t, as(stranger, "ask", "hello"))
	open(0o777, filepath.Dir(s.Socket()))
	view{exitFailed, "socket-permission", []string{"another user"}}.check(t, as(stranger, "ask", "hello"))
	open(0o666, s.Socket())
	conn, err := dialAs(stranger, s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(framed(`{"type":"status"}`)) // it may be closed already
	if b, err := io.ReadAll(conn); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a stranger was told %q, %v", b, err)
	}
	s.WaitUntil("the refusal is in the log", func() bool {
		log := read(t, s.Layout.Log+"/loopd.log")
		return strings.Contains(log, "uid 64321") && strings.Contains(log, "connection refused")
	})
	if r := as(0, "status"); r.Code != exitOK {
		t.Errorf("the owner is kept out too: %s", r.Stderr)
	}
	s.Down()
}

// dialAs connects as another user.
func dialAs(uid uint32, path string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the changed thread ends with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			done <- result{err: e}
			return
		}
		conn, err := net.Dial("unix", path)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}
