package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
)

// StartEpoch starts the next epoch, of a new session the first. When it returns
// nil, the baseline is on disk and records go to the new file. A crash in it
// leaves the session as it was; so does an [Error] that says Unchanged.
func (c *Session) StartEpoch(b *proto.Baseline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, err := proto.EncodeRecord(proto.Header{Time: c.store.Now()}, b)
	if err != nil {
		return err
	}
	name := epochName(c.id, c.epoch+1)
	if err := c.makeEpoch(name, line); err != nil {
		return err
	}
	log, _, err := appendlog.Open(appendlog.Config{Root: c.store.root, Name: name})
	if err != nil {
		return problem(c.id, err)
	}
	if c.log != nil {
		err = c.log.Close()
	}
	c.log, c.epoch = log, c.epoch+1
	if err == nil {
		c.file, err = c.store.root.Lstat(name)
	}
	return problem(c.id, err)
}

// makeEpoch makes the file under another name and then gives it its own, so that
// under that name there is never a file without a baseline. What is renamed stays
// in its folder: a confined loopd may not move things from one to another.
func (c *Session) makeEpoch(name string, line []byte) error {
	root, first := c.store.root, c.epoch == 0
	temp := newName(name)
	from, to := temp, name
	if first { // the folder appears with its first file in it
		from, to = newPrefix+c.id, c.id
		temp = path.Join(from, path.Base(name))
	}
	err := root.RemoveAll(from)
	if err == nil && first {
		err = durable.Mkdir(root, from, 0o700)
	}
	if err == nil {
		err = writeFirst(root, temp, line)
	}
	if err == nil {
		if _, at := root.Lstat(name); !errors.Is(at, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s is there already", errCorrupt, name)
		}
	}
	if err == nil {
		err = root.Rename(from, to)
	}
	if err != nil {
		_ = root.RemoveAll(from) // perhaps the disk is full; what is left does not count
		return unchanged(c.id, err)
	}
	return problem(c.id, durable.SyncDir(root, path.Dir(to)))
}

// writeFirst makes a log of one line.
func writeFirst(root *os.Root, name string, line []byte) error {
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: name})
	if err != nil {
		return err
	}
	return errors.Join(log.Append(line), log.Close())
}

// newName is where the next epoch's file is made.
func newName(name string) string { return path.Join(path.Dir(name), newPrefix+path.Base(name)) }
