package door

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/proxyreq"
)

// What is on its way in one direction: little at first, since most connections
// carry little, and more once that was full.
const (
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10
)

// established answers CONNECT.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// pass moves the bytes of a connection that may be, and notes it at its end.
func (l *link) pass(req *proxyreq.Request, up stream) {
	defer up.Close()
	stop := context.AfterFunc(l.ctx, func() { up.Close() })
	defer stop()
	l.last.Store(time.Now().UnixNano())
	idle := l.watch()
	defer idle()

	var ways sync.WaitGroup
	ways.Go(func() { l.over(l.outward(req, up)) })
	ways.Go(func() { l.over(l.inward(req, up)) })
	ways.Wait()

	l.row.Verdict = proto.EgressPassed
	switch cause := context.Cause(l.ctx); {
	case errors.Is(cause, errCap):
		l.row.Verdict = proto.EgressCap
	case errors.Is(cause, errTime), errors.Is(cause, errIdle):
		l.row.Verdict = proto.EgressTime
	}
	l.row.Sent, l.row.Received = l.sent.Load(), l.received.Load()
	l.row.MS = time.Since(l.begun).Milliseconds()
	l.d.book.add(l.n, l.row)
}

// over ends both ways if one of them failed; one that came to its end does not
// stop the other.
func (l *link) over(err error) {
	if err != nil {
		l.end(err)
	}
}

var (
	errExtra = errors.New("door: more than one request on a connection")
	errDone  = errors.New("door: the server has answered")
)

// outward moves what the client sends.
func (l *link) outward(req *proxyreq.Request, up stream) error {
	if req.Connect() {
		if err := l.move(up, l.in, -1, &l.sent); err != nil {
			return err
		}
		return up.CloseWrite()
	}
	head := req.Append(nil)
	if n := l.take(len(head)); n < len(head) {
		return errCap
	}
	if _, err := up.Write(head); err != nil {
		return err
	}
	l.sent.Add(int64(len(head)))
	if err := l.move(up, l.in, req.Length, &l.sent); err != nil {
		return err
	}
	// The client may close its end now. Whatever else it sends is not for this
	// server: a second request would not have been checked.
	if _, err := l.in.ReadByte(); err == nil {
		return errExtra
	}
	return nil
}

// inward moves what the server sends.
func (l *link) inward(req *proxyreq.Request, up stream) error {
	greeting := ""
	switch {
	case req.Connect():
		greeting = established
	case req.Expect:
		greeting = "HTTP/1.1 100 Continue\r\n\r\n"
	}
	if _, err := io.WriteString(l.client, greeting); err != nil {
		return err
	}
	if err := l.move(l.client, up, -1, &l.received); err != nil {
		return err
	}
	if err := l.client.CloseWrite(); err != nil {
		return err
	}
	if !req.Connect() {
		return errDone // the client has no more to say here
	}
	return nil
}

// move copies n bytes, or all if n is negative, counts them, and stops at the
// cap of the call. The end of the source is no error, unless n are not there.
func (l *link) move(to io.Writer, from io.Reader, n int64, count counter) error {
	buf := make([]byte, smallBuffer)
	for n != 0 {
		part := buf
		if n > 0 {
			part = buf[:min(n, int64(len(buf)))]
		}
		got, err := from.Read(part)
		if got == len(buf) && len(buf) == smallBuffer {
			buf = make([]byte, largeBuffer)
		}
		may := l.take(got)
		if may > 0 {
			if _, err := to.Write(part[:may]); err != nil {
				return err
			}
			count.Add(int64(may))
			l.last.Store(time.Now().UnixNano())
		}
		switch {
		case may < got:
			return errCap
		case n > 0:
			n -= int64(got)
		}
		switch {
		case n == 0 || err == nil:
		case errors.Is(err, io.EOF) && n < 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}

type counter interface{ Add(int64) int64 }

// take takes up to n bytes from what the call has left, and says how many.
func (l *link) take(n int) int {
	missing := -l.d.left.Add(-int64(n))
	return n - int(min(max(missing, 0), int64(n)))
}

// watch ends the connection when nothing passes for too long.
func (l *link) watch() (stop func()) {
	idle := l.d.cfg.Idle
	var mu sync.Mutex // guards timer, which the function itself sets anew
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(idle, func() {
		quiet := time.Since(time.Unix(0, l.last.Load()))
		if quiet >= idle {
			l.end(errIdle)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Reset(idle - quiet)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}
