package fakemost

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// Kind is a way for a request to go wrong.
type Kind int

// The ways. "After" means that what was asked for is done all the same.
const (
	Busy       Kind = iota + 1 // 429, plain text, Retry-After: 1
	FailBefore                 // 500
	FailAfter
	CutBefore // the connection ends without an answer
	CutAfter
	HangBefore // no answer for as long as the client waits
	HangAfter
	BadGateway // 502 and a page of a proxy
	Redirect   // 302 to Fault.To
	Garbage    // 200 and what is no JSON
	Huge       // 200 and an answer without an end
	Half       // 200 and the first half of the answer
	Echo       // 400, and the request's Authorization header among the words of the error
	Refuse     // 401, as to a bad token
)

// A Fault says which requests go wrong and how.
type Fault struct {
	Kind   Kind
	Method string        // "" for any
	Path   string        // how it begins, below /api/v4, "/websocket" among them; "" for any
	Times  int           // how often; 0 for always
	After  int           // how many pass before
	To     string        // for Redirect
	Pause  time.Duration // for Busy: Retry-After, in whole seconds
}

type fault struct {
	Fault
	left int
}

// Inject makes requests go wrong until the fault is used up or mend is called.
func (s *Server) Inject(f Fault) (mend func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &fault{Fault: f, left: f.Times}
	if f.Times == 0 {
		one.left = -1
	}
	s.faults = append(s.faults, one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.left = 0
	}
}

// matching gives the fault that a request meets.
func (s *Server) matching(method, at string) *fault {
	for _, f := range s.faults {
		if f.left == 0 || f.Method != "" && f.Method != method || !strings.HasPrefix(at, f.Path) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.left > 0 {
			f.left--
		}
		return f
	}
	return nil
}

// misbehave answers a request as a fault says.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, f *fault, next func(http.ResponseWriter)) {
	broken := refuse(500, "app.post.save.app_error", "Unable to save the Post.")
	switch f.Kind {
	case FailAfter, CutAfter, HangAfter:
		next(httptest.NewRecorder())
	}
	switch f.Kind {
	case Busy:
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(f.Pause/time.Second))))
		http.Error(w, "limit exceeded", http.StatusTooManyRequests)
	case FailBefore, FailAfter:
		s.fail(w, broken)
	case CutBefore, CutAfter:
		panic(http.ErrAbortHandler)
	case HangBefore, HangAfter:
		select {
		case <-r.Context().Done():
		case <-s.gone:
		}
	case BadGateway:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>\r\n<h1>502 Bad Gateway</h1>\x1b[31m\r\n</html>"))
	case Redirect:
		http.Redirect(w, r, f.To, http.StatusFound)
	case Garbage:
		_, _ = w.Write([]byte("<html>Welcome to the hotel's network!</html>"))
	case Huge:
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write([]byte(`{"id":"`))
		for junk := []byte(strings.Repeat("a", 1<<16)); err == nil; {
			_, err = w.Write(junk)
		}
	case Half:
		rec := httptest.NewRecorder()
		next(rec)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	case Echo:
		s.fail(w, refuse(400, "api.odd", "what is "+r.Header.Get("Authorization")+"?"))
	case Refuse:
		s.fail(w, errSession())
	default:
		panic("no such fault")
	}
}

// CutAll ends every WebSocket connection without a word.
func (s *Server) CutAll() { s.cut(func(*conn) bool { return true }) }

// Forget is a restart: connections end, none can be taken up again, and what was
// kept of pending_post_ids is gone.
func (s *Server) Forget() {
	s.CutAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns, s.pending = map[string]*conn{}, map[string]pending{}
}

// Silence makes the connections that stand now half-open: the server takes them
// for good, and what it sends is lost.
func (s *Server) Silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		c.silent = true
	}
}

// Lose drops the next n events, numbers and all.
func (s *Server) Lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = n
}

// Twice sends each event two times.
func (s *Server) Twice(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twice = on
}

// CloseTooBig ends every connection with the code for a frame that is too big.
func (s *Server) CloseTooBig() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		c.send(nil)
	}
}

// Raw sends a frame as it is to every connection.
func (s *Server) Raw(frame string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		c.send([]byte(frame))
	}
}

// Age makes the server an older one: it greets without an id of the connection,
// and does not tell how long a post may be.
func (s *Server) Age(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.older = version, true
}

// Renew makes the server a newer one, with members that nobody knows.
func (s *Server) Renew(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.newer = version, true
}

// SetPostSize changes how many runes a message may have.
func (s *Server) SetPostSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postSize = n
}

// Skew moves the server's clock, forwards only.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

func itoa(n int) string { return strconv.Itoa(n) }
