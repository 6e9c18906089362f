package up

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"boxmaker/bxctl/internal/report"
	"boxmaker/internal/config"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

const stateName = "up.json"

// A board is the state of a running up. Each change is written to run/up.json
// by rename, so that a reader sees a whole state or the one before. It is lost
// with the machine's power, like the processes it tells of: nothing is synced.
type board struct {
	path string
	mu   sync.Mutex // guards what follows
	up   report.Up
	err  error // of the last write
}

func newBoard(l config.Layout, up report.Up) *board {
	return &board{path: filepath.Join(l.Run, stateName), up: up}
}

// change edits the state and writes it.
func (b *board) change(f func(*report.Up)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.up)
	b.err = b.write()
}

// snapshot gives the state as it is now.
func (b *board) snapshot() report.Up {
	b.mu.Lock()
	defer b.mu.Unlock()
	up := b.up
	up.Roles = slices.Clone(up.Roles)
	for i, r := range up.Roles {
		up.Roles[i].Missing = slices.Clone(r.Missing)
	}
	return up
}

// role edits the row of one role.
func (b *board) role(name string, f func(*report.Role)) {
	b.change(func(u *report.Up) {
		for i := range u.Roles {
			if u.Roles[i].Name == name {
				f(&u.Roles[i])
			}
		}
	})
}

// runs reports whether a role has a process.
func (b *board) runs(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.up.Roles, func(r report.Role) bool { return r.Name == name && r.PID != 0 })
}

func (b *board) write() error {
	data, err := json.Marshal(&b.up, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	next := b.path + ".new"
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, b.path)
}

// State reads what the running up, or the last one, wrote; nil if there is nothing.
func State(l config.Layout) (*report.Up, error) {
	data, err := os.ReadFile(filepath.Join(l.Run, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	up := new(report.Up)
	if err := json.Unmarshal(data, up); err != nil {
		return nil, err
	}
	return up, nil
}

// reap kills what an up that was killed has left behind, if the kernel did not:
// processes of its state file that are still the same ones.
func reap(l config.Layout) (killed []string) {
	old, err := State(l)
	if err != nil || old == nil {
		return nil // without a state there is nobody to look for
	}
	for _, r := range old.Roles {
		if r.PID < 2 || r.Start == 0 || startOf(r.PID) != r.Start {
			continue
		}
		fd, err := unix.PidfdOpen(r.PID, 0)
		if err != nil {
			continue
		}
		if startOf(r.PID) == r.Start { // the descriptor is of that process
			if unix.Kill(-r.PID, unix.SIGKILL) != nil {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // ended meanwhile, or not ours to kill
			}
			waitGone(fd, 5*time.Second)
			killed = append(killed, r.Name)
		}
		_ = unix.Close(fd)
	}
	return killed
}

// waitGone returns when the process of a pidfd has ended, or after limit.
func waitGone(fd int, limit time.Duration) bool {
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// startOf gives the kernel's start time of a process, 0 if it is not there.
func startOf(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:]) // the name may hold anything
	if len(f) < 20 || f[0] == "Z" {
		return 0
	}
	n, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// dying reports whether a process was killed and has not gone yet: it may hold
// its locks, and its children may answer, for some moments.
func dying(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) > 6 {
		flags, err := strconv.ParseUint(f[6], 10, 64)
		if f[0] == "Z" || f[0] == "X" || err == nil && flags&0x4 != 0 { // PF_EXITING
			return true
		}
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
