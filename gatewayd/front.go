package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"boxmaker/gatewayd/internal/approve"
	"boxmaker/gatewayd/internal/bridge"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

var errNotYet = errors.New("gatewayd begins")

// A front is what stands before the desks of one life after the other.
type front struct {
	mu   sync.Mutex // guards what follows
	desk *approve.Desk
	life context.Context // it ends before the desk does
	why  error           // why there is no desk
}

func (f *front) begin(life context.Context, d *approve.Desk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.desk, f.life, f.why = d, life, nil
}

func (f *front) rest(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.desk, f.life, f.why = nil, nil, why
}

func (f *front) now() (*approve.Desk, context.Context, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk, f.life, f.why
}

// answer serves gateway.sock. Without a desk it tells why, and nothing is taken.
func (p *parts) answer(ctx context.Context, m proto.Message, s *ipc.Stream) {
	desk, life, why := p.front.now()
	if desk != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)() // an approval that waits is asked again in the next life
		desk.Serve(ctx, m, s)
		return
	}
	switch m.(type) {
	case *proto.GetGateway:
		_ = s.Send(p.status(p.resting(why)))
	case *proto.Ask: // without an answer it is asked again
	default:
		text, key := reason(why)
		_ = s.Send(&proto.Error{Code: proto.ErrNotReady, Text: text, Runbook: key})
	}
}

// resting are the rows of a status without a bot.
func (p *parts) resting(why error) []proto.Check {
	link := proto.Check{Name: "mattermost", State: "pending", Detail: "not connected"}
	if why == nil || errors.Is(why, errNotYet) || errors.Is(why, bridge.ErrChanged) {
		return []proto.Check{link}
	}
	text, key := reason(why)
	return []proto.Check{link, {Name: "queue", State: "failed", Detail: text, Runbook: key}}
}

// reason is an error in words for those who ask how it is, and its key.
func reason(why error) (text, key string) {
	switch {
	case why == nil, errors.Is(why, errNotYet):
		return "gatewayd begins", "not-ready"
	case errors.Is(why, bridge.ErrChanged):
		return "gatewayd ends, to be started with other settings", "not-ready"
	}
	words, rest, _ := strings.Cut(why.Error(), " (see runbook: ")
	key, _, _ = strings.Cut(rest, ")")
	if key == "" {
		key = "gatewayd-state"
	}
	return "gatewayd's own folder cannot be used, so that nothing is heard or posted until it can; it is tried again by itself: " + words, key
}
