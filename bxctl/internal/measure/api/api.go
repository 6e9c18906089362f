// Package api is a small client of llama-server for the owner's tools.
//
// It guarantees one connection per request (a server may close a kept one just
// when it is used again), bounded memory, and that an answer counts as whole
// only with its end mark. It retries nothing and knows no deadlines: those are
// the caller's contexts. Fields are those that llama-server b11669 was seen to
// send; what it does not send stays zero.
package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

const (
	maxBody  = 16 << 20 // bytes of one answer that is no stream
	maxEvent = 4 << 20  // bytes of one line of a stream
	maxPath  = 107      // bytes of a socket address
)

// Address tells where the inference server of an installation listens. For the
// practice model, and for a llama-server that bxctl up starts, that is a socket
// which is there only while up runs.
func Address(l config.Layout, s setup.Settings, p setup.Proxy) (setup.Address, error) {
	switch s.Model.Kind {
	case setup.Practice:
		return setup.Address{Path: l.Socket("practice", "inferproxy", "llama")}, nil
	case setup.Llama:
		return setup.Address{Path: l.Socket("llama", "inferproxy", "llama")}, nil
	case setup.Upstream:
		return setup.ParseUpstream(p.Upstream)
	default:
		return setup.Address{}, fmt.Errorf("api: no such kind of model: %q", s.Model.Kind)
	}
}

// A Server is one llama-server.
type Server struct {
	at   setup.Address
	http *http.Client
}

// New makes a client. Nothing is sent yet.
func New(at setup.Address) *Server {
	s := &Server{at: at}
	s.http = &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, at) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// At is where the server is.
func (s *Server) At() setup.Address { return s.at }

func dial(ctx context.Context, at setup.Address) (net.Conn, error) {
	var d net.Dialer
	if at.Path == "" {
		return d.DialContext(ctx, "tcp", strings.TrimPrefix(at.String(), "tcp:"))
	}
	path := at.Path
	if len(path) > maxPath { // the folder by its descriptor makes it short
		dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	return d.DialContext(ctx, "unix", path)
}

// An Error is an answer of the server that is none of success. Its Message is
// text of the server: clean it for a terminal.
type Error struct {
	Status  int // 0: inside a stream
	Type    string
	Message string
	Window  int64 // n_ctx, of exceed_context_size_error
}

func (e *Error) Error() string {
	text := e.Message
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	if e.Status == 0 {
		return "the server ended the stream with an error: " + text
	}
	return fmt.Sprintf("the server answered %d: %s", e.Status, text)
}

// errorOf reads an error body: {"error":{"code":…,"message":…,"type":…}}.
func errorOf(status int, body []byte) *Error {
	var doc struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Window  int64  `json:"n_ctx"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &doc) != nil || doc.Error.Message == "" {
		return &Error{Status: status, Message: strings.TrimSpace(string(body[:min(len(body), 200)]))}
	}
	return &Error{Status: status, Type: doc.Error.Type, Message: doc.Error.Message, Window: doc.Error.Window}
}

// open sends a request and gives the body of an answer of 200.
func (s *Server) open(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	var in io.Reader
	if body != nil {
		in = strings.NewReader(string(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://llama"+path, in)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	return nil, errorOf(res.StatusCode, text)
}

// plain takes net/http's wrapping with its made-up URL off an error.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// call sends a request and decodes its answer.
func (s *Server) call(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := s.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxBody:
		return errors.New("the server's answer is larger than 16 MiB")
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the server's answer to %s is not what llama-server gives: %w", path, err)
	}
	return nil
}

// Health is nil once the server is ready.
func (s *Server) Health(ctx context.Context) error {
	var h struct {
		Status string `json:"status"`
	}
	return s.call(ctx, http.MethodGet, "/health", nil, &h)
}

// Props is what the server tells of itself.
type Props struct {
	Build    string `json:"build_info"`
	Slots    int    `json:"total_slots"`
	Template string `json:"chat_template"`
	Model    string `json:"model_path"`
	Alias    string `json:"model_alias"`
	Ftype    string `json:"model_ftype"`
	Settings struct {
		Window int64 `json:"n_ctx"` // of one slot
	} `json:"default_generation_settings"`
	Sleeping bool                      `json:"is_sleeping"`
	Caps     map[string]jsontext.Value `json:"chat_template_caps"`
	Role     string                    `json:"role"` // "router" for a router
}

// Hash is the SHA-256 of the chat template, hex, or empty without one.
func (p Props) Hash() string {
	if p.Template == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.Template))
	return hex.EncodeToString(sum[:])
}

// Props asks for the properties of a model; "" for the only one. A router is
// told not to load it.
func (s *Server) Props(ctx context.Context, model string) (p Props, err error) {
	return p, s.call(ctx, http.MethodGet, "/props"+ask(model), nil, &p)
}

func ask(model string) string {
	if model == "" {
		return ""
	}
	return "?autoload=false&model=" + url.QueryEscape(model)
}

// Slot is the state of one slot.
type Slot struct {
	ID     int   `json:"id"`
	Window int64 `json:"n_ctx"`
	Busy   bool  `json:"is_processing"`
	Drafts bool  `json:"speculative"`
	Tokens int64 `json:"n_prompt_tokens"` // of the newest request; older builds do not tell
}

// Slots asks for the state of all slots.
func (s *Server) Slots(ctx context.Context, model string) (all []Slot, err error) {
	return all, s.call(ctx, http.MethodGet, "/slots"+ask(model), nil, &all)
}

// Model is one row of /v1/models.
type Model struct {
	ID      string   `json:"id"`
	Aliases []string `json:"aliases"`
	Meta    struct {
		Vocab  int64 `json:"n_vocab"`
		Train  int64 `json:"n_ctx_train"`
		Params int64 `json:"n_params"`
		Size   int64 `json:"size"`
	} `json:"meta"`
	Status struct {
		Value string   `json:"value"`
		Args  []string `json:"args"` // of a router: the command line
	} `json:"status"`
}

// Models lists the models.
func (s *Server) Models(ctx context.Context) ([]Model, error) {
	var list struct {
		Data []Model `json:"data"`
	}
	err := s.call(ctx, http.MethodGet, "/v1/models", nil, &list)
	return list.Data, err
}

// InputTokens counts the tokens of a request, generation prompt included. It
// touches no slot.
func (s *Server) InputTokens(ctx context.Context, body []byte) (int64, error) {
	var n struct {
		Tokens int64 `json:"input_tokens"`
	}
	err := s.call(ctx, http.MethodPost, "/v1/chat/completions/input_tokens", body, &n)
	return n.Tokens, err
}

// Render gives the prompt text of a request. It touches no slot.
func (s *Server) Render(ctx context.Context, body []byte) (string, error) {
	var p struct {
		Prompt string `json:"prompt"`
	}
	err := s.call(ctx, http.MethodPost, "/apply-template", body, &p)
	return p.Prompt, err
}

// Tokenize counts the tokens of a text.
func (s *Server) Tokenize(ctx context.Context, text string) (int, error) {
	body, err := json.Marshal(map[string]string{"content": text})
	if err != nil {
		return 0, err
	}
	var t struct {
		Tokens []jsontext.Value `json:"tokens"`
	}
	err = s.call(ctx, http.MethodPost, "/tokenize", body, &t)
	return len(t.Tokens), err
}
