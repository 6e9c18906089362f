package inject

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/proxyreq"
)

// A forwarder is the door of one call.
type forwarder struct {
	ctx     context.Context // ends with the call
	way     string          // egressd's door
	entries []entry
	roots   *x509.CertPool
}

// atOnce bounds the connections.
const atOnce = 32

func (f *forwarder) serve(l *net.UnixListener) {
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, atOnce)
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) || f.ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return
		}
		if err != nil { // out of descriptors: it passes
			time.Sleep(20 * time.Millisecond)
			continue
		}
		select {
		case places <- struct{}{}:
			all.Go(func() {
				defer func() { <-places }()
				f.handle(c)
			})
		default:
			answer(c, proto.EgressTooMany, "too many connections of one call")
			c.Close()
		}
	}
}

// handle serves one connection: one request.
func (f *forwarder) handle(client *net.UnixConn) {
	defer client.Close()
	defer context.AfterFunc(f.ctx, func() { client.Close() })()
	in := bufio.NewReader(client)
	client.SetReadDeadline(time.Now().Add(headTime))
	req, err := proxyreq.Read(in)
	client.SetReadDeadline(time.Time{})
	var bad *proxyreq.Error
	switch {
	case errors.As(err, &bad):
		answer(client, proto.EgressBadRequest, bad.Why)
		return
	case err != nil:
		return
	}
	var d net.Dialer
	conn, err := d.DialContext(f.ctx, "unix", f.way)
	if err != nil {
		answer(client, proto.EgressUnreachable, "the way out is closed")
		return
	}
	defer conn.Close()
	defer context.AfterFunc(f.ctx, func() { conn.Close() })()
	out := conn.(*net.UnixConn) // what the network "unix" gives
	switch req.Scheme {
	case "": // a tunnel: what is in it is the tool's own
		through(client, in, out, "CONNECT "+req.Target.String()+" HTTP/1.1\r\n\r\n", -1)
	case "http":
		if slices.ContainsFunc(f.entries, func(e entry) bool { return e.target == req.Target }) { // it would go without a word
			answer(client, proto.EgressBadRequest, fmt.Sprintf("the grant has a secret for %s, which goes over https only; ask for https://%s", req.Target, req.Target))
			return
		}
		head := string(req.Append(nil))
		_, rest, _ := strings.Cut(head, " ")
		through(client, in, out, req.Method+" http://"+req.Target.String()+rest, req.Length)
	case "https":
		f.secured(client, in, out, req)
	default:
		answer(client, proto.EgressBadRequest, "this scheme is not known here")
	}
}

// through sends a head and then bytes both ways, as they are: n of the client,
// or all of them if n is negative. egressd decides.
func through(client *net.UnixConn, in io.Reader, out *net.UnixConn, head string, n int64) {
	if _, err := io.WriteString(out, head); err != nil {
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		if n >= 0 {
			in = io.LimitReader(in, n)
		}
		_, err := io.Copy(out, in)
		if n < 0 || err != nil {
			out.CloseWrite() // of a request with a length, egressd knows the end
		}
	})
	io.Copy(client, out)
	client.CloseWrite()
	out.Close()
	client.CloseRead()
	all.Wait()
}

// secured makes TLS through egressd's door and sends the request in it, with
// the secret if the request is for its host.
func (f *forwarder) secured(client *net.UnixConn, in *bufio.Reader, out *net.UnixConn, req *proxyreq.Request) {
	if refused, err := tunnel(out, req.Target); err != nil {
		answer(client, proto.EgressUnreachable, "the way out gave no answer")
		return
	} else if refused != nil { // egressd's own words
		client.Write(refused)
		return
	}
	conn := tls.Client(out, &tls.Config{RootCAs: f.roots, ServerName: req.Target.Host, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	ctx, cancel := context.WithTimeout(f.ctx, shakeTime)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		answer(client, proto.EgressUnreachable, "no TLS connection with "+req.Target.String()+": "+err.Error())
		return
	}
	added := f.add(req)
	if _, err := conn.Write(req.Append(nil)); err != nil {
		answer(client, proto.EgressUnreachable, req.Target.String()+" closed the connection")
		return
	}
	if req.Expect {
		io.WriteString(client, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	var all sync.WaitGroup
	all.Go(func() {
		// More than the body is not sent anywhere. A client that goes away ends
		// the exchange.
		if _, err := io.CopyN(conn, in, req.Length); err == nil {
			_, _ = in.ReadByte()
		}
		out.Close()
	})
	if err := respond(client, conn, added); err != nil {
		answer(client, proto.EgressUnreachable, req.Target.String()+" gave no answer that can be used")
	}
	out.Close()
	client.CloseWrite()
	client.CloseRead()
	all.Wait()
}

// add puts the headers of the entries for exactly this host and port in place
// of those that the tool sent. It gives the values that must not come back.
func (f *forwarder) add(req *proxyreq.Request) (values []string) {
	for _, e := range f.entries {
		if e.target == req.Target && req.Scheme == "https" {
			req.Without(e.field.Name)
			req.Without("Accept-Encoding") // what is compressed cannot be looked through
			for _, name := range []string{"Range", "If-Range", "Request-Range"} {
				req.Without(name) // a value that comes back in pieces, over several calls, is found in none
			}
			req.Fields = append(req.Fields, e.field)
			values = append(values, e.value)
		}
	}
	return values
}

// maxAnswer bounds egressd's answer to CONNECT.
const maxAnswer = 16 << 10

// tunnel asks for a tunnel. refused is the whole answer if there is none.
func tunnel(out *net.UnixConn, t proxyreq.Target) (refused []byte, err error) {
	if _, err := fmt.Fprintf(out, "CONNECT %s HTTP/1.1\r\n\r\n", t); err != nil {
		return nil, err
	}
	// One byte at a time: what follows belongs to TLS.
	var head []byte
	one := make([]byte, 1)
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		if len(head) > maxAnswer {
			return nil, errors.New("inject: the answer does not end")
		}
		if _, err := io.ReadFull(out, one); err != nil {
			return nil, err
		}
		head = append(head, one[0])
	}
	if strings.HasPrefix(string(head), "HTTP/1.1 200 ") {
		return nil, nil
	}
	rest, err := io.ReadAll(io.LimitReader(out, maxAnswer))
	return append(head, rest...), err
}

// answer tells the tool why there is no response, as egressd does.
func answer(client *net.UnixConn, verdict proto.EgressVerdict, text string) {
	client.SetWriteDeadline(time.Now().Add(time.Second))
	text = strings.ToValidUTF8(text, "?")
	fmt.Fprintf(client, "HTTP/1.1 502 Bad Gateway\r\n%s: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		proxyreq.VerdictHeader, verdict, len(text)+1, text)
}
