package mattermost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// frameLimit holds the largest post: 16,383 runes, and props of 300 kB of which
// each byte can take seven as text within text.
const frameLimit = 4 << 20

// A socket is one WebSocket connection.
type socket struct {
	conn          *websocket.Conn
	every, within time.Duration
	clean         func(error) error
}

// dial opens a connection, or takes up an older one from the event with number
// next on. The server does the latter only for a token in the header.
func (c *Client) dial(ctx context.Context, id string, next int64) (*socket, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	u := c.base + "/api/v4/websocket"
	if id != "" {
		u += "?" + url.Values{"connection_id": {id}, "sequence_number": {strconv.FormatInt(next, 10)}}.Encode()
	}
	h := http.Header{}
	c.headers(h)
	conn, res, err := websocket.Dial(ctx, u, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: h})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("WebSocket: %w", c.cleanErr(c.failure(res)))
		}
		return nil, c.cleanErr(err)
	}
	conn.SetReadLimit(frameLimit)
	return &socket{conn: conn, every: c.cfg.PingEvery, within: c.cfg.PongIn, clean: c.cleanErr}, nil
}

// run reads until the connection ends or frame fails. It leaves nothing running.
func (s *socket) run(ctx context.Context, frame func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		s.ping(ctx)
	}()
	defer func() {
		cancel()
		_ = s.conn.CloseNow() // it ended before, or ends now
		<-pinged
	}()
	for {
		b, err := s.read(ctx)
		if err != nil {
			return err
		}
		if err := frame(b); err != nil {
			return err
		}
	}
}

// read waits for a frame, but not longer than an answer to our ping could take.
func (s *socket) read(ctx context.Context) ([]byte, error) {
	short, cancel := context.WithTimeout(ctx, s.every+s.within)
	defer cancel()
	_, b, err := s.conn.Read(short)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, fmt.Errorf("an event: %w", ErrTooBig)
	case short.Err() != nil && ctx.Err() == nil:
		return nil, errSilent
	}
	return nil, s.clean(err)
}

// ping asks for an answer at once, which also tells whether an older connection
// was taken up, and then again and again. It is an action of the server's own, not
// the WebSocket's ping: that one is answered even when the token counts no more.
func (s *socket) ping(ctx context.Context) {
	t := time.NewTicker(s.every)
	defer t.Stop()
	for n := 1; ; n++ {
		msg := `{"action":"ping","seq":` + strconv.Itoa(n) + `}`
		short, cancel := context.WithTimeout(ctx, s.within)
		err := s.conn.Write(short, websocket.MessageText, []byte(msg))
		cancel()
		if err != nil {
			return // the reader sees the same end
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
