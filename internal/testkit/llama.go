package testkit

import (
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// Llama is a scripted llama-server: the routes, fields and errors of build
// b11669, with answers that the test chooses. Left alone it answers "ok", calls
// the first declared tool when a call is required, and reports cache figures
// that follow from the bytes it was sent, so that a broken prefix shows.
//
// A token is four bytes of the request, rounded up.
type Llama struct {
	Socket string // path of the Unix socket; empty for an in-memory server

	t      testing.TB
	server *http.Server
	ln     net.Listener
	pipes  *pipeListener // only of an in-memory server

	mu      sync.Mutex // guards everything below
	script  func(n int, body []byte, s *Stream)
	routes  map[string]http.HandlerFunc
	props   map[string]any
	model   string
	nctx    int
	slots   int
	render  func(body []byte) (string, error)
	loading int
	bodies  [][]byte
	paths   []string
	cache   map[int]*slotCache
	live    map[string]bool // completion ids that stream now
}

// NewLlama starts a server on a Unix socket of its own. It ends with the test.
func NewLlama(t testing.TB) *Llama {
	t.Helper()
	dir, err := os.MkdirTemp("", "bm") // t.TempDir makes paths that are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := newLlama(t)
	l.Socket = filepath.Join(dir, "llama.sock")
	ln, err := net.Listen("unix", l.Socket)
	if err != nil {
		t.Fatal(err)
	}
	l.serve(ln)
	return l
}

// NewMemoryLlama starts a server that is reached by [Llama.Dial] alone, over
// in-memory pipes, so that it works inside a testing/synctest bubble. Call it
// inside the bubble, with the bubble's t.
func NewMemoryLlama(t testing.TB) *Llama {
	t.Helper()
	l := newLlama(t)
	l.pipes = &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.serve(l.pipes)
	return l
}

func newLlama(t testing.TB) *Llama {
	return &Llama{
		t: t, model: "test-model", nctx: 32768, slots: 3, render: RenderChatML,
		cache: make(map[int]*slotCache), live: make(map[string]bool),
		routes: make(map[string]http.HandlerFunc), props: make(map[string]any),
	}
}

func (l *Llama) serve(ln net.Listener) {
	l.ln = ln
	l.server = &http.Server{Handler: http.HandlerFunc(l.route), ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			l.t.Errorf("testkit: llama: %v", err)
		}
	}()
	l.t.Cleanup(func() {
		l.Close()
		<-done
	})
}

// Close stops the server and cuts every stream. Connecting fails from then on.
func (l *Llama) Close() {
	_ = l.server.Close()
	_ = l.ln.Close() // the server does not know it yet if it was only just started
}

// Dial opens a connection to the server, over whatever it listens on.
func (l *Llama) Dial(ctx context.Context) (net.Conn, error) {
	if l.pipes == nil {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Socket)
	}
	ours, theirs := net.Pipe()
	select {
	case l.pipes.conns <- theirs:
		return ours, nil
	case <-l.pipes.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// On sets the script: f answers every chat request. n counts them from 0. The
// stream ends when f returns; without [Stream.Done] it ends without its mark.
// f runs in a goroutine of the server: it must not call t.Fatal.
func (l *Llama) On(f func(n int, body []byte, s *Stream)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = f
}

// Handle replaces a route, by exact path.
func (l *Llama) Handle(path string, h http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes[path] = h
}

// Bodies returns the bodies of the chat requests in order of arrival.
func (l *Llama) Bodies() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.bodies)
}

// Paths returns method and path with query of every request in order of
// arrival, refused ones included.
func (l *Llama) Paths() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.paths)
}

// SetProps adds top-level members to the answer of /props, or replaces them. A
// nil value takes the member away.
func (l *Llama) SetProps(members map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.props, members)
}

// SetModel sets the name under which the model is served.
func (l *Llama) SetModel(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.model = name
}

// SetContext sets the context size of each slot in tokens.
func (l *Llama) SetContext(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nctx = n
}

// SetSlots sets the number of slots.
func (l *Llama) SetSlots(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = n
}

// SetRender replaces the chat template behind /apply-template and the token
// counts: body is the request, an error becomes a 500.
func (l *Llama) SetRender(f func(body []byte) (string, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.render = f
}

// Loading makes the next n requests, on whatever route, fail with 503 "Loading
// model"; a negative n means all of them.
func (l *Llama) Loading(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loading = n
}

// Evict empties the cache of a slot, as another program's request would.
func (l *Llama) Evict(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.cache, slot)
}

func (l *Llama) route(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Server", "llama.cpp")
	l.mu.Lock()
	l.paths = append(l.paths, r.Method+" "+r.URL.RequestURI())
	h := l.routes[r.URL.Path]
	loading := l.loading != 0
	if l.loading > 0 {
		l.loading--
	}
	l.mu.Unlock()
	switch {
	case loading:
		fail(w, http.StatusServiceUnavailable, "unavailable_error", "Loading model")
	case h != nil:
		h(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions":
		l.chat(w, r, body)
	default:
		l.query(w, r, body)
	}
}

func (l *Llama) chat(w http.ResponseWriter, r *http.Request, body []byte) {
	s, err := l.newStream(w, r, body)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	l.mu.Lock()
	n := len(l.bodies)
	l.bodies = append(l.bodies, body)
	f := l.script
	l.live[s.ID] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.live, s.ID)
	}()
	if f == nil {
		f = func(_ int, _ []byte, s *Stream) { s.Default() }
	}
	f(n, body, s)
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "message": message, "type": kind}})
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(err.Error())
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// pipeListener hands out the server ends of in-memory pipes.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
