package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"boxmaker/internal/proto"
	"boxmaker/internal/proxyreq"
	"boxmaker/internal/tooltext"
)

// exchange sends one request through the door and reads the head of the
// answer. end closes the connection.
func (w Work) exchange(ctx context.Context, h hop) (resp *http.Response, end func(), err error) {
	req, err := http.NewRequestWithContext(ctx, h.method, h.url.String(), strings.NewReader(h.body))
	if err != nil {
		return nil, nil, failed("%s is not a web address", shown(h.url))
	}
	if h.body == "" && h.method != http.MethodPost {
		req.Body, req.ContentLength = nil, 0
	}
	req.Header, req.Close = h.header, true

	conn, err := new(net.Dialer).DialContext(ctx, "unix", w.Door)
	if err != nil {
		return nil, nil, &failure{proto.CodeNoEgress, "there is no way out of this call"}
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	hangUp := func() { stop(); conn.Close() }
	defer func() {
		if err != nil {
			hangUp()
		}
	}()
	in := &io.LimitedReader{R: conn, N: maxHead}
	write := req.WriteProxy
	if h.url.Scheme == "https" && !slices.Contains(w.Plain, h.target()) {
		secure, err := w.tunnel(ctx, conn, h)
		if err != nil {
			return nil, nil, err
		}
		in.R, write = secure, req.Write
		conn = secure
	}
	if err := write(conn); err != nil {
		// The door may have said why before it closed.
		if resp, err2 := w.answer(in, req); err2 == nil && resp.Header.Get(proxyreq.VerdictHeader) != "" {
			return nil, nil, refusal(h, resp)
		}
		return nil, nil, failed("the request could not be sent to %s", h.target())
	}
	if resp, err = w.answer(in, req); err != nil {
		return nil, nil, failed("%s gave no answer that is HTTP", h.target())
	}
	if _, ours := in.R.(*tls.Conn); !ours && resp.Header.Get(proxyreq.VerdictHeader) != "" {
		return nil, nil, refusal(h, resp) // inside of our own TLS it would be the server's word
	}
	in.N = maxRaw
	return resp, hangUp, nil
}

// answer reads the head of the answer, after those that come before it.
func (w Work) answer(in *io.LimitedReader, req *http.Request) (*http.Response, error) {
	r := bufio.NewReader(in)
	for range 10 {
		resp, err := http.ReadResponse(r, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 {
			return resp, nil
		}
	}
	return nil, errors.New("fetch: no end of interim answers")
}

// tunnel asks the door for a connection and makes TLS in it.
func (w Work) tunnel(ctx context.Context, conn net.Conn, h hop) (*tls.Conn, error) {
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", h.target(), h.target())
	// The door sends nothing behind its answer before we do, so that the reader
	// holds nothing back that belongs to TLS.
	in := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHead})
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	switch {
	case err != nil:
		return nil, failed("the way out gave no answer for %s", h.target())
	case resp.StatusCode != http.StatusOK:
		return nil, refusal(h, resp)
	case in.Buffered() > 0:
		return nil, failed("%s spoke before it was asked", h.target())
	}
	pem, err := os.ReadFile(w.CA)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		return nil, failed("this machine has no file of trusted certificates, so that https cannot be used")
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: h.url.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, failed("no TLS connection with %s: %v", h.target(), err)
	}
	return secure, nil
}

// refusal says in a model's words what the door answered.
func refusal(h hop, resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
	words, _ := tooltext.Clean(b)
	words = strings.TrimSpace(words)
	t := h.target()
	switch v := proto.EgressVerdict(resp.Header.Get(proxyreq.VerdictHeader)); v {
	case proto.EgressNotAllowed:
		return &failure{proto.CodeNoGrant, t + " is not in the grant's hosts"}
	case proto.EgressPrivate:
		return &failure{proto.CodeNoGrant, t + " leads to a private address, which the grant does not name as local"}
	case proto.EgressNoAddress:
		return failed("the name %s has no address", h.url.Hostname())
	case proto.EgressCap:
		return &failure{proto.CodeTooLarge, "this call has used up the bytes that it may send and receive"}
	case proto.EgressTime:
		return &failure{proto.CodeToolTimeout, "the time of this call was over"}
	case proto.EgressTooMany:
		return failed("this call has made too many connections")
	case proto.EgressUnreachable, proto.EgressBadRequest:
		if words != "" {
			return failed("%s", words)
		}
	}
	return failed("the way out refused %s", t)
}
