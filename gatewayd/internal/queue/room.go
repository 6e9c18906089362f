package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"boxmaker/internal/durable"
)

const (
	roomName = "room"
	roomSize = 64 << 10
)

// Room looks whether a folder takes a record again, by writing one and taking it
// away. After a failure it is to be asked before [Open]: a log that could be opened
// and not be written would be found out by the next message alone.
func Room(root *os.Root) error {
	err := durable.WriteFile(root, roomName, make([]byte, roomSize), 0o600)
	if gone := root.Remove(roomName); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("the queue of messages: the disk is full: %w (see runbook: disk-full)", err)
	default:
		return fmt.Errorf("the queue of messages: %w (see runbook: gatewayd-state)", err)
	}
}
