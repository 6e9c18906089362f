package testkit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Stream is the answer to one chat request. Its methods write chunks in the
// form of the real server and flush each of them. Errors of writing are dropped:
// they mean that the client has left.
type Stream struct {
	ID      string      // of the completion
	Request ChatRequest // what the body asks for

	// CacheN and PromptN are the true figures for this body: tokens of the
	// prompt that the slot holds already, and tokens to process.
	CacheN, PromptN int

	l       *Llama
	w       http.ResponseWriter
	r       *http.Request
	started bool
	said    int // bytes generated
}

// ChatRequest is what a test may want to know of a chat request.
type ChatRequest struct {
	Model           string           `json:"model"`
	Slot            int              `json:"id_slot"`
	Messages        []jsontext.Value `json:"messages"`
	Tools           []Tool           `json:"tools"`
	ToolChoice      jsontext.Value   `json:"tool_choice"`
	MaxTokens       int              `json:"max_tokens"`
	ReasoningBudget *int             `json:"reasoning_budget_tokens"`
}

// Tool is a declared tool.
type Tool struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// slotCache is what a slot holds: the body of its last request, less the closing
// of the message list, and the tokens processed and generated for it.
type slotCache struct {
	body   string
	tokens int
}

func (l *Llama) newStream(w http.ResponseWriter, r *http.Request, body []byte) (*Stream, error) {
	s := &Stream{l: l, w: w, r: r}
	if err := json.Unmarshal(body, &s.Request); err != nil {
		return nil, err
	}
	text, ok := strings.CutSuffix(strings.TrimSpace(string(body)), "]}")
	if !ok {
		return nil, errors.New("testkit: the body does not end in its messages")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.ID = fmt.Sprintf("chatcmpl-%032d", len(l.bodies))
	old := l.cache[s.Request.Slot]
	if old == nil {
		old = &slotCache{}
	}
	if strings.HasPrefix(text, old.body) {
		s.CacheN = old.tokens
	} else {
		s.CacheN = tokens(commonPrefix(text, old.body))
	}
	total := max(tokens(len(text)), s.CacheN+1)
	s.PromptN = total - s.CacheN
	l.cache[s.Request.Slot] = &slotCache{body: text, tokens: total}
	return s, nil
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func tokens(bytes int) int { return (bytes + 3) / 4 }

func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // invalid UTF-8: a test that wants it uses Raw
		return `"testkit: invalid UTF-8"`
	}
	return string(b)
}

// Raw writes bytes as they are, after the head of a stream if that is not out yet.
func (s *Stream) Raw(text string) {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.WriteHeader(http.StatusOK)
	}
	_, _ = s.w.Write([]byte(text))
	_ = http.NewResponseController(s.w).Flush()
}

// Head sends the response head and nothing else.
func (s *Stream) Head() { s.Raw("") }

// Data writes one event.
func (s *Stream) Data(json string) { s.Raw("data: " + json + "\n\n") }

func (s *Stream) chunk(choices, more string) {
	s.Data(fmt.Sprintf(`{"choices":[%s],"created":1796051242,"id":%s,"model":%s,"system_fingerprint":"b11669-test","object":"chat.completion.chunk"%s}`,
		choices, quote(s.ID), quote(s.modelName()), more))
}

func (s *Stream) delta(delta, more string) {
	s.chunk(`{"finish_reason":null,"index":0,"delta":`+delta+`}`, more)
}

func (s *Stream) modelName() string {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.l.model
}

// Role writes the first chunk of a stream.
func (s *Stream) Role() { s.delta(`{"role":"assistant","content":null}`, "") }

// Progress writes a progress event: tokens and milliseconds.
func (s *Stream) Progress(total, cache, done, ms int) {
	s.delta(`{"role":"assistant","content":null}`,
		fmt.Sprintf(`,"prompt_progress":{"total":%d,"cache":%d,"processed":%d,"time_ms":%d}`, total, cache, done, ms))
}

// Reasoning writes a piece of thinking.
func (s *Stream) Reasoning(text string) {
	s.said += len(text)
	s.delta(`{"reasoning_content":`+quote(text)+`}`, "")
}

// Text writes a piece of content.
func (s *Stream) Text(text string) {
	s.said += len(text)
	s.delta(`{"content":`+quote(text)+`}`, "")
}

