package agent

import (
	"errors"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/turn"
)

// openLog replays the session's newest epoch.
func (c *conversation) openLog() error {
	log, err := c.a.cfg.Store.Open(c.id, func(epoch int, h proto.Header, r proto.Record) error {
		err := c.fold(epoch, h.N, r)
		if _, first := r.(*proto.Baseline); first && err == nil {
			c.growPrompt()
		}
		return err
	})
	if err != nil {
		return err
	}
	c.log = log
	if c.prompt != nil {
		c.resumed = c.state.Phase == turn.Calling
	}
	if c.state.Phase != turn.Resting {
		c.busy.Store(true)
		c.from = log.Records() - 1
		c.hub.begin(c.state.Origin)
		c.confirmAgain()
	}
	return nil
}

// growPrompt makes room for the whole epoch at once: a long session is opened
// without copying its prompt again and again.
func (c *conversation) growPrompt() {
	if size, err := c.a.cfg.Store.Size(c.id); err == nil {
		c.prompt.Grow(int(size))
	}
}

// fold takes one record that is on disk into prompt and state.
func (c *conversation) fold(epoch int, n int64, r proto.Record) error {
	if b, ok := r.(*proto.Baseline); ok {
		p, err := prompt.New(b)
		if err != nil {
			return err
		}
		c.prompt, c.slotID = p, b.Slot
	}
	if m := proto.MessageOf(r); m != nil {
		if c.prompt == nil {
			return errors.New("agent: a message before the baseline")
		}
		if err := c.prompt.Append(m); err != nil {
			return err
		}
	}
	s, next, err := turn.Next(c.state, epoch, n, r)
	if err != nil {
		return err
	}
	c.state, c.next = s, next
	return nil
}

// append makes records durable, then folds them. An error ends the conversation.
//
// They are tried before: what could not be read back is not written.
func (c *conversation) append(recs ...proto.Record) (int64, error) {
	s := c.state
	for i, r := range recs {
		var err error
		if s, _, err = turn.Next(s, c.log.Epoch(), c.log.Records()+int64(i), r); err != nil {
			return 0, err
		}
	}
	first, err := c.log.Append(recs...)
	if err != nil {
		return 0, err
	}
	for i, r := range recs {
		if err := c.fold(c.log.Epoch(), first+int64(i), r); err != nil {
			return 0, err
		}
	}
	return first, nil
}

func (c *conversation) newEpoch() error {
	b := c.a.serving.Baseline(c.newSlot())
	if c.log.Epoch() > 0 {
		b.Carry = c.carry()
	}
	if err := c.log.StartEpoch(b); err != nil {
		return err
	}
	return c.fold(c.log.Epoch(), 0, b)
}
