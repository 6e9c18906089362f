package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/internal/proto"
)

func TestSecondLoopd(t *testing.T) {
	dir := t.TempDir()
	storeAt(t, dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = OpenStore(root)
	wantError(t, err, "", "second-loopd", "in use by another loopd")
}

func TestReadOnlyFolder(t *testing.T) {
	withTmpfs(t, "size=1m", func(t *testing.T, dir string, readOnly func()) {
		s, shut := openStore(t, dir)
		c := conversation(t, s, "chat-1")
		c.Close()
		shut()
		readOnly()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, err = OpenStore(root)
		wantError(t, err, "", "state-read-only", "read-only file system")

		s = &Store{Now: clockFrom(start), root: root} // as if it had become read-only later
		_, err = s.Open("chat-1", nil)
		wantError(t, err, "chat-1", "state-read-only", "read-only file system")
		fresh, _ := open(t, s, "chat-2")
		wantError(t, fresh.StartEpoch(baseline("x")), "chat-2", "state-read-only", "read-only file system")
		if err := s.Read("chat-1", func(int, proto.Header, proto.Record) error { return nil }); err != nil {
			t.Errorf("reading needs no writing: %v", err)
		}
	})
}

func TestFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	s := storeAt(t, dir)
	conversation(t, s, "chat-1").Close()
	if err := os.Chmod(filepath.Join(dir, "chat-1/0001.jsonl"), 0o400); err != nil {
		t.Fatal(err)
	}
	_, err := s.Open("chat-1", nil)
	wantError(t, err, "chat-1", "state-read-only", "permission denied")
}

func TestFullDisk(t *testing.T) {
	withTmpfs(t, "size=128k", func(t *testing.T, dir string, _ func()) {
		s, shut := openStore(t, dir)
		c := conversation(t, s, "chat-1")
		var acknowledged int64
		var err error
		for i := range 1000 {
			if _, err = c.Append(assistant(fmt.Sprint(i, strings.Repeat("x", 1000)))); err != nil {
				break
			}
			acknowledged = c.Records()
		}
		wantError(t, err, "chat-1", "disk-full", "no space left")
		if _, err := c.Append(ended("o9", 0)); err == nil {
			t.Error("a broken log took a record")
		}
		c.Close()
		fresh, _ := open(t, s, "chat-2")
		wantError(t, fresh.StartEpoch(baseline(strings.Repeat("x", 8000))), "chat-2", "disk-full", "no space left")
		shut()

		// The owner frees some space, and all that was acknowledged is there.
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m"); err != nil {
			t.Fatal(err)
		}
		s, shut = openStore(t, dir)
		defer shut()
		c, got := open(t, s, "chat-1")
		defer c.Close()
		if int64(len(got)) < acknowledged {
			t.Errorf("%d records of %d", len(got), acknowledged)
		}
		fresh, _ = open(t, s, "chat-2")
		defer fresh.Close()
		startEpoch(t, fresh, baseline("x"))
	})
}

const inNamespace = "BOXMAKER_TEST_IN_NAMESPACE"

// withTmpfs runs f in a tmpfs of its own. Where this process may not mount, the
// test runs again in a user and mount namespace.
func withTmpfs(t *testing.T, options string, f func(t *testing.T, dir string, readOnly func())) {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
	if err == nil {
		defer func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}()
		f(t, dir, func() {
			if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, options); err != nil {
				t.Fatal(err)
			}
		})
		return
	}
	if os.Getenv(inNamespace) != "" {
		t.Fatalf("no tmpfs, not even in a namespace: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
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

// A message of the owner is not written to a file that was moved away, removed or
// replaced: it would be lost.
func TestTakenLog(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"file removed": os.Remove,
		"file moved":   func(path string) error { return os.Rename(path, path+".away") },
		"folder moved": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+"-away") },
		"file replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := conversation(t, storeAt(t, dir), "chat-1")
			defer c.Close()
			if err := take(filepath.Join(dir, "chat-1/0001.jsonl")); err != nil {
				t.Fatal(err)
			}
			n := c.Records()
			for _, r := range []proto.Record{user("o2", "more"), queued("o3", "more")} {
				_, err := c.Append(r)
				wantError(t, err, "chat-1", "session-corrupt", "taken away, or replaced, while it was open")
				if !Unchanged(err) || c.Records() != n {
					t.Errorf("%d records, %d before; unchanged: %v", c.Records(), n, Unchanged(err))
				}
			}
		})
	}
}

// An epoch that cannot be started leaves everything as it was, and says so.
func TestEpochThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	s := storeAt(t, dir)
	c := conversation(t, s, "chat-1")
	defer c.Close()
	writeFile(t, nil, dir, "chat-1/0002.jsonl")
	fresh, _ := opened(t, s, "chat-2")
	if err := os.Mkdir(filepath.Join(dir, "chat-2"), 0o700); err != nil { // meanwhile
		t.Fatal(err)
	}
	writeFile(t, nil, dir, "chat-2/other")
	before := tree(t, dir)
	for _, c := range []*Session{c, fresh} {
		if err := c.StartEpoch(baseline("x")); !Unchanged(err) {
			t.Errorf("%s: %v", c.id, err)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	appendTo(t, c, user("o2", "more")) // the old epoch goes on
	if Unchanged(nil) || Unchanged(errors.New("x")) {
		t.Error("any error counts as unchanged")
	}
}
