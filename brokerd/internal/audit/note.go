package audit

import (
	"fmt"
	"os"

	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
)

// HeadFile holds, in brokerd's own folder, how long the log was: "N:HASH", and
// spaces up to a fixed length. It is written always after the record itself is
// on disk, so that no crash makes the log shorter than it says.
const HeadFile = "audit.head"

// noteLen is the length of the file: it never changes in place, so that a crash
// leaves one text or the other. A disk writes so few bytes at once.
const noteLen = 96

// A note is that file.
type note struct {
	root *os.Root // nil: there is none
	file *os.File // once it was kept
}

// keep writes a head down, synced: at the start, at the end, and with each
// checkpoint.
func (n *note) keep(h proto.AuditHead) error {
	if n.root == nil {
		return nil
	}
	err := durable.WriteFile(n.root, HeadFile, noteOf(h), 0o600)
	if err == nil {
		err = n.close() // that of the name before
	}
	if err == nil {
		n.file, err = n.root.OpenFile(HeadFile, os.O_WRONLY, 0)
	}
	if err != nil {
		return fmt.Errorf("audit: cannot note the head of the audit log: %w%s", err, advice(err))
	}
	return nil
}

// follow writes the head of a new record over the one before, and does not sync
// it, which would cost as much as the record did.
func (n *note) follow(h proto.AuditHead) error {
	if n.file == nil {
		return nil
	}
	if _, err := n.file.WriteAt(noteOf(h), 0); err != nil {
		return fmt.Errorf("cannot note the head of the audit log: %w", err)
	}
	return nil
}

func (n *note) close() error {
	if n.file == nil {
		return nil
	}
	err := n.file.Close()
	n.file = nil
	return err
}

func noteOf(h proto.AuditHead) []byte {
	b := append(make([]byte, 0, noteLen), FormatHead(h)...)
	for len(b) < noteLen-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}
