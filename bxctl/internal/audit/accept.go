package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/durable"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// acceptFile names the end of a log that the owner goes on with although it lacks
// heads that it must have: "N:HASH", as brokerd's flags take it, and on a line of
// its own the newest head that was kept of the log before, if there was one.
const acceptFile = "accept"

// An Accepted tells what [Log.Accept] did.
type Accepted struct {
	Head  proto.AuditHead `json:"head"`
	Aside string          `json:"aside,omitempty"` // where the anchors so far were put
}

// Accept lets brokerd go on with the log as it is, once: with just this end. The
// anchors so far are put aside. brokerd must not run.
func (l Log) Accept(now time.Time) (Accepted, error) {
	unlock, err := l.lock()
	if err != nil {
		return Accepted{}, err
	}
	defer unlock()
	out := Accepted{Head: proto.AuditHead{Hash: proto.NoHash}}
	log, err := os.OpenRoot(l.Dir)
	switch {
	case err == nil:
		defer log.Close()
		rep, err := chain.Verify(chain.Config{Root: log})
		if err != nil {
			return out, unreadable(err)
		}
		if len(rep.Faults) > 0 {
			return out, damaged(rep.Faults)
		}
		out.Head = rep.Head
	case !errors.Is(err, fs.ErrNotExist):
		return out, unreadable(err)
	}
	root, err := anchorRoot(l.Anchors)
	if err != nil {
		return out, err
	}
	defer root.Close()
	lost, err := newestOf(root)
	if err != nil {
		return out, anchorFault(err)
	}
	text := flag(out.Head) + "\n"
	if lost.N > 0 {
		text += flag(lost) + "\n"
	}
	if err := durable.WriteFile(root, acceptFile, []byte(text), 0o600); err != nil {
		return out, anchorFault(err)
	}
	aside := "audit-until-" + now.UTC().Format("20060102T150405Z") + ".jsonl"
	err = root.Rename(anchorFile, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err = errors.Join(err, durable.SyncDir(root, ".")); err != nil {
		return out, anchorFault(err)
	}
	out.Aside = filepath.Join(l.Anchors, aside)
	return out, nil
}

// lock sees to it that brokerd does not write meanwhile.
func (l Log) lock() (unlock func(), err error) {
	f, err := os.Open(filepath.Join(l.Dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(&fault.Fault{
			What: "brokerd runs, and writes to the audit log", Means: "a log that it goes on with needs no acceptance",
			Do: "if you mean to replace the log, end it first: bxctl down", Key: "log-locked",
		}, f.Close())
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return func() { _ = f.Close() }, nil // a reader's descriptor; closing it drops the lock
}

// Flags gives what brokerd is told of the log when it starts: the newest head that
// was kept, and the end that the owner accepted.
func (l Log) Flags() ([]string, error) {
	root, err := os.OpenRoot(l.Anchors)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, anchorFault(err)
	}
	defer root.Close()
	var args []string
	switch b, err := root.ReadFile(acceptFile); {
	case err == nil:
		for i, h := range strings.Fields(string(b)) {
			args = append(args, map[bool]string{true: "-accept", false: "-anchor"}[i == 0], h)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, anchorFault(err)
	}
	head, err := newestOf(root)
	if err != nil {
		return args, anchorFault(err)
	}
	if head.N > 0 {
		args = append(args, "-anchor", flag(head))
	}
	return args, nil
}

// newestOf gives the newest head that was kept; its N is 0 if there is none.
func newestOf(root *os.Root) (proto.AuditHead, error) {
	keys, err := pinned(root)
	if err != nil {
		return proto.AuditHead{}, err
	}
	var last []byte
	_, err = appendlog.Scan(root, anchorFile, func(_ int64, line []byte) error {
		last = append(last[:0], line...)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return proto.AuditHead{}, nil
	}
	head, headErr := newestHead(last, keys)
	return head, errors.Join(err, headErr)
}

func flag(h proto.AuditHead) string { return strconv.FormatInt(h.N, 10) + ":" + h.Hash }

// spent removes the acceptance: the log has gone on from there.
func spent(root *os.Root) error {
	if err := root.Remove(acceptFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
