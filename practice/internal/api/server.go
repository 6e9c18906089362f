// Package api is the HTTP face of the practice model: the routes of
// llama-server b11669 that Boxmaker uses, with the same members in the same
// order, the same errors and the same oddities.
//
// It guarantees that cache figures, token counts and timings are true for what
// it was sent and what it did. It does not sample, knows no grammars, response
// formats, stop strings, log probabilities or images, and ignores the members
// that ask for them.
package api

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/gen"
	"boxmaker/practice/internal/slots"
	"boxmaker/practice/internal/template"
	"boxmaker/practice/internal/tokenizer"
)

// Build and Alias are how the practice model calls itself.
const (
	Build = "practice-1"
	Alias = "practice"
)

// maxBody is the largest request, in bytes.
const maxBody = 64 << 20

// Config is what a Server needs.
type Config struct {
	Context    context.Context // ends with the server; requests that wait end with it
	Pool       *slots.Pool
	Brain      func(*chat.Request) gen.Reply
	Faults     *fault.Box
	FaultRoute bool          // serve /practice/fault and obey "!fault …"
	Record     *Recorder     // nil: off
	APIKey     string        // "": none is asked for
	Ping       time.Duration // between pings, 0: none
	Loading    time.Duration // how long after New the model is "loading"
	PromptTPS  float64       // tokens a second, 0: as fast as possible
	GenTPS     float64
	Log        *slog.Logger
}

// A Server answers requests. Make one with [New].
type Server struct {
	Config
	tokens  *tokenizer.Tokenizer
	started time.Time

	mu     sync.Mutex // guards everything below
	active map[string]*control
	seen   map[[32]byte]int // bodies with an in-band fault, how often each was hit
}

// New makes a Server.
func New(c Config) *Server {
	return &Server{
		Config: c, tokens: tokenizer.New(template.Specials()), started: time.Now(),
		active: make(map[string]*control), seen: make(map[[32]byte]int),
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Server", "llama.cpp")
	h.Set("Access-Control-Allow-Origin", "")
	h["Date"] = nil // the real server sends none
	route := r.Method + " " + r.URL.Path
	own, isOwn := s.ownRoute(route)
	switch {
	case isOwn:
		own(w, r)
	case s.loading():
		gate(w, http.StatusServiceUnavailable, "unavailable_error", "Loading model")
	case !s.authorised(r):
		unauthorised(w)
	default:
		s.route(w, r, route)
	}
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, route string) {
	switch route {
	case "GET /health", "GET /v1/health", "HEAD /health":
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	case "GET /props":
		reply(w, http.StatusOK, s.props())
	case "POST /props":
		reply(w, http.StatusOK, success{Success: true})
	case "GET /slots":
		reply(w, http.StatusOK, s.slotList())
	case "GET /models", "GET /v1/models":
		reply(w, http.StatusOK, s.models())
	case "GET /metrics":
		s.metrics(w)
	case "POST /chat/completions", "POST /v1/chat/completions":
		s.withBody(w, r, s.completions)
	case "POST /v1/chat/completions/control":
		s.withBody(w, r, s.control)
	case "POST /chat/completions/input_tokens", "POST /v1/chat/completions/input_tokens":
		s.withBody(w, r, s.inputTokens)
	case "POST /apply-template":
		s.withBody(w, r, s.applyTemplate)
	case "POST /tokenize":
		s.withBody(w, r, s.tokenize)
	case "POST /detokenize":
		s.withBody(w, r, s.detokenize)
	default:
		if id, ok := strings.CutPrefix(route, "POST /slots/"); ok {
			s.slotAction(w, r, id)
			return
		}
		gate(w, http.StatusNotFound, "not_found_error", "File Not Found")
	}
}

func (s *Server) loading() bool {
	return time.Since(s.started) < s.Loading || s.Faults.Loading()
}

func (s *Server) authorised(r *http.Request) bool {
	if s.APIKey == "" || r.URL.Path == "/health" || r.URL.Path == "/v1/health" {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		key = r.Header.Get("X-Api-Key")
	}
	return subtle.ConstantTimeCompare([]byte(key), []byte(s.APIKey)) == 1
}

// withBody reads the whole body first, as the real server does.
func (s *Server) withBody(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request, []byte) error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		gate(w, http.StatusRequestEntityTooLarge, "invalid_request_error", "the request body cannot be read, or is over 64 MiB")
		return
	}
	if err := next(w, r, body); err != nil {
		fail(w, err)
	}
}

// fail answers with an error of a handler.
func fail(w http.ResponseWriter, err error) {
	e, exception := (*chat.Error)(nil), (*template.Exception)(nil)
	switch {
	case errors.As(err, &e):
	case errors.As(err, &exception):
		e = &chat.Error{Status: http.StatusInternalServerError, Type: "server_error", Message: exception.Error()}
	case errors.Is(err, template.ErrArguments):
		e = &chat.Error{Status: http.StatusInternalServerError, Type: "server_error", Message: "Failed to parse tool call arguments as JSON: " + err.Error()}
	default:
		e = &chat.Error{Status: http.StatusInternalServerError, Type: "server_error", Message: err.Error()}
	}
	reply(w, e.Status, wrapped{asHandlerError(e)})
}

func asHandlerError(e *chat.Error) handlerError {
	return handlerError{Code: e.Status, Message: e.Message, Type: e.Type, NPrompt: e.NPrompt, NCtx: e.NCtx}
}

// gate answers before any handler has seen the request.
func gate(w http.ResponseWriter, status int, kind, message string) {
	reply(w, status, wrapped{gateError{Message: message, Type: kind, Code: status}})
}

func unauthorised(w http.ResponseWriter) {
	gate(w, http.StatusUnauthorized, "authentication_error", "Invalid API Key")
}

// reply writes one JSON document. An error closes the connection.
func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"cannot encode","type":"server_error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if status >= 400 {
		h.Set("Connection", "close")
	} else {
		h.Set("Keep-Alive", "timeout=5, max=100")
	}
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
