// Package egress is brokerd's side of egress.sock: it has doors opened for
// calls, and closed.
//
// It guarantees that a door which was opened is closed again, whatever happens
// in between: by [Door.Close], and by the kernel if brokerd ends first, since
// egressd closes the door with the connection that asked for it. It does not
// check hosts; egressd does. What egressd had to tell is lost with it.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// openTime bounds the wait for a door, closeTime that for a report. Opening one
// takes no connection, so that an egressd that needs longer hangs.
const (
	openTime  = 5 * time.Second
	closeTime = 10 * time.Second
)

// A Client talks to egressd.
type Client struct {
	Socket string
}

// A Way is what a door is for.
type Way struct {
	Call  string
	Hosts []string // host:port, and *.host:port
	Local []string // those that may have a private address; they need not be in Hosts
	Bytes int64
	Until time.Time
}

// A Door is open until Close.
type Door struct {
	Path string // relative to the run folder

	client *Client
	call   string
	conn   *ipc.Conn
	once   sync.Once
	report proto.EgressReport
	err    error
}

// Open asks for a door. An error means that there is none: egressd is away, or
// it refused.
func (c *Client) Open(ctx context.Context, w Way) (*Door, error) {
	allow := slices.Clone(w.Hosts)
	for _, h := range w.Local {
		if !slices.Contains(allow, h) {
			allow = append(allow, h)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	// The connection outlives ctx, which may end before the call is tidied up.
	conn, err := ipc.Dial(context.WithoutCancel(ctx), c.Socket, proto.EgressEvents)
	if err != nil {
		return nil, fmt.Errorf("egressd cannot be asked for a way out: %w", err)
	}
	d := &Door{client: c, call: w.Call, conn: conn}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = conn.Send(&proto.OpenDoor{
		Call: w.Call, Allow: append([]string{}, allow...), Local: append([]string{}, w.Local...), Bytes: w.Bytes, Until: proto.Time(w.Until),
	})
	var m proto.Message
	if err == nil {
		m, err = conn.Recv()
	}
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	switch m := m.(type) {
	case *proto.Door:
		if err == nil {
			d.Path = m.Path
			return d, nil
		}
	case *proto.Error:
		err = errors.Join(m, err)
	default:
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	conn.Close()
	return nil, fmt.Errorf("egressd opened no way out: %w", err)
}

// Close closes the door with all its connections and gives the report. It can
// be called again, and gives the same. After an error the door is closed too,
// but nothing is known of what passed.
func (d *Door) Close() (proto.EgressReport, error) {
	d.once.Do(func() {
		defer d.conn.Close()
		d.report = proto.EgressReport{Connections: []proto.EgressConn{}}
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		m, err := ipc.Ask(ctx, d.client.Socket, proto.EgressEvents, &proto.CloseDoor{Call: d.call})
		switch m := m.(type) {
		case *proto.EgressReport:
			d.report = *m
		default:
			d.err = fmt.Errorf("egressd gave no report of a way out: %w", errors.Join(err, errNoReport(err)))
		}
	})
	return d.report, d.err
}

func errNoReport(err error) error {
	if err == nil {
		return errors.New("another answer came")
	}
	return nil
}

// Status asks how egressd is.
func (c *Client) Status(ctx context.Context) (*proto.EgressStatus, error) {
	m, err := ipc.Ask(ctx, c.Socket, proto.EgressEvents, &proto.GetEgress{})
	if err != nil {
		return nil, err
	}
	s, ok := m.(*proto.EgressStatus)
	if !ok {
		return nil, fmt.Errorf("egress: a %s is no status", m.Tag())
	}
	return s, nil
}
