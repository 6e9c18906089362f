package llama

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

const body = `{"model":"test-model","id_slot":0,"stream":true,"messages":[{"role":"user","content":"hi"}]}`

// newClient returns a client of l.
func newClient(l *testkit.Llama, limits Limits) *Client {
	return New(Config{Model: "test-model", Limits: limits, Dial: l.Dial})
}

// outcome is all that one chat gave.
type outcome struct {
	got    Completion
	err    *Error
	events []Event
}

func chatOnce(t *testing.T, c *Client) outcome {
	t.Helper()
	return chatWith(t, context.Background(), c)
}

func chatWith(t *testing.T, ctx context.Context, c *Client) outcome {
	t.Helper()
	var o outcome
	var err error
	o.got, err = c.Chat(ctx, []byte(body), func(ev Event) { o.events = append(o.events, ev) })
	if err != nil && !errors.As(err, &o.err) {
		t.Fatalf("not an *Error: %v", err)
	}
	return o
}

// shown is the text that a person would have seen.
func (o outcome) shown() string {
	s := ""
	for _, ev := range o.events {
		if text, ok := ev.(Text); ok {
			s += text.Text
		}
	}
	return s
}

// count counts events of the type of like.
func (o outcome) count(like Event) int {
	n := 0
	for _, ev := range o.events {
		if fmt.Sprintf("%T", ev) == fmt.Sprintf("%T", like) {
			n++
		}
	}
	return n
}

// want checks how the chat ended; an empty why means well.
func (o outcome) want(t *testing.T, why proto.Why, retry bool) {
	t.Helper()
	switch {
	case o.err == nil && why == "":
	case o.err == nil:
		t.Errorf("no error, want %s; content %q", why, o.got.Content)
	case o.err.Why != why || o.err.Retry != retry:
		t.Errorf("why %s, retry %v; want %q, %v: %v", o.err.Why, o.err.Retry, why, retry, o.err)
	}
}
