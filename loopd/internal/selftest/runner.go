package selftest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// runner carries what one check finds to the next.
type runner struct {
	cfg     Config
	client  *llama.Client
	wants   sampling // what the requests ask for
	found   bool     // the server has been seen and is a llama-server
	props   llama.Props
	listed  []llama.Model
	live    *llama.Sampling // of a request of the test, as the server runs it
	liveErr error           // why it could not be seen
	asked   int             // times that it was looked for
	first   *llama.Completion
	history []jsontext.Value // messages of the first request and its answer
	report  Report
}

// sampling is the part of the sampling members that is compared.
type sampling struct {
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	TopK        *int64   `json:"top_k"`
	MaxTokens   int64    `json:"max_tokens"`
	Cap         *int64   `json:"reasoning_budget_tokens"`
	Message     string   `json:"reasoning_budget_message"`
}

func newRunner(cfg Config) (*runner, error) {
	for _, name := range cfg.Skip {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("self-test: there is no check %.40q to skip; the checks are %s (see runbook: selftest-skip)",
				name, strings.Join(Names(), ", "))
		}
	}
	if cfg.Client == nil {
		return nil, errors.New("self-test: no client")
	}
	if cfg.On == nil {
		cfg.On = func(proto.Check) {}
	}
	if cfg.MaxBaseline == 0 {
		cfg.MaxBaseline = MaxBaseline
	}
	r := &runner{cfg: cfg, client: cfg.Client}
	if err := json.Unmarshal(cfg.Sampling, &r.wants); err != nil {
		return nil, fmt.Errorf("self-test: sampling: %w", err)
	}
	// A baseline that does not make a request would fail every check alike.
	if _, err := r.body(cfg.Sampling); err != nil {
		return nil, fmt.Errorf("self-test: %w", err)
	}
	return r, nil
}

// body is a request as sessions send it, on the background slot.
func (r *runner) body(sampling jsontext.Value, messages ...jsontext.Value) ([]byte, error) {
	p, err := prompt.New(&proto.Baseline{
		Model: r.client.Model(), Slot: r.cfg.Background, Sampling: sampling, Tools: r.cfg.Tools, System: r.cfg.System,
	})
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if err := p.Append(m); err != nil {
			return nil, err
		}
	}
	return p.Body(), nil
}

// member is one member of a request, its value raw.
type member struct{ name, value string }

// with replaces members of the sampling object, in place, or adds them at its end.
func (r *runner) with(set ...member) (jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(r.cfg.Sampling))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var all []member
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		all = append(all, member{key, string(value)})
	}
	for _, s := range set {
		if i := slices.IndexFunc(all, func(m member) bool { return m.name == s.name }); i >= 0 {
			all[i] = s
		} else {
			all = append(all, s)
		}
	}
	out := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, m.name) // names were decoded, so they are valid
		out = append(append(out, ':'), m.value...)
	}
	return append(out, '}'), nil
}
