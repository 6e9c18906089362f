// Package prompt assembles requests whose bytes only ever grow.
//
// Everything that is constant in an epoch stands before "messages", and nothing
// stands after it. So the request of turn N, less its last two bytes, is a
// prefix of the request of turn N+1, and the server's cache holds all of it.
// Messages are raw bytes: what the session log holds is what is sent.
//
// The package guarantees that every body is one valid JSON object in compact
// form and that bodies of one Prompt extend each other. It does not know the
// order of roles, token counts or the context window, and it is not safe for
// use by several goroutines at once.
package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

const tail = "]}"

// ErrForm reports a message or a baseline that is not in compact canonical form.
var ErrForm = errors.New("prompt: not one JSON value in canonical form")

// A Prompt is the request of one epoch, less its tail.
type Prompt struct {
	buf     []byte
	n       int
	scratch []byte // reused by the form check
}

// New starts the request of an epoch from its baseline. The body is
// {"model":…,"id_slot":N,<sampling members>,"tools":[…],"messages":[system,carry…]}.
func New(b *proto.Baseline) (*Prompt, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("prompt: baseline: %w", err)
	}
	p := &Prompt{}
	sampling, err := p.members(b.Sampling)
	if err != nil {
		return nil, fmt.Errorf("sampling: %w", err)
	}
	if err := p.checkForm(b.Tools, '['); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	p.buf = append(p.buf, `{"model":`...)
	p.buf = quote(p.buf, b.Model)
	p.buf = append(p.buf, `,"id_slot":`...)
	p.buf = strconv.AppendInt(p.buf, int64(b.Slot), 10)
	p.buf = append(p.buf, sampling...)
	p.buf = append(p.buf, `,"tools":`...)
	p.buf = append(p.buf, b.Tools...)
	p.buf = append(p.buf, `,"messages":[`...)
	// A member that stands twice is found here: sampling cannot bring its own
	// "messages" or "tools".
	if err := p.checkForm(p.Body(), '{'); err != nil {
		return nil, fmt.Errorf("prompt: constant members: %w", err)
	}
	for _, m := range append([]jsontext.Value{b.System}, b.Carry...) {
		if err := p.Append(m); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Append adds one message, exactly as it stands. It refuses anything but one
// JSON object without white space between tokens, in canonical escapes and
// without duplicate names; the prompt is then unchanged.
func (p *Prompt) Append(msg []byte) error {
	if err := p.checkForm(msg, '{'); err != nil {
		return err
	}
	if p.n > 0 {
		p.buf = append(p.buf, ',')
	}
	p.buf = append(p.buf, msg...)
	p.n++
	return nil
}

// Body returns the whole request in a buffer of its own.
func (p *Prompt) Body() []byte {
	b := make([]byte, 0, len(p.buf)+len(tail))
	return append(append(b, p.buf...), tail...)
}

// Size is the length of [Prompt.Body] in bytes.
func (p *Prompt) Size() int { return len(p.buf) + len(tail) }

// Messages counts the messages, the system message and the carried ones included.
func (p *Prompt) Messages() int { return p.n }

// Grow makes room for n more bytes, so that a replay of known size allocates once.
func (p *Prompt) Grow(n int) {
	if n > cap(p.buf)-len(p.buf) {
		p.buf = append(make([]byte, 0, len(p.buf)+n), p.buf...)
	}
}

// checkForm formats b, an object or array, anew in compact canonical form and
// compares.
func (p *Prompt) checkForm(b []byte, open byte) error {
	if len(b) < 2 || b[0] != open {
		return fmt.Errorf("%w: %.40q", ErrForm, b)
	}
	out, err := jsontext.AppendFormat(p.scratch[:0], b)
	p.scratch = out[:0]
	if cap(p.scratch) > 1<<20 {
		p.scratch = nil // one huge message must not hold its size twice
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	if !bytes.Equal(out, b) {
		at, _ := firstDiff(b, out)
		return fmt.Errorf("%w: byte %d: %.40q", ErrForm, at, b[min(at, len(b)):])
	}
	return nil
}

// members gives the members of an object with a comma in front of each.
func (p *Prompt) members(obj jsontext.Value) ([]byte, error) {
	if err := p.checkForm(obj, '{'); err != nil {
		return nil, err
	}
	if len(obj) == 2 {
		return nil, nil
	}
	return append([]byte{','}, obj[1:len(obj)-1]...), nil
}
