package agent

import (
	"errors"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/session"
)

// die ends the agent after a failed write, and tells all who wait.
func (c *conversation) die(err error) {
	e := sessionError(c.id, err)
	c.answerAll(e)
	c.hub.fail(e)
	c.a.fatal(err)
	if c.cancel != nil {
		c.cancel()
	}
	c.ops.Wait()
	c.a.retire(c, true)
}

// written reports whether err is of a write or sync, after which nobody knows what
// is on disk. Any other error left the disk as it was, or well known.
func written(err error) bool {
	var e *session.Error
	return errors.As(err, &e) && !e.Unchanged
}

// giveUp closes a session that cannot go on, and tells all who wait: whoever comes
// next opens it anew. The other sessions do not notice.
func (c *conversation) giveUp(err error) {
	e := sessionError(c.id, err)
	c.a.cfg.Log.Error("a session is closed", "session", c.id, "error", e.Text, "runbook", e.Runbook)
	if c.cancel != nil {
		c.cancel()
	}
	c.ops.Wait()
	c.hub.fail(e)
	c.refuse(e)
}

// refuse answers everybody with e until the mailbox is empty.
func (c *conversation) refuse(e *proto.Error) {
	for {
		c.answerAll(e)
		if c.a.retire(c, false) {
			return
		}
	}
}

func (c *conversation) answerAll(e *proto.Error) {
	for _, m := range c.take() {
		switch m := m.(type) {
		case submit:
			m.reply <- joined{err: e}
		case follow:
			m.reply <- joined{err: e}
		case stop:
			m.reply <- false
		case delivered:
			m.reply <- e
		case resume:
			c.a.cfg.Log.Error("a session cannot go on", "session", c.id, "error", e.Text, "runbook", e.Runbook)
		}
	}
}
