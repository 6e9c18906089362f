// Package loop talks to loopd over loop.sock.
//
// A [Client] guarantees that a submitted message is answered at most once,
// however often the connection or loopd itself goes away in between: it joins
// the same turn again by its origin. It holds no state between calls, and
// passes on what loopd says unchanged: cleaning for a terminal is the
// caller's.
package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/frame"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A Client asks the loopd that listens at Path.
type Client struct {
	Path string
	// Patience is how long a turn is waited for while loopd is away; 0 means
	// two minutes.
	Patience time.Duration
	// Gone reports that nothing is there that would start loopd again. Where nobody
	// listens and it says so, a turn is waited for no longer than for a restart by
	// hand. nil: unknown.
	Gone func() bool
}

// Status asks for loopd's state.
func (c Client) Status(ctx context.Context) (*proto.Status, error) {
	return ask[*proto.Status](ctx, c, &proto.GetStatus{})
}

// Stop ends the running turn of a session; false if none ran.
func (c Client) Stop(ctx context.Context, session string) (bool, error) {
	m, err := ask[*proto.Stopped](ctx, c, &proto.Stop{Session: session})
	return err == nil && m.Running, err
}

// Sessions lists the newest sessions.
func (c Client) Sessions(ctx context.Context, prefix string, limit int) (*proto.SessionList, error) {
	return ask[*proto.SessionList](ctx, c, &proto.ListSessions{Prefix: prefix, Limit: limit})
}

// ask sends a request that one event answers.
func ask[T proto.Message](ctx context.Context, c Client, req proto.Message) (answer T, err error) {
	m, err := ipc.Ask(ctx, c.Path, proto.LoopEvents, req)
	if err != nil {
		return answer, Explain(err)
	}
	answer, ok := m.(T)
	if !ok {
		return answer, odd(m)
	}
	return answer, nil
}

// Past reads a session's history and hands each message to visit.
func (c Client) Past(ctx context.Context, session string, visit func(*proto.Past) error) (*proto.SessionDetail, error) {
	conn, err := ipc.Dial(ctx, c.Path, proto.LoopEvents)
	if err != nil {
		return nil, Explain(err)
	}
	defer conn.Close()
	if err := conn.Send(&proto.Watch{Session: session}); err != nil {
		return nil, Explain(err)
	}
	for {
		m, err := conn.Recv()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, Explain(err)
		}
		switch m := m.(type) {
		case *proto.Past:
			if err := visit(m); err != nil {
				return nil, err
			}
		case *proto.SessionDetail:
			return m, nil
		case *proto.Error:
			return nil, Explain(m)
		default:
			return nil, odd(m)
		}
	}
}

func odd(m proto.Message) error {
	return &fault.Fault{
		What:  fmt.Sprintf("loopd answered with %q, which is no answer to that", m.Tag()),
		Means: "bxctl and loopd are of different versions", Do: "build both anew (make build) and restart: bxctl down; bxctl up", Key: "version-mismatch",
	}
}

// Away reports whether err says that nobody listens.
func Away(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// NotRunning is the fault of a Boxmaker that is not there.
func NotRunning(err error) error {
	return &fault.Fault{
		Code: fault.NotRunning, What: "Boxmaker is not running here", Err: err,
		Do: "start it with: bxctl up --detach", Key: "not-running",
	}
}

// Explain makes a fault of an error of ipc, or of loopd's own.
func Explain(err error) error {
	var e *proto.Error
	var f *fault.Fault
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &e):
		return &fault.Fault{Code: codeOf(e.Code), What: Sentence(e.Text), Key: e.Runbook}
	case Away(err):
		return NotRunning(nil)
	case errors.Is(err, frame.ErrTooLarge):
		return &fault.Fault{Code: fault.Usage, What: "the message is too large to be sent", Do: "send a part of it", Key: "message-too-large"}
	case errors.Is(err, fs.ErrPermission):
		return &fault.Fault{
			What: "the socket of loopd can't be opened", Err: err, Means: "Boxmaker runs as another user",
			Do: "run bxctl as the user that ran bxctl up", Key: "socket-permission",
		}
	default:
		return &fault.Fault{
			What: "the connection to loopd broke", Err: err,
			Do: "try again; bxctl status and bxctl logs loopd tell more", Key: "loopd-connection",
		}
	}
}

// Sentence takes the full stop and the runbook key off a text that gets its own.
func Sentence(s string) string {
	if head, _, ok := strings.Cut(s, " (see runbook:"); ok {
		s = head
	}
	return strings.TrimSuffix(strings.TrimSpace(s), ".")
}

func codeOf(c proto.ErrCode) int {
	switch c {
	case proto.ErrBadRequest, proto.ErrBadSession, proto.ErrEmptyMessage, proto.ErrMessageLarge:
		return fault.Usage
	case proto.ErrUpstream:
		return fault.Unanswered
	default:
		return fault.Failed
	}
}

// NewOrigin makes an origin id that nobody made before.
func NewOrigin() string { return "bx-" + strings.ToLower(rand.Text()) }

// NewSession makes the id of a chat session, with the day to recognise it by.
func NewSession(now time.Time) string {
	return "chat-" + now.Format("20060102") + "-" + strings.ToLower(rand.Text()[:6])
}
