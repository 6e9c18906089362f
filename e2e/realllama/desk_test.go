package realllama

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// A desk is a reverse proxy between inferproxy and llama-server. It passes
// everything on, and of each chat request it keeps the bytes as they came. A
// script may have it put a logit_bias in front of the body that it passes on; the
// rest of the body is what came. While the server is down, so is the desk.
type desk struct {
	t      *testing.T
	server *server
	socket string
	http   *http.Server // nil while down
	serves sync.WaitGroup

	mu      sync.Mutex // guards what follows
	script  map[int][]order
	records []*exchange
}

// An order is what the desk does to one request of a slot.
type order struct {
	bias string // put in front of the body; may be empty
	cut  int    // close the stream after so many of its bytes; 0 lets it run
}

// An exchange is one chat request and what came back. The desk's exchanges
// method gives copies.
type exchange struct {
	Body   []byte // as it came
	Slot   int
	Order  order
	Stream stream
}

// newDesk starts a desk in front of s.
func newDesk(t *testing.T, s *server) *desk {
	t.Helper()
	d := &desk{t: t, server: s, socket: filepath.Join(shortDir(t), "desk.sock"), script: map[int][]order{}}
	d.open()
	t.Cleanup(d.close)
	return d
}

func (d *desk) open() {
	d.t.Helper()
	ln, err := net.Listen("unix", d.socket)
	if err != nil {
		d.t.Fatal(err)
	}
	srv := &http.Server{Handler: d, ReadHeaderTimeout: time.Minute}
	d.http = srv
	d.serves.Go(func() { _ = srv.Serve(ln) })
}

func (d *desk) close() {
	if d.http != nil {
		_ = d.http.Close()
		d.http = nil
	}
	d.serves.Wait()
}

// crash kills the server with SIGKILL, and with it every stream.
func (d *desk) crash() {
	d.server.kill()
	d.close()
}

// revive starts the server again.
func (d *desk) revive() {
	d.t.Helper()
	d.server.start()
	d.open()
}

// say scripts the next replies of a slot: names of replies, one a request.
func (d *desk) say(slot int, names ...string) {
	d.t.Helper()
	for _, n := range names {
		id, ok := d.server.model.tokens["reply "+n]
		if !ok {
			d.t.Fatalf("no reply %q", n)
		}
		d.bias(slot, fmt.Sprintf("[[%d,100]]", id))
	}
}

// drone scripts one reply of a slot that thinks until max_tokens, or its thinking
// cap, and answers without an end.
func (d *desk) drone(slot int) {
	d.ban(slot, "think-stop", "think-end", "turn-end", "call", "late-call")
}

// think scripts one reply of a slot that thinks until its thinking cap, and then
// answers.
func (d *desk) think(slot int) {
	d.ban(slot, "think-stop", "think-end", "call", "late-call")
}

// ban scripts one reply of a slot without some tokens.
func (d *desk) ban(slot int, names ...string) {
	d.t.Helper()
	var out []string
	for _, n := range names {
		id, ok := d.server.model.tokens[n]
		if !ok {
			d.t.Fatalf("no token %q", n)
		}
		out = append(out, fmt.Sprintf("[%d,-100]", id))
	}
	d.bias(slot, "["+strings.Join(out, ",")+"]")
}

func (d *desk) bias(slot int, bias string) { d.order(slot, order{bias: bias}) }

func (d *desk) order(slot int, o order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script[slot] = append(d.script[slot], o)
}

// cutLast makes the last order of a slot one whose stream is cut after n bytes.
func (d *desk) cutLast(slot, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.script[slot]
	q[len(q)-1].cut = n
}

// exchanges gives the chat requests of a slot since the last forget.
func (d *desk) exchanges(slot int) []exchange {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []exchange
	for _, x := range d.records {
		if x.Slot == slot {
			out = append(out, *x)
		}
	}
	return out
}

// forget drops what was recorded; the self-test's requests, for instance.
func (d *desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = nil
}

// ServeHTTP passes one request on.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var x *exchange
	if r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions" {
		x = d.record(body)
		body = x.biased()
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://llama"+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header = r.Header.Clone()
	resp, err := d.server.client.Do(req)
	if err != nil {
		if r.Context().Err() == nil {
			panic(http.ErrAbortHandler) // the client sees the connection close, as it would without a desk
		}
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	if x != nil {
		d.mu.Lock()
		x.Stream.Status = resp.StatusCode
		d.mu.Unlock()
	}
	if err := d.pass(r.Context(), w, resp.Body, x); err != nil {
		panic(http.ErrAbortHandler)
	}
}

var errCut = errors.New("the script cuts this stream")

// pass copies a response as it comes.
func (d *desk) pass(ctx context.Context, w http.ResponseWriter, from io.Reader, x *exchange) error {
	flush := http.NewResponseController(w)
	if err := flush.Flush(); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for sum := 0; ; {
		n, err := from.Read(buf)
		if sum += n; x != nil && x.Order.cut > 0 && sum >= x.Order.cut {
			return errCut
		}
		if n > 0 {
			if x != nil {
				d.mu.Lock()
				_, _ = x.Stream.Write(buf[:n])
				d.mu.Unlock()
			}
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if ferr := flush.Flush(); ferr != nil {
				return ferr
			}
		}
		if err == io.EOF {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (d *desk) record(body []byte) *exchange {
	var head struct {
		Slot int `json:"id_slot"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		d.t.Errorf("a chat request is not JSON: %v", err)
	}
	x := &exchange{Body: bytes.Clone(body), Slot: head.Slot}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.script[head.Slot]; len(q) > 0 {
		x.Order, d.script[head.Slot] = q[0], q[1:]
	}
	d.records = append(d.records, x)
	return x
}

// biased is the body with the bias in front.
func (x *exchange) biased() []byte {
	if x.Order.bias == "" {
		return x.Body
	}
	return append([]byte(`{"logit_bias":`+x.Order.bias+`,`), x.Body[1:]...)
}
