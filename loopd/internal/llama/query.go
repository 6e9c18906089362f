package llama

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxAnswer caps the answer to a query, in bytes.
const maxAnswer = 16 << 20

// Props is what the server says of itself and of the model it serves.
type Props struct {
	Build       string // "b11669-Debian"
	Model       string // alias
	Slots       int
	Context     int64  // n_ctx of a slot, tokens
	Template    string // the chat template's text
	Speculative string // kinds of speculative decoding; "none"
	Sleeping    bool
	Router      bool // a router answered for itself, not a model
}

// TemplateHash is the SHA-256 of the chat template's bytes, in hex.
func (p Props) TemplateHash() string {
	sum := sha256.Sum256([]byte(p.Template))
	return hex.EncodeToString(sum[:])
}

// Slot is the state of one slot.
type Slot struct {
	ID          int
	Context     int64
	Busy        bool
	Speculative bool
	Sampling    *Sampling // of the request that it works on; nil if there is none
}

// Sampling is how the server samples for a request, in its own float32 precision.
type Sampling struct {
	Temperature, TopP float64
	TopK              int64
}

// Model is one model that the server serves or, a router, could serve.
type Model struct {
	ID      string
	Aliases []string
	Status  string   // of a router: loaded, loading, unloaded, sleeping, …
	Args    []string // of a router: the command line of the model's process
}

// Ready waits until the server answers: it polls as Chat does while the server
// cannot be reached or loads a model. A router is ready before its models are.
func (c *Client) Ready(ctx context.Context, on func(Event)) error {
	if on == nil {
		on = func(Event) {}
	}
	var doc struct {
		Status string `json:"status"`
	}
	return c.query(ctx, http.MethodGet, "/health", nil, on, &doc)
}

// Props asks for the properties of the configured model. A router that has not
// loaded it is not made to: see [NotLoaded].
func (c *Client) Props(ctx context.Context) (Props, error) {
	var doc struct {
		Role     string `json:"role"`
		Build    string `json:"build_info"`
		Alias    string `json:"model_alias"`
		Slots    int    `json:"total_slots"`
		Template string `json:"chat_template"`
		Sleeping bool   `json:"is_sleeping"`
		Settings struct {
			Context int64 `json:"n_ctx"`
			Params  *struct {
				Speculative string `json:"speculative.types"`
			} `json:"params"`
		} `json:"default_generation_settings"`
	}
	if err := c.query(ctx, http.MethodGet, "/props"+c.selector(), nil, nil, &doc); err != nil {
		return Props{}, err
	}
	p := Props{
		Build: clean(doc.Build), Model: clean(doc.Alias), Slots: doc.Slots, Context: doc.Settings.Context,
		Template: doc.Template, Sleeping: doc.Sleeping, Router: doc.Role == "router",
	}
	if doc.Settings.Params != nil {
		p.Speculative = clean(doc.Settings.Params.Speculative)
	}
	return p, nil
}

// Slots asks for the state of the slots. It wakes a sleeping server.
func (c *Client) Slots(ctx context.Context) ([]Slot, error) {
	var doc []struct {
		ID          int   `json:"id"`
		Context     int64 `json:"n_ctx"`
		Busy        bool  `json:"is_processing"`
		Speculative bool  `json:"speculative"`
		Params      *struct {
			Temperature float64 `json:"temperature"`
			TopP        float64 `json:"top_p"`
			TopK        int64   `json:"top_k"`
		} `json:"params"`
	}
	if err := c.query(ctx, http.MethodGet, "/slots"+c.selector(), nil, nil, &doc); err != nil {
		return nil, err
	}
	var out []Slot
	for _, s := range doc {
		slot := Slot{ID: s.ID, Context: s.Context, Busy: s.Busy, Speculative: s.Speculative}
		if s.Busy && s.Params != nil {
			slot.Sampling = &Sampling{Temperature: s.Params.Temperature, TopP: s.Params.TopP, TopK: s.Params.TopK}
		}
		out = append(out, slot)
	}
	return out, nil
}

// Models asks for the models.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var doc struct {
		Data []struct {
			ID      string   `json:"id"`
			Aliases []string `json:"aliases"`
			Status  *struct {
				Value string   `json:"value"`
				Args  []string `json:"args"`
			} `json:"status"`
		} `json:"data"`
	}
	if err := c.query(ctx, http.MethodGet, "/v1/models", nil, nil, &doc); err != nil {
		return nil, err
	}
	var out []Model
	for _, m := range doc.Data {
		model := Model{ID: m.ID, Aliases: m.Aliases}
		if m.Status != nil {
			model.Status, model.Args = m.Status.Value, m.Status.Args
		}
		out = append(out, model)
	}
	return out, nil
}

