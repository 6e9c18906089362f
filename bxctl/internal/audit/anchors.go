package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/checkpoint"
	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
	"boxmaker/internal/strict"

	"golang.org/x/sys/unix"
)

// Files of the anchors, in a folder that brokerd can't write.
const (
	anchorFile = "audit.jsonl" // {"time":"…","checkpoint":"…"}, with appendlog's checksum
	pinFile    = "audit.pub"   // brokerd's keys as they were first seen, one a line
	publicFile = "audit.pub"   // in brokerd's folder
)

// An anchor is one checkpoint that was kept.
type anchor struct {
	Time       string `json:"time"`
	Checkpoint string `json:"checkpoint"`
}

// Validate checks the time; the checkpoint is checked with its key.
func (a *anchor) Validate() error { _, err := proto.ParseTime(a.Time); return err }

// Heads gives the head of the log as brokerd signs it (owner.Client).
type Heads interface {
	Head(ctx context.Context) (*proto.Head, error)
}

// An Added tells what [Log.Anchor] did.
type Added struct {
	Head       proto.AuditHead `json:"head"`
	Checkpoint string          `json:"checkpoint"`
	New        bool            `json:"new"` // false: the newest anchor has this head already
}

// Anchor asks brokerd for a signed head and keeps it: it is on disk when Anchor
// returns. It refuses one that the key seen first did not sign, unless newKey
// says to take brokerd's present key too, and one of a log that is shorter
// than it was.
func (l Log) Anchor(ctx context.Context, from Heads, now time.Time, newKey bool) (Added, error) {
	head, err := from.Head(ctx)
	if err != nil {
		return Added{}, err
	}
	root, err := anchorRoot(l.Anchors)
	if err != nil {
		return Added{}, err
	}
	defer root.Close()
	keys, err := l.pin(root, newKey)
	if err != nil {
		return Added{}, err
	}
	signed, err := open(head.Checkpoint, keys)
	if err != nil || signed != head.Head {
		return Added{}, &fault.Fault{
			What: "brokerd gave a checkpoint that its key did not sign", Err: err,
			Means: "its key changed since it was first seen, or it is not the brokerd that it was",
			Do:    "if you removed or replaced audit.key yourself: bxctl audit anchor --new-key", Key: "audit-key",
		}
	}
	return l.keep(root, keys, anchor{proto.Time(now), head.Checkpoint}, signed)
}

// keep appends an anchor unless it tells nothing new.
func (l Log) keep(root *os.Root, keys []string, a anchor, signed proto.AuditHead) (Added, error) {
	var last []byte // only its signature is checked: this runs every few minutes, for years
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: anchorFile, Visit: func(_ int64, line []byte) error {
		last = append(last[:0], line...)
		return nil
	}})
	if err != nil {
		return Added{}, anchorFault(err)
	}
	newest, err := newestHead(last, keys)
	if err != nil {
		return Added{}, anchorFault(errors.Join(err, log.Close()))
	}
	added := Added{Head: signed, Checkpoint: a.Checkpoint}
	switch {
	case signed.N < newest.N:
		err = damaged([]*chain.Fault{{What: chain.Cut, Text: fmt.Sprintf("the log was %d records long, now brokerd says %d", newest.N, signed.N)}})
	case signed == newest:
	case signed.N == newest.N:
		err = damaged([]*chain.Fault{{What: chain.Forked, Text: fmt.Sprintf("record %d is not the one that was there", signed.N-1)}})
	default:
		added.New = true
		var line []byte
		if line, err = strict.Marshal(&a); err == nil {
			err = log.Append(line)
		}
		if err == nil {
			err = spent(root)
		}
	}
	if err = errors.Join(err, log.Close()); err != nil {
		return Added{}, anchorFault(err)
	}
	return added, nil
}

// newestHead reads the last anchor; there may be none.
func newestHead(line []byte, keys []string) (proto.AuditHead, error) {
	if line == nil {
		return proto.AuditHead{}, nil
	}
	a, err := decode(line)
	if err != nil {
		return proto.AuditHead{}, err
	}
	return open(a.Checkpoint, keys)
}

func anchorRoot(dir string) (*os.Root, error) {
	err := os.MkdirAll(dir, 0o700)
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return nil, anchorFault(err)
	}
	return root, nil
}

func anchorFault(err error) error {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return &fault.Fault{What: "the heads of the audit log in anchors/ can't be read or written", Err: err, Do: "run bxctl as the user that ran bxctl up", Key: "audit-anchors"}
}

// anchorProblems is the error of anchors that are none.
func anchorProblems(all []string) error {
	return &fault.Fault{
		What: "the audit log fits, but not every head that was kept of it is what it was", Means: "it was changed, or another key signed it",
		Do: "look at the lines; who can write in anchors/ is the user that runs bxctl", Key: "audit-anchors", Err: errors.New(strings.Join(all, "\n")),
	}
}

// pin gives the keys that are trusted: those seen first, and brokerd's present
// one if there are none yet or it is to be added.
func (l Log) pin(root *os.Root, add bool) ([]string, error) {
	keys, err := pinned(root)
	if err != nil {
		return nil, anchorFault(err)
	}
	if len(keys) > 0 && !add {
		return keys, nil
	}
	key, err := plainText(filepath.Join(l.State, publicFile))
	if err != nil {
		return nil, anchorFault(err)
	}
	if !slices.Contains(keys, key) {
		keys = append(keys, key)
		err = durable.WriteFile(root, pinFile, []byte(strings.Join(keys, "\n")+"\n"), 0o600)
	}
	if err != nil {
		return nil, anchorFault(err)
	}
	return keys, nil
}

// plainText reads a short file in a folder that brokerd may write to: it takes no link
// and no pipe, in which bxctl up would wait for ever.
func plainText(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("%s is not a plain file", path), err)
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return strings.TrimSpace(string(b)), err
}

func pinned(root *os.Root) ([]string, error) {
	b, err := root.ReadFile(pinFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(string(b)), nil
}

// open opens a checkpoint by one of the keys.
func open(text string, keys []string) (h proto.AuditHead, err error) {
	err = checkpoint.ErrKey
	for _, key := range keys {
		if h, err = checkpoint.Open(text, key); err == nil {
			return h, nil
		}
	}
	return proto.AuditHead{}, err
}

func decode(line []byte) (*anchor, error) {
	a := new(anchor)
	if err := strict.Unmarshal(line, a); err != nil {
		return nil, fmt.Errorf("not an anchor: %w", err)
	}
	return a, nil
}

// anchors reads what was kept. Problems are anchors that are none.
func (l Log) anchors() (all []chain.Anchor, problems []string, err error) {
	root, err := os.OpenRoot(l.Anchors)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, anchorFault(err)
	}
	defer root.Close()
	keys, err := pinned(root)
	if err != nil {
		return nil, nil, anchorFault(err)
	}
	rec, err := appendlog.Scan(root, anchorFile, func(i int64, line []byte) error {
		from := fmt.Sprintf("anchors/%s:%d", anchorFile, i+1)
		a, err := decode(line)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", from, err))
			return nil
		}
		head, err := open(a.Checkpoint, keys)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", from, err))
			return nil
		}
		all = append(all, chain.Anchor{AuditHead: head, From: from, Time: a.Time})
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case errors.Is(err, appendlog.ErrCorrupt):
		problems = append(problems, "anchors/"+err.Error())
	case err != nil:
		return nil, nil, anchorFault(err)
	case rec.Torn > 0:
		problems = append(problems, fmt.Sprintf("anchors/%s: its last line is not whole: it was changed, or a crash cut it short", anchorFile))
	}
	return all, problems, nil
}
