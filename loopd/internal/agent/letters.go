package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/turn"
)

// errEnding is told to whoever waits when loopd ends.
var errEnding = &proto.Error{
	Code: proto.ErrNotReady, Runbook: "loopd-ending",
	Text: "loopd is ending, so this stream is over. Accepted messages are kept and go on when it is back; send the same request again",
}

// Ending is the answer to a client that loopd's end leaves without one.
func Ending() *proto.Error { return errEnding }

// handle takes one letter. An error ends the conversation.
func (c *conversation) handle(ctx context.Context, m any) error {
	switch m := m.(type) {
	case submit:
		return c.submit(m)
	case follow:
		m.reply <- c.follow()
		return nil
	case stop:
		return c.stop(m)
	case delivered:
		return c.delivered(m)
	case resume:
		return nil // being open is all it takes
	case asked:
		return c.asked(m.m)
	case finished:
		return c.finished(ctx, m)
	default:
		return fmt.Errorf("agent: no rule for letter %T", m)
	}
}

func (c *conversation) submit(l submit) error {
	m := l.m
	if o, ok := c.log.Origin(m.Origin); ok {
		l.reply <- c.rejoin(m.Origin, o)
		return nil
	}
	text, hits := c.a.serving.Neutral.Text(m.Text)
	message := prompt.UserMessage(text)
	waiting := len(c.log.Pending())
	if c.state.Phase == turn.Resting && waiting == 0 {
		if err := c.begin(&proto.User{Origin: m.Origin, Surface: m.Surface, Message: message}); err != nil {
			return c.notTaken(l, err)
		}
		l.reply <- joined{stream: c.hub.subscribe(m.Origin, &proto.Accepted{Record: c.log.Records() - 1})}
		if hits > 0 {
			c.hub.send(madeInert(hits))
		}
		return nil
	}
	if waiting >= c.a.cfg.Settings.Limits.Queue {
		l.reply <- joined{err: &proto.Error{
			Code: proto.ErrQueueFull, Runbook: "queue-full",
			Text: fmt.Sprintf("%d messages wait in this session already, so this one was not taken. Wait for an answer, or stop the turn", waiting),
		}}
		return nil
	}
	n, err := c.append(&proto.Queued{Origin: m.Origin, Surface: m.Surface, Message: message})
	if err != nil {
		return c.notTaken(l, err)
	}
	first := []proto.Message{&proto.Accepted{Record: n, Queued: waiting + 1}, &proto.Waiting{Reason: proto.WaitQueue, Ahead: waiting + 1}}
	if hits > 0 {
		first = append(first, madeInert(hits))
	}
	l.reply <- joined{stream: c.hub.subscribe(m.Origin, first...)}
	return nil
}

func madeInert(hits int) *proto.Notice {
	return &proto.Notice{
		Kind: proto.NoticeNeutralised,
		Text: fmt.Sprintf("Control tokens of chat templates in your text (%d) were made inert: the model reads ‹ › for < >.", hits),
	}
}

// notTaken tells the sender of a message why it is not in the log.
func (c *conversation) notTaken(l submit, err error) error {
	l.reply <- joined{err: sessionError(c.id, err)}
	return err
}

func (c *conversation) follow() joined {
	if c.log.Epoch() == 0 {
		return joined{err: NoSession(c.id)}
	}
	place := c.log.Records() - 1
	if c.state.Phase != turn.Resting {
		place = c.from
	}
	return joined{stream: c.hub.subscribe(""), epoch: c.log.Epoch(), place: place}
}

func (c *conversation) stop(l stop) error {
	running := (c.state.Phase == turn.Wanting || c.state.Phase == turn.Calling) && !c.state.Stopped
	if running {
		if _, err := c.append(&proto.StopAsked{}); err != nil {
			l.reply <- false
			return err
		}
		if c.cancel != nil {
			c.cancel()
		}
	}
	l.reply <- running || c.state.Stopped && c.state.Phase != turn.Resting
	return nil
}

func (c *conversation) delivered(l delivered) error {
	if c.log.Epoch() == 0 {
		l.reply <- NoSession(c.id)
		return nil
	}
	_, err := c.append(&proto.Delivered{Key: l.key})
	if err != nil {
		l.reply <- sessionError(c.id, err)
		return err
	}
	l.reply <- nil
	return nil
}

func (c *conversation) asked(m *proto.Asked) error {
	if _, err := c.append(&proto.CallAsked{Call: m.Call, Approval: m.Approval, Expires: m.Expires}); err != nil {
		return err
	}
	c.hub.send(m)
	c.hub.send(&proto.Waiting{Reason: proto.WaitApproval})
	return nil
}

// finished takes what came of the running operation.
func (c *conversation) finished(ctx context.Context, l finished) error {
	c.cancel = nil
	if ctx.Err() != nil {
		return nil // the process ends: the log says where to go on
	}
	if len(l.records) > 0 {
		if _, err := c.append(l.records...); err != nil {
			return err
		}
	}
	for _, r := range l.records {
		c.announce(r)
	}
	if l.confirm != "" {
		c.a.settle(l.confirm, l.open && c.state.Stopped)
	}
	return nil
}

// checkText refuses what cannot become a message. The bound is in bytes.
func checkText(text string, most int64) error {
	switch {
	case strings.TrimSpace(text) == "":
		return &proto.Error{
			Code: proto.ErrEmptyMessage, Runbook: "empty-message",
			Text: "the message is empty, so there is nothing to answer",
		}
	case int64(len(text)) > most:
		return &proto.Error{
			Code: proto.ErrMessageLarge, Runbook: "message-too-large",
			Text: fmt.Sprintf("the message has %d bytes and the limit is %d, so it was not taken. Put the text into a file that the agent may read, or raise limits.message", len(text), most),
		}
	case !utf8.ValidString(text):
		return &proto.Error{
			Code: proto.ErrBadRequest, Runbook: "message-not-utf8",
			Text: "the message is not UTF-8 text, so it was not taken. Convert it first",
		}
	default:
		return nil
	}
}

// NoSession is the answer to a request for a session that is not there.
func NoSession(id string) *proto.Error {
	return &proto.Error{Code: proto.ErrNoSession, Runbook: "no-session", Text: fmt.Sprintf("there is no session %q. `bxctl sessions list` shows what there is", id)}
}

// sessionError says what a failed log means for the owner: errors of package
// session know it themselves.
func sessionError(id string, err error) *proto.Error {
	var e *proto.Error
	if errors.As(err, &e) {
		return e
	}
	return &proto.Error{
		Code: proto.ErrSessionLog, Runbook: "session-log",
		Text: fmt.Sprintf("the log of session %s cannot be used: %v", id, err),
	}
}