// Tokenize turns text into tokens; control tokens in it are parsed as such.
func (c *Client) Tokenize(ctx context.Context, text string) ([]int, error) {
	body, err := json.Marshal(struct {
		Model   string `json:"model,omitzero"`
		Content string `json:"content"`
	}{c.model, text})
	if err != nil {
		return nil, fail(proto.WhyBadData, "the text is not UTF-8")
	}
	var doc struct {
		Tokens []int `json:"tokens"`
	}
	err = c.query(ctx, http.MethodPost, "/tokenize", body, nil, &doc)
	return doc.Tokens, err
}

// ApplyTemplate renders the messages of a request as the model would read them,
// the generation prompt at the end included.
func (c *Client) ApplyTemplate(ctx context.Context, body []byte) (string, error) {
	var doc struct {
		Prompt *string `json:"prompt"`
	}
	if err := c.query(ctx, http.MethodPost, "/apply-template", body, nil, &doc); err != nil {
		return "", err
	}
	if doc.Prompt == nil {
		return "", fail(proto.WhyBadData, "/apply-template gave no prompt")
	}
	return *doc.Prompt, nil
}

// InputTokens counts the tokens of a request, tools and template included.
func (c *Client) InputTokens(ctx context.Context, body []byte) (int64, error) {
	var doc struct {
		Tokens *int64 `json:"input_tokens"`
	}
	if err := c.query(ctx, http.MethodPost, "/v1/chat/completions/input_tokens", body, nil, &doc); err != nil {
		return 0, err
	}
	if doc.Tokens == nil {
		return 0, fail(proto.WhyBadData, "/v1/chat/completions/input_tokens gave no count")
	}
	return *doc.Tokens, nil
}

// EndReasoning makes a running completion end its thinking, if the request had
// "reasoning_control":true. It reports whether the server did so.
func (c *Client) EndReasoning(ctx context.Context, id string) (bool, error) {
	body, err := json.Marshal(struct {
		Model  string `json:"model,omitzero"`
		ID     string `json:"id"`
		Action string `json:"action"`
	}{c.model, id, "reasoning_end"})
	if err != nil {
		return false, fail(proto.WhyBadData, "the id is not UTF-8")
	}
	var doc struct {
		Success bool `json:"success"`
	}
	err = c.query(ctx, http.MethodPost, "/v1/chat/completions/control", body, nil, &doc)
	return doc.Success, err
}

// NotLoaded reports that a router has not loaded the model and was not made to.
// The server gives no field to tell it by (seen on b11669).
func NotLoaded(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusBadRequest && e.Message == "model is not loaded"
}

// selector makes a router answer for the configured model without loading it;
// a server with one model ignores it.
func (c *Client) selector() string {
	if c.model == "" {
		return ""
	}
	return "?model=" + url.QueryEscape(c.model) + "&autoload=false"
}

// query sends a request and decodes the JSON answer into doc. A nil on is fine.
// No slot is waited for, but a router may load the model first, in silence.
func (c *Client) query(ctx context.Context, method, target string, body []byte, on func(Event), doc any) error {
	if on == nil {
		on = func(Event) {}
	}
	x, err := c.open(ctx, request{method: method, target: target, body: body, first: c.limits.Load}, on)
	if err != nil {
		return err
	}
	defer x.close()
	if err = x.answer(doc); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = stopped(ctx)
	}
	return err
}

func (x *exchange) answer(doc any) *Error {
	if err := x.expect("application/json"); err != nil {
		return err
	}
	in := &io.LimitedReader{R: x.resp.Body, N: maxAnswer + 1}
	raw, err := io.ReadAll(in)
	switch {
	case err != nil:
		return x.broken(err)
	case in.N == 0:
		return fail(proto.WhyBadData, "the answer has more than %d bytes", maxAnswer)
	case jsontext.Value(raw).Kind() == 'n':
		return fail(proto.WhyBadData, "the answer is null")
	}
	if err := json.Unmarshal(raw, doc); err != nil {
		return fail(proto.WhyBadData, "the answer does not decode: %v", err)
	}
	return nil
}