// Call writes one call: the first chunk has id, name and the first part of the
// arguments, each further part is a chunk of its own.
func (s *Stream) Call(index int, id, name string, parts ...string) {
	first, rest := "", parts
	if len(parts) > 0 {
		first, rest = parts[0], parts[1:]
	}
	s.said += len(name) + len(first)
	s.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}]}`,
		index, quote(id), quote(name), quote(first)), "")
	for _, part := range rest {
		s.CallPart(index, part)
	}
}

// CallPart writes one more piece of a call's arguments.
func (s *Stream) CallPart(index int, part string) {
	s.said += len(part)
	s.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, index, quote(part)), "")
}

// Finish writes the chunk with the finish reason: stop, length, tool_calls.
func (s *Stream) Finish(reason string) {
	s.chunk(`{"finish_reason":`+quote(reason)+`,"index":0,"delta":{}}`, "")
}

// Usage writes the last chunk before the end mark: tokens reused, processed and
// generated. The times in it are made up: 1 ms a token.
func (s *Stream) Usage(cacheN, promptN, predictedN int) {
	s.chunk("", fmt.Sprintf(`,"usage":{"completion_tokens":%d,"prompt_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`+
		`,"timings":{"cache_n":%d,"prompt_n":%d,"prompt_ms":%d.5,"prompt_per_token_ms":1.0,"prompt_per_second":1000.0,"predicted_n":%d,"predicted_ms":%d.25,"predicted_per_token_ms":1.0,"predicted_per_second":1000.0}`,
		predictedN, cacheN+promptN, cacheN+promptN+predictedN, cacheN, cacheN, promptN, promptN, predictedN, predictedN))
}

// TrueUsage is [Stream.Usage] with the figures that follow from the bytes, and
// keeps the generated tokens in the slot's cache.
func (s *Stream) TrueUsage() {
	predicted := tokens(s.said) + 1
	s.l.mu.Lock()
	if c := s.l.cache[s.Request.Slot]; c != nil {
		c.tokens = s.CacheN + s.PromptN + predicted - 1
	}
	s.l.mu.Unlock()
	s.Usage(s.CacheN, s.PromptN, predicted)
}

// Done writes the end mark.
func (s *Stream) Done() { s.Data("[DONE]") }

// Ping writes a comment, as the server does while it has nothing to say.
func (s *Stream) Ping() { s.Raw(":\n\n") }

// Error writes an error event. The real server ends the stream after it,
// without the end mark.
func (s *Stream) Error(code int, kind, message string) {
	s.Data(fmt.Sprintf(`{"error":{"code":%d,"message":%s,"type":%s}}`, code, quote(message), quote(kind)))
}

// Fail answers with a status and a body instead of a stream.
func (s *Stream) Fail(status int, contentType, body string) {
	s.started = true
	s.w.Header().Set("Content-Type", contentType)
	s.w.WriteHeader(status)
	_, _ = s.w.Write([]byte(body))
}

// Overflow answers as the server does to a prompt that does not fit.
func (s *Stream) Overflow(promptTokens, nctx int) {
	s.Fail(http.StatusBadRequest, "application/json; charset=utf-8", fmt.Sprintf(
		`{"error":{"code":400,"message":"request (%d tokens) exceeds the available context size (%d tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":%d,"n_ctx":%d}}`,
		promptTokens, nctx, promptTokens, nctx))
}

// Hang waits until the client leaves or the server is closed.
func (s *Stream) Hang() { <-s.r.Context().Done() }

// Gone is closed when the client has left.
func (s *Stream) Gone() <-chan struct{} { return s.r.Context().Done() }

// Cut breaks the connection, as a killed server would. It does not return.
func (s *Stream) Cut() { panic(http.ErrAbortHandler) }

// end closes a whole answer with the true figures.
func (s *Stream) end(reason string) {
	s.Finish(reason)
	s.TrueUsage()
	s.Done()
}

// open starts a whole answer.
func (s *Stream) open() {
	s.Progress(s.CacheN+s.PromptN, s.CacheN, s.CacheN, 0)
	s.Progress(s.CacheN+s.PromptN, s.CacheN, s.CacheN+s.PromptN, s.PromptN)
	s.Role()
}

// Answer does a whole stream that says text.
func (s *Stream) Answer(text string) {
	s.open()
	s.Text(text)
	s.end("stop")
}

// Think does a whole stream that thinks and then says text.
func (s *Stream) Think(reasoning, text string) {
	s.open()
	s.Reasoning(reasoning)
	s.Text(text)
	s.end("stop")
}

// CallTool does a whole stream that makes one call.
func (s *Stream) CallTool(id, name, args string) {
	s.open()
	s.Call(0, id, name, args)
	s.end("tool_calls")
}

// Default does what a server without a script does: the first declared tool is
// called when a call is required; else the answer is "ok", after a little
// thinking where a thinking cap asks for it.
func (s *Stream) Default() {
	switch {
	case string(s.Request.ToolChoice) == `"required"` && len(s.Request.Tools) > 0:
		s.CallTool(fmt.Sprintf("call-%s", s.ID), s.Request.Tools[0].Function.Name, "{}")
	case s.Request.ReasoningBudget != nil && *s.Request.ReasoningBudget > 0:
		s.Think("Hm. ", "ok")
	default:
		s.Answer("ok")
	}
}
