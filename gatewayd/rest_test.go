package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// smallDisk puts the state on a disk of its own.
func (h *house) smallDisk() {
	h.t.Helper()
	if os.Geteuid() != 0 {
		h.t.Skip("NOT TESTED: a full disk of gatewayd's state needs root, which may mount one")
	}
	at := filepath.Join(h.dir, "state")
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=256k,mode=0700,uid=%d,gid=%d", roleUID, roleUID)); err != nil {
		h.t.Skipf("NOT TESTED: no tmpfs can be mounted here: %v", err)
	}
	h.t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			h.t.Error(err)
		}
	})
}

// fill leaves no byte of that disk, until free is called.
func (h *house) fill() (free func()) {
	h.t.Helper()
	at := filepath.Join(h.dir, "state")
	var st syscall.Statfs_t
	if err := syscall.Statfs(at, &st); err != nil {
		h.t.Fatal(err)
	}
	name := filepath.Join(at, "filler")
	if err := os.WriteFile(name, make([]byte, int64(st.Bavail)*st.Bsize), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			h.t.Error(err)
		}
	}
}

// retries is how often it found that its folder cannot be used.
func (h *house) retries() int { return strings.Count(h.log.String(), "nothing is heard or posted") }

// answers are the bot's posts in a thread.
func (h *house) answers(root string) (n int) {
	for _, p := range h.fake.Posts(h.dm) {
		if p.UserID == h.bot.ID && p.RootID == root {
			n++
		}
	}
	return n
}

// A disk that stays full ends nothing: the program lives, tells what is wrong, and
// tries again; with room all that was written meanwhile is answered, once.
func TestADiskThatStaysFull(t *testing.T) {
	t.Parallel() // it waits between two tries
	h := newHouse(t)
	h.smallDisk()
	cmd := h.start()
	h.row("mattermost", "ok", "")
	before := h.fake.Post(h.me, h.dm, "", "help")
	h.until("an answer before", func() bool { return h.answers(before.ID) == 1 })
	h.row("queue", "ok", "0 messages")
	free := h.fill()
	var asked []string
	for range 12 { // more than goes into the rest of a page
		asked = append(asked, h.fake.Post(h.me, h.dm, "", "help").ID)
	}
	if c := h.row("queue", "failed", "no space left on device"); c.Runbook != "disk-full" || !strings.Contains(c.Detail, "nothing is heard or posted") {
		t.Errorf("%+v", c)
	}
	h.until("it tries again, and again", func() bool { return h.retries() >= 4 })
	late := h.fake.Post(h.me, h.dm, "", "help").ID
	h.until("it tries once more", func() bool { return h.retries() >= 5 })
	if h.answers(late) != 0 {
		t.Error("it has answered what it could not note")
	}
	asked = append(asked, late)
	free()
	for _, id := range asked {
		h.until("an answer with room", func() bool { return h.answers(id) == 1 })
	}
	h.row("mattermost", "ok", "")
	h.row("queue", "ok", "0 messages")
	for _, id := range append(asked, before.ID) {
		if n := h.answers(id); n != 1 {
			t.Errorf("%d answers", n)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v\n%s", err, &h.log)
	}
}

// An approval that comes while the disk is full is not taken, whoever asks is told
// nothing of the kind, and a later question is answered as if it were the first.
func TestAnApprovalOnAFullDisk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.smallDisk()
	h.start()
	h.row("mattermost", "ok", "")
	free := h.fill()
	ask := func() (proto.Message, error) {
		c, err := ipc.Dial(t.Context(), filepath.Join(h.dir, "run/gatewayd/gateway.sock"), proto.GatewayEvents)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Send(question("a2")); err != nil {
			t.Fatal(err)
		}
		return c.Recv()
	}
	for range 3 { // by the desk first, then without one
		if m, err := ask(); err == nil {
			t.Errorf("it was answered: %+v", m)
		}
	}
	h.row("queue", "failed", "no space left on device")
	if _, err := ipc.Ask(t.Context(), filepath.Join(h.dir, "run/gatewayd/gateway.sock"), proto.GatewayEvents, &proto.StillWaiting{Approvals: []string{}}); err == nil || !strings.Contains(err.Error(), "own folder") {
		t.Errorf("%v", err)
	}
	free()
	h.row("mattermost", "ok", "")
	h.approval()
}

// A change of the settings on a full disk is taken over when what held before can be
// kept: until then the program does not end, and nobody is heard.
func TestNewSettingsOnAFullDisk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.smallDisk()
	cmd := h.start()
	h.row("mattermost", "ok", "")
	free := h.fill()
	h.write("config/gatewayd.toml", "owners = [")
	h.row("queue", "failed", "no space left on device")
	p := h.fake.Post(h.me, h.dm, "", "help")
	h.until("it tries again", func() bool { return h.retries() >= 2 })
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it has ended: %v\n%s", err, &h.log)
	}
	free()
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	select {
	case err := <-end:
		if err != nil {
			t.Fatalf("%v\n%s", err, &h.log)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	if h.answers(p.ID) != 0 {
		t.Error("it has heard by settings that do not hold")
	}
	h.start()
	h.row("settings", "failed", "what held before still holds")
	h.until("an answer then", func() bool { return h.answers(p.ID) == 1 })
}

// A queue that is damaged, or not the program's own, ends nothing either; mended, it
// goes on without a start.
func TestAQueueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	at := filepath.Join(h.dir, "state", "queue.jsonl")
	if err := os.WriteFile(at, []byte("{\"v\":1}\n{\"v\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(at, roleUID, roleUID); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	h.row("queue", "failed", "is damaged")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	h.row("mattermost", "ok", "")
	p := h.fake.Post(h.me, h.dm, "", "help")
	h.until("an answer", func() bool { return h.answers(p.ID) == 1 })
}

// The disk is full when the bot looks around for the very first time: what is written
// before there is room is not taken for the past.
func TestTheVeryFirstStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	old := h.fake.Post(h.me, h.dm, "", "help")
	h.smallDisk()
	if err := os.Mkdir(filepath.Join(h.dir, "state/approvals"), 0o700); err != nil { // else it does not come to look
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(h.dir, "state/approvals"), roleUID, roleUID); err != nil {
		t.Fatal(err)
	}
	free := h.fill()
	h.start()
	h.row("queue", "failed", "no space left on device")
	p := h.fake.Post(h.me, h.dm, "", "help")
	free()
	h.until("an answer", func() bool { return h.answers(p.ID) == 1 })
	h.row("queue", "ok", "0 messages")
	if h.answers(old.ID) != 0 {
		t.Error("the past is answered")
	}
}
