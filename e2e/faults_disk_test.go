package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

const inNamespace = "BOXMAKER_TEST_IN_NAMESPACE"

// onSmallDisk runs f with a new installation whose session logs lie on a tmpfs of
// their own. Where this process may not mount, the test runs again in a user and
// mount namespace, with the right to mount and no other.
func onSmallDisk(t *testing.T, options string, f func(s *stack.Stack)) {
	t.Helper()
	s := stack.New(t)
	s.Must("", "init", "--practice")
	err := syscall.Mount("tmpfs", s.Layout.Sessions, "tmpfs", 0, options+",mode=0700")
	if err == nil {
		defer func() {
			stack.Sweep(s.Home)
			if err := syscall.Unmount(s.Layout.Sessions, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}()
		f(s)
		return
	}
	if os.Getenv(inNamespace) != "" {
		t.Fatalf("no tmpfs, not even in a namespace: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	const sysAdmin = 21
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{sysAdmin},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit), bytes.Contains(out, []byte("no tmpfs, not even in a namespace")):
		t.Skipf("NOT TESTED: %s needs a small tmpfs, and this user can mount none: %v", t.Name(), err)
	case err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Fatalf("in a namespace: %v\n%s", err, out)
	}
}

// fill leaves room for about spare bytes.
func fill(t *testing.T, dir string, spare int64) (free func()) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, ".filler")
	if err := os.WriteFile(name, make([]byte, int64(st.Bavail)*st.Bsize-spare), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// A message that finds no room is refused, loopd recovers by itself, and all that
// was accepted before is there.
func TestFault_Disk_NoRoomForAMessage(t *testing.T) {
	onSmallDisk(t, "size=1m", func(s *stack.Stack) {
		s.Up()
		answered(t, s, "chat-full", "This is chat-full.")
		answered(t, s, "chat-other", "This is chat-other.")
		free := fill(t, s.Layout.Sessions, 0)
		pid := s.PID("loopd")
		view{exitFailed, "disk-full", []string{"the disk is full", "chat-new", "Nothing was changed", "then send the message again"}}.check(t, ask(s, "chat-new", "Hello."))
		if s.PID("loopd") != pid {
			t.Error("a session that could not begin ended loopd")
		}
		view{exitFailed, "disk-full", []string{"the disk is full", "chat-full", "What was accepted is kept; free some space and start loopd again"}}.check(t, ask(s, "chat-full", strings.Repeat("long ", 4000)))
		s.WaitReady()
		free()
		for _, id := range []string{"chat-full", "chat-other", "chat-new"} {
			if got := answered(t, s, id, "answer with room again"); got != "room again" {
				t.Errorf("%s: %q", id, got)
			}
		}
		settled(t, s)
		s.Down()
	})
}

// The disk gets full in the middle of a turn. Its sender is told; when there is
// room, the accepted message is answered, once, before the next one.
func TestFault_Disk_NoRoomForTheAnswer(t *testing.T) {
	onSmallDisk(t, "size=1m", func(s *stack.Stack) {
		s.Up()
		answered(t, s, "chat-full", "This is chat-full.")
		answered(t, s, "chat-other", "This is chat-other.")
		free := fill(t, s.Layout.Sessions, 10<<10) // what is written of the answer is torn
		view{exitFailed, "disk-full", []string{"the disk is full", "What was accepted is kept", "free some space"}}.check(t, ask(s, "chat-full", "say 4000 words"))
		s.WaitReady()
		if st, err := os.Stat(filepath.Join(s.Layout.Sessions, "chat-full", "0001.jsonl")); err != nil || st.Size() == 0 {
			t.Errorf("the log: %v, %v", st, err)
		}
		view{exitFailed, "disk-full", []string{"chat-full", "free some space"}}.check(t, ask(s, "chat-full", "Are you there?"))
		free()
		if got := answered(t, s, "chat-full", "answer with room again"); got != "room again" {
			t.Errorf("answer %q", got)
		}
		answered(t, s, "chat-other", "And you?")
		e := epoch(t, settled(t, s), "chat-full", 1)
		if n := len(records[*proto.User](e)); n != 3 {
			t.Errorf("%d messages of the owner, want 3", n)
		}
		long := 0
		for _, a := range records[*proto.Assistant](e) {
			if len(strings.Fields(content(t, a.Message))) >= 4000 {
				long++
			}
		}
		if long != 1 || len(records[*proto.Recovered](e)) != 1 {
			t.Errorf("the long answer is there %d times, after %d recoveries", long, len(records[*proto.Recovered](e)))
		}
		s.Down()
	})
}

// owners cuts what `bxctl up` says of its end out of all that it printed.
func owners(r stack.Result) stack.Result {
	if i := strings.LastIndex("\n"+r.Stderr, "\nbxctl: "); i >= 0 {
		r.Stderr = r.Stderr[i:]
	}
	return r
}

// A file system that is mounted read-only: nothing starts, and why is said.
func TestFault_Disk_ReadOnly(t *testing.T) {
	t.Parallel()
	onSmallDisk(t, "size=1m", func(s *stack.Stack) {
		s.Up()
		answered(t, s, "chat-a", "Hello.")
		s.Down()
		remount := func(flags uintptr) {
			t.Helper()
			if err := syscall.Mount("tmpfs", s.Layout.Sessions, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m"); err != nil {
				t.Fatal(err)
			}
		}
		remount(syscall.MS_RDONLY)
		r := owners(s.Bxctl("", "up"))
		if r.Code != exitFailed || !strings.Contains(r.Stderr, "read-only file system") || !strings.Contains(r.Stderr, "(see runbook: state-read-only)") {
			t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
		}
		if r := s.Bxctl("", "sessions", "show", "chat-a"); r.Code != exitOK || !strings.Contains(r.Stdout, "Hello.") {
			t.Errorf("it can't be read either: %s", r.Stderr)
		}
		remount(0)
		s.Up()
		answered(t, s, "chat-a", "And now?")
		s.Down()
	})
}

// Rights that are taken away: of one session, and of the folder of all.
func TestFault_Disk_NoRights(t *testing.T) {
	s := stack.New(t)
	server := s.Serve()
	s.Up()
	answered(t, s, "chat-shut", "This is chat-shut.")
	answered(t, s, "chat-open", "This is chat-open.")
	s.Down()
	log := filepath.Join(s.Layout.Sessions, "chat-shut", "0001.jsonl")
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(log, 0o400)
	s.Up()
	pid := s.PID("loopd")
	view{exitFailed, "state-read-only", []string{"chat-shut", "permission denied"}}.check(t, ask(s, "chat-shut", "Hello?"))
	chmod(log, 0)
	view{exitFailed, "state-read-only", []string{"chat-shut", "permission denied"}}.check(t, ask(s, "chat-shut", "Hello?"))
	answered(t, s, "chat-open", "Hello?")
	chmod(log, 0o600)
	answered(t, s, "chat-shut", "And now?")

	chmod(s.Layout.Sessions, 0o500)
	view{exitFailed, "state-read-only", []string{"chat-new", "permission denied"}}.check(t, ask(s, "chat-new", "Hello?"))
	answered(t, s, "chat-open", "Hello again?")
	if s.PID("loopd") != pid {
		t.Error("loopd was started again")
	}
	chmod(s.Layout.Sessions, 0o700)
	answered(t, s, "chat-new", "This is chat-new.")
	wantGrowth(t, settled(t, s), recorded(t, server))
	s.Down()
}

// A second loopd on the same logs ends at once and spoils nothing.
func TestFault_Disk_SecondLoopd(t *testing.T) {
	s := fresh(t)
	s.Up()
	answered(t, s, "chat-a", "Hello.")
	before := read(t, filepath.Join(s.Layout.Sessions, "chat-a", "0001.jsonl"))
	r := program(s, "loopd", "-sessions", s.Layout.Sessions, "-infer", s.Layout.Socket("inferproxy", "loopd", "infer"), "-listen", s.Home+"/second.sock")
	if r.Code == 0 || !strings.Contains(r.Stderr, "in use by another loopd") {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
	checkKey(t, r.Stderr, "second-loopd")
	// Nor on the same socket.
	r = program(s, "loopd", "-sessions", s.Home+"/log", "-infer", s.Layout.Socket("inferproxy", "loopd", "infer"), "-listen", s.Socket())
	if r.Code == 0 {
		t.Error("two programs listen at one path")
	}
	checkKey(t, r.Stderr, "socket-in-use")
	if got := read(t, filepath.Join(s.Layout.Sessions, "chat-a", "0001.jsonl")); got != before {
		t.Error("the log was changed")
	}
	answered(t, s, "chat-a", "Are you still there?")
	settled(t, s)
	s.Down()
}
