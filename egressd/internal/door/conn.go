package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"boxmaker/egressd/internal/address"
	"boxmaker/internal/proto"
	"boxmaker/internal/proxyreq"
)

// A stream is a connection with two ends.
type stream interface {
	net.Conn
	CloseWrite() error
}

// A link is one connection of a client and what became of it.
type link struct {
	d      *Door
	n      int             // number of the attempt
	ctx    context.Context // ends when the connection shall end
	end    context.CancelCauseFunc
	client *net.UnixConn
	in     *bufio.Reader
	begun  time.Time
	last   atomic.Int64 // when something passed, in Unix nanoseconds

	sent, received atomic.Int64
	row            proto.EgressConn
}

// serve handles one connection from its head to its end.
func (d *Door) serve(n int, client *net.UnixConn) {
	defer client.Close()
	l := &link{d: d, n: n, client: client, in: bufio.NewReader(client), begun: time.Now()}
	l.ctx, l.end = context.WithCancelCause(d.ctx)
	defer l.end(nil)
	stop := context.AfterFunc(l.ctx, func() { client.Close() })
	defer stop()

	client.SetReadDeadline(l.begun.Add(d.cfg.Head))
	req, err := proxyreq.Read(l.in)
	client.SetReadDeadline(time.Time{})
	var bad *proxyreq.Error
	switch {
	case errors.As(err, &bad):
		l.row.Host = escaped(bad.Raw)
		l.refuse(proto.EgressBadRequest, bad.Why)
		return
	case errors.Is(err, io.EOF) || err != nil && l.ctx.Err() != nil:
		return // a connection on which nothing was asked
	case err != nil:
		l.refuse(proto.EgressBadRequest, "no whole request came")
		return
	}
	l.row.Host = req.Target.String()
	if verdict, text, up := l.reach(req); verdict != proto.EgressPassed {
		l.refuse(verdict, text)
	} else {
		l.pass(req, up)
	}
}

// reach decides, and connects if it may.
func (l *link) reach(req *proxyreq.Request) (proto.EgressVerdict, string, stream) {
	t := req.Target
	if req.Scheme == "https" {
		return proto.EgressBadRequest, "https goes through CONNECT", nil
	}
	if !slices.ContainsFunc(l.d.spec.Allow, func(r proxyreq.Rule) bool { return r.Allows(t) }) {
		return proto.EgressNotAllowed, t.String() + " is not in the grant's hosts", nil
	}
	if l.d.left.Load() <= 0 {
		return proto.EgressCap, "the call has used up its bytes", nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.d.cfg.Dial)
	defer cancel()
	all := []netip.Addr{t.Addr}
	if !t.Addr.IsValid() {
		var err error
		if all, err = l.d.cfg.Lookup(ctx, t.Host); err != nil {
			return l.because(proto.EgressNoAddress), t.Host + " has no usable address", nil
		}
	}
	local := slices.Contains(l.d.spec.Local, t)
	here, err := l.d.cfg.Here()
	if err != nil {
		return l.because(proto.EgressUnreachable), "the networks of this machine cannot be read, so that nothing can be told from them", nil
	}
	for _, a := range all {
		near := slices.ContainsFunc(here, func(n netip.Prefix) bool { return n.Contains(a) })
		if !permitted(a, near, local, t.Addr.IsValid()) {
			return proto.EgressPrivate, t.String() + " leads to a private address, and is not granted as local", nil
		}
	}
	for _, a := range all {
		at := netip.AddrPortFrom(a, t.Port)
		up, err := dial(ctx, at)
		if err == nil {
			l.row.Address = at.String()
			return proto.EgressPassed, "", up
		}
	}
	return l.because(proto.EgressUnreachable), t.String() + " cannot be reached", nil
}

// permitted decides on one address. What is never a host is refused even if it
// is granted, and what hands out credentials must be granted by its address. near
// says that it is in a network of this machine, or this machine itself.
func permitted(a netip.Addr, near, local, literal bool) bool {
	switch address.Of(a) {
	case address.Public:
		return !near || local
	case address.Private:
		return local
	case address.Literal:
		return local && literal
	default:
		return false
	}
}

// because is verdict, unless the time of the call is over.
func (l *link) because(verdict proto.EgressVerdict) proto.EgressVerdict {
	if errors.Is(context.Cause(l.ctx), errTime) {
		return proto.EgressTime
	}
	return verdict
}

// dial connects to exactly this address. The kernel is told it as it was
// checked; the hook sees what the kernel is told.
func dial(ctx context.Context, at netip.AddrPort) (stream, error) {
	d := net.Dialer{Control: func(_, told string, _ syscall.RawConn) error {
		if got, err := netip.ParseAddrPort(told); err != nil || got != at {
			return fmt.Errorf("door: about to connect to %s instead of %s", told, at)
		}
		return nil
	}}
	if deadline, ok := ctx.Deadline(); ok { // leave time for another address
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)*2/3, time.Second))
		defer cancel()
	}
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(errors.New("door: not TCP"), c.Close())
	}
	return tcp, nil
}

// refuse answers the client, and notes the attempt.
func (l *link) refuse(verdict proto.EgressVerdict, text string) {
	l.row.Verdict = verdict
	l.row.MS = time.Since(l.begun).Milliseconds()
	l.d.book.add(l.n, l.row)
	l.client.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = l.client.Write(refusal(verdict, text))
}

func refusal(verdict proto.EgressVerdict, text string) []byte {
	status := "403 Forbidden"
	switch verdict {
	case proto.EgressBadRequest:
		status = "400 Bad Request"
	case proto.EgressNoAddress, proto.EgressUnreachable:
		status = "502 Bad Gateway"
	case proto.EgressTime:
		status = "504 Gateway Timeout"
	case proto.EgressTooMany:
		status = "503 Service Unavailable"
	}
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\n%s: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, proxyreq.VerdictHeader, verdict, len(text)+1, text)
}

// tooMany refuses a connection without reading it.
func (d *Door) tooMany(n int, client *net.UnixConn) {
	defer client.Close()
	d.book.add(n, proto.EgressConn{Verdict: proto.EgressTooMany})
	client.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = client.Write(refusal(proto.EgressTooMany, "too many connections of one call"))
}
