package bridge

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
)

// state is what the owner can ask of a bot.
type state struct {
	up   bool
	err  error     // why not
	last time.Time // the last event
	open int       // messages without an answer
	shut int       // of those, in channels that take nothing

	missing []proto.Check // places where the owner should be heard
}

func (b *Bot) note(change func(*state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.state)
}

// lost notes that the server does not let us in.
func (b *Bot) lost(err error) {
	b.note(func(s *state) { s.up, s.err = false, err })
	if mattermost.TokenRefused(err) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.known = false
	}
}

// Checks are the rows of a status: the connection, the last event, the queue.
func (b *Bot) Checks() []proto.Check {
	b.mu.Lock()
	defer b.mu.Unlock()
	link := proto.Check{Name: "mattermost", State: "ok", Detail: "connected"}
	switch {
	case b.state.up:
		if b.known {
			link.Detail = "connected as @" + b.self.Name
		}
	case b.state.err == nil:
		link = proto.Check{Name: "mattermost", State: "pending", Detail: "not connected yet"}
	default:
		link = proto.Check{Name: "mattermost", State: "failed", Detail: "not connected: " + b.state.err.Error(), Runbook: reason(b.state.err)}
	}
	event := proto.Check{Name: "events", State: "ok", Detail: "none yet"}
	if !b.state.last.IsZero() {
		event.Detail = "the last one at " + proto.Time(b.state.last)
	}
	queue := proto.Check{Name: "queue", State: "ok", Detail: count(b.state.open, "message", "messages") + " without an answer"}
	if b.state.shut > 0 {
		queue.Detail += fmt.Sprintf(", %d of them in a channel that is archived or without the bot", b.state.shut)
	}
	return append([]proto.Check{link, event, queue}, b.state.missing...)
}

// reason gives the runbook's key for an error of the connection.
func reason(err error) string {
	var cert *tls.CertificateVerificationError
	var home *noDirect
	var no *mattermost.Refused
	switch {
	case mattermost.TokenRefused(err):
		return "mattermost-token"
	case errors.As(err, &cert):
		return "mattermost-certificate"
	case errors.As(err, &home) && errors.As(err, &no):
		return "mattermost-direct"
	default:
		return "mattermost-unreachable"
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
