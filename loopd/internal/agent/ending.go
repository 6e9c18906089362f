package agent

import "boxmaker/internal/proto"

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

// refused is the error of a log that could not take a message and is as it was.
// Who sent it has been told, so that nothing is lost.
type refused struct{ err error }

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// giveUp closes a session whose log refused a message: whoever comes next opens it
// anew.
func (c *conversation) giveUp(err error) {
	e := sessionError(c.id, err)
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
		case resume:
			c.a.cfg.Log.Error("a session cannot go on", "session", c.id, "error", e.Text, "runbook", e.Runbook)
		}
	}
}
