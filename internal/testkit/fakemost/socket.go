package fakemost

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// How much the server keeps of a connection for its being taken up again.
const (
	deadQueue = 128 // events that were sent
	sendQueue = 256 // events that wait
)

// conn is a connection as the server knows it, for some time after its end too.
// The server's lock guards it.
type conn struct {
	id     string
	user   *User
	next   int64    // number of the next event
	first  int64    // number of the oldest in events
	events [][]byte // the last ones, sent or not
	sent   int64    // number of the first that was not sent
	silent bool
	end    context.CancelFunc // nil: it is not connected
	out    *outbox
}

// outbox hands frames to the goroutine that writes them.
type outbox struct {
	mu    sync.Mutex
	queue [][]byte
	ready chan struct{}
}

func (o *outbox) put(b []byte) {
	o.mu.Lock()
	o.queue = append(o.queue, b)
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

func (o *outbox) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queue
	o.queue = nil
	return q
}

func (c *conn) send(b []byte) {
	if c.end != nil && !c.silent {
		c.out.put(b)
	}
}

// event numbers an event, sends it and keeps it.
func (c *conn) event(name string, data map[string]any, to broadcast, twice, lost bool) {
	b := []byte(`{"event": ` + text(name) + `, "data": ` + text(data) + `, "broadcast": ` + text(to) + `, "seq": ` + strconv.FormatInt(c.next, 10) + `}`)
	c.next++
	c.events = append(c.events, b)
	if c.end != nil {
		c.sent = c.next
	}
	if over := len(c.events) - deadQueue - sendQueue; over > 0 {
		c.events, c.first = c.events[over:], c.first+int64(over)
	}
	if lost {
		return
	}
	c.send(b)
	if twice {
		c.send(b)
	}
}

// takeUp reports whether events from a number on can still be sent.
func (c *conn) takeUp(from int64) bool {
	return from <= c.next && from >= c.first && c.sent-from <= deadQueue && c.next-c.sent <= sendQueue
}

// tell sends an event to all in a channel; mentioned ones learn that they are.
func (s *Server) tell(c *channel, name string, data map[string]any, mentioned []string) {
	lost := s.lose > 0
	if lost {
		s.lose--
	}
	for _, w := range s.conns {
		if !c.members[w.user.ID] || s.tokens[w.user.Token] == nil {
			continue
		}
		mine := data
		if slices.Contains(mentioned, w.user.ID) {
			mine = map[string]any{"mentions": text([]string{w.user.ID})}
			for k, v := range data {
				mine[k] = v
			}
		}
		w.event(name, mine, broadcast{ChannelID: c.ID, Sanitized: name == "post_deleted"}, s.twice, lost)
	}
}

// tellUser sends an event to one user.
func (s *Server) tellUser(id, name string, data map[string]any, channel string) {
	for _, w := range s.conns {
		if w.user.ID == id {
			w.event(name, data, broadcast{ChannelID: channel}, s.twice, false)
		}
	}
}

// websocket is an upgrade. A bad token gets it, and then a bare end.
func (s *Server) websocket(w http.ResponseWriter, r *http.Request, u *User) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	if u == nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	c := s.register(u, r.URL.Query().Get("connection_id"), r.URL.Query().Get("sequence_number"), end)
	if c == nil {
		return // as to a number that is none
	}
	out := c.out
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		defer end()
		for {
			select {
			case <-ctx.Done():
				_ = ws.CloseNow()
				return
			case <-out.ready:
			}
			for _, b := range out.take() {
				if b == nil {
					_ = ws.Close(websocket.StatusMessageTooBig, "")
					return
				}
				if ws.Write(ctx, websocket.MessageText, b) != nil {
					return
				}
			}
		}
	})
	ws.SetReadLimit(8 << 10)
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			break
		}
		s.action(c, out, b)
	}
	end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.out == out { // nobody took it up meanwhile
		c.end = nil
		delete(s.live, c)
	}
}

// register makes a connection, or takes up an older one.
func (s *Server) register(u *User, id, from string, end context.CancelFunc) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &conn{id: NewID(), user: u}
	greet := true
	if id != "" {
		n, err := strconv.ParseInt(from, 10, 64)
		if err != nil || len(id) != 26 {
			return nil
		}
		old := s.conns[id]
		if old != nil && old.user == u && old.end == nil && !s.older && old.takeUp(n) {
			c, greet = old, false
			c.out = &outbox{ready: make(chan struct{}, 1)}
			for _, b := range c.events[n-c.first:] {
				c.out.put(b)
			}
			c.sent = c.next
		}
	}
	if greet {
		c.out = &outbox{ready: make(chan struct{}, 1)}
	}
	c.end, c.silent = end, false
	s.conns[c.id], s.live[c] = c, true
	if greet {
		hello := map[string]any{"connection_id": c.id, "server_hostname": "vm", "server_version": s.version + "..912a8ce6b428383cb07019bd47d00931476a452786c23aebd02b00519c6e10c9.false"}
		if s.older {
			delete(hello, "connection_id")
		}
		c.event("hello", hello, broadcast{UserID: u.ID}, false, false)
	}
	c.event("status_change", map[string]any{"status": "online", "user_id": u.ID}, broadcast{UserID: u.ID}, false, false)
	return c
}

// action is what a client sends over the WebSocket.
func (s *Server) action(c *conn, out *outbox, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.silent || c.out != out {
		return
	}
	var in struct {
		Action string `json:"action"`
		Seq    int64  `json:"seq"`
	}
	reply := map[string]any{"status": "FAIL"}
	fail := func(status int, id, message string) {
		reply["error"] = refuse(status, id, message)
	}
	switch err := json.Unmarshal(b, &in); {
	case err != nil || in.Seq <= 0:
		fail(400, "api.web_socket_router.bad_seq.app_error", "Invalid sequence for WebSocket message.")
	case s.tokens[c.user.Token] == nil || c.user.disabled:
		fail(401, "api.web_socket_router.not_authenticated.app_error", "WebSocket connection is not authenticated. Please log in and try again.")
	case in.Action == "ping":
		reply = map[string]any{"status": "OK", "data": map[string]any{"node_id": "", "server_time": s.now(), "text": "pong", "version": s.version}}
	case in.Action == "user_typing":
		reply["status"] = "OK"
	default:
		fail(500, "api.web_socket_router.bad_action.app_error", "Unknown WebSocket action.")
	}
	if in.Seq > 0 {
		reply["seq_reply"] = in.Seq
	}
	c.send([]byte(text(reply)))
}

// cut ends connections without a word.
func (s *Server) cut(which func(*conn) bool) {
	s.mu.Lock()
	var ends []context.CancelFunc
	for c := range s.live {
		if c.end != nil && which(c) {
			ends = append(ends, c.end)
			c.end = nil
		}
	}
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Connected reports how many connections a user has now.
func (s *Server) Connected(u *User) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		if c.user == u && c.end != nil && !c.silent {
			n++
		}
	}
	return n
}

// WaitConnected waits until a user has a connection.
func (s *Server) WaitConnected(u *User) {
	s.t.Helper()
	for range 3000 {
		if s.Connected(u) > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("%s did not connect", u.Name)
}
