package api

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"boxmaker/practice/internal/fault"
)

// ownRoute finds the routes that no llama-server has. They need no key and work
// while the model is "loading".
func (s *Server) ownRoute(route string) (http.HandlerFunc, bool) {
	switch {
	case route == "POST /practice/fault" && s.FaultRoute:
		return s.putFault, true
	case route == "GET /practice/fault" && s.FaultRoute:
		return func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.Faults.Left()) }, true
	case route == "GET /practice/log" && s.Record != nil:
		return s.Record.serve, true
	default:
		return nil, false
	}
}

func (s *Server) putFault(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err == nil {
		var f fault.Fault
		if f, err = fault.Decode(body); err == nil {
			s.Faults.Put(f)
			reply(w, http.StatusOK, success{Success: true})
			return
		}
	}
	gate(w, http.StatusBadRequest, "invalid_request_error", err.Error())
}

// A Recorder writes every chat request body to a file, one JSON object a line:
// {"n":1,"slot":0,"body":"…"}, in the order of arrival. slot is the one that was
// asked for (-1: none). A body that is no UTF-8 stands base64-coded in "raw".
// It is for tests: nothing is synced.
type Recorder struct {
	mu sync.Mutex
	f  *os.File
	n  int
}

type record struct {
	N    int    `json:"n"`
	Slot int    `json:"slot"`
	Body string `json:"body,omitzero"`
	Raw  []byte `json:"raw,omitzero"`
}

// NewRecorder opens the file for appending.
func NewRecorder(path string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("practice: cannot record requests: %w", err)
	}
	return &Recorder{f: f}, nil
}

// Add writes one body. It is a no-op on nil. A write error ends the recording
// silently for the client: the test that reads the file sees the gap.
func (r *Recorder) Add(slot int, body []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	rec := record{N: r.n, Slot: slot}
	if utf8.Valid(body) {
		rec.Body = string(body)
	} else {
		rec.Raw = body
	}
	if line, err := json.Marshal(rec); err == nil {
		_, _ = r.f.Write(append(line, '\n'))
	}
}

// Close closes the file. It is a no-op on nil.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.f.Close()
}

func (r *Recorder) serve(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	info, err := r.f.Stat()
	r.mu.Unlock()
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	_, _ = io.Copy(w, io.NewSectionReader(r.f, 0, info.Size()))
}
