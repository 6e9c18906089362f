package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/brain"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/slots"
)

// A box is a running server with what a test wants to see of it.
type box struct {
	*httptest.Server
	api *Server
}

// newBox starts a server with 3 slots of 4096 tokens, as the options change it.
func newBox(t *testing.T, options ...func(*Config)) *box {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := Config{Context: ctx, Pool: slots.New(3, 4096), Brain: brain.New().Reply, Faults: new(fault.Box), FaultRoute: true}
	for _, o := range options {
		o(&c)
	}
	s := New(c)
	ts := httptest.NewServer(s)
	t.Cleanup(func() {
		cancel()
		ts.CloseClientConnections()
		ts.Close()
	})
	return &box{ts, s}
}

// An answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (b *box) do(t *testing.T, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Client().Do(req)
	if err != nil {
		return answer{err: err}
	}
	got, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		t.Error(cerr)
	}
	return answer{resp.StatusCode, resp.Header, string(got), err}
}

func (b *box) chat(t *testing.T, body string) answer {
	t.Helper()
	return b.do(t, "POST", "/v1/chat/completions", body)
}

func (b *box) fault(t *testing.T, order string) {
	t.Helper()
	if a := b.do(t, "POST", "/practice/fault", order); a.status != 200 {
		t.Fatalf("the fault was refused: %d %s", a.status, a.body)
	}
}

// open starts a stream and gives a reader of its lines.
func (b *box) open(t *testing.T, ctx context.Context, body string) *lines {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", b.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &lines{bufio.NewScanner(resp.Body)}
}

type lines struct{ *bufio.Scanner }

// until reads on to a line that contains s.
func (l *lines) until(s string) (string, error) {
	for l.Scan() {
		if strings.Contains(l.Text(), s) {
			return l.Text(), nil
		}
	}
	return "", errors.Join(io.ErrUnexpectedEOF, l.Err())
}

// A said is what a client makes of a stream.
type said struct {
	reasoning, content, finish string
	calls                      []bodyFunction
	ids                        []string
	usage                      usage
	timings                    timings
	progress                   []progress
	failure                    string
	done                       bool
}

type anyChunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Finish string `json:"finish_reason"`
		Delta  struct {
			Reasoning string      `json:"reasoning_content"`
			Content   string      `json:"content"`
			Calls     []callDelta `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage    usage     `json:"usage"`
	Timings  timings   `json:"timings"`
	Progress *progress `json:"prompt_progress"`
	Error    struct {
		Message string `json:"message"`
	} `json:"error"`
}

func read(t *testing.T, stream string) said {
	t.Helper()
	var s said
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			s.done = true
			continue
		}
		var c anyChunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		s.failure += c.Error.Message
		s.usage, s.timings = c.Usage, c.Timings
		if c.Progress != nil {
			s.progress = append(s.progress, *c.Progress)
		}
		for _, choice := range c.Choices {
			s.finish = choice.Finish
			s.reasoning += choice.Delta.Reasoning
			s.content += choice.Delta.Content
			for _, call := range choice.Delta.Calls {
				if call.ID != "" {
					s.calls, s.ids = append(s.calls, bodyFunction{Name: call.Function.Name}), append(s.ids, call.ID)
				}
				s.calls[len(s.calls)-1].Arguments += call.Function.Arguments
			}
		}
	}
	return s
}

// shape is a JSON document with the kinds of its values instead of the values,
// equal elements of an array only once.
func shape(t *testing.T, doc string) string {
	t.Helper()
	var b strings.Builder
	shapeOf(t, &b, jsontext.NewDecoder(strings.NewReader(doc)))
	return b.String()
}

func shapeOf(t *testing.T, b *strings.Builder, d *jsontext.Decoder) {
	t.Helper()
	switch d.PeekKind() {
	case '{':
		_, _ = d.ReadToken()
		b.WriteString("{")
		for d.PeekKind() == '"' {
			name, _ := d.ReadToken()
			b.WriteString(name.String() + ":")
			shapeOf(t, b, d)
			b.WriteString(" ")
		}
		_, _ = d.ReadToken()
		b.WriteString("}")
	case '[':
		_, _ = d.ReadToken()
		b.WriteString("[")
		last := ""
		for d.PeekKind() != ']' && d.PeekKind() != 0 {
			var e strings.Builder
			shapeOf(t, &e, d)
			if e.String() != last {
				b.WriteString(e.String() + " ")
			}
			last = e.String()
		}
		_, _ = d.ReadToken()
		b.WriteString("]")
	default:
		v, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		switch k := v.Kind(); {
		case k == '0' && bytes.ContainsAny(v, ".eE"):
			b.WriteString("float")
		case k == '0':
			b.WriteString("int")
		case k == '"':
			b.WriteString("text")
		case k == 'n':
			b.WriteString("null")
		default:
			b.WriteString("bool")
		}
	}
}

// shapes is the sequence of the shapes of a body's lines, repetitions once.
func shapes(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		data, event := strings.CutPrefix(line, "data: ")
		if line == "" {
			continue
		}
		if strings.HasPrefix(data, "{") || strings.HasPrefix(data, "[{") {
			line = shape(t, data)
			if event {
				line = "data: " + line
			}
		}
		if len(out) == 0 || out[len(out)-1] != line {
			out = append(out, line)
		}
	}
	return out
}
