package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/gen"
	"boxmaker/practice/internal/slots"
	"boxmaker/practice/internal/template"
	"boxmaker/practice/internal/tokenizer"
)

// batch is how many tokens of a prompt are processed between two progress
// events, and where a cancelled prompt stops.
const batch = 2048

// A control is the handle by which a running completion's reasoning is ended.
type control struct {
	armed bool
	end   atomic.Bool
}

// A completion is one request at work in its slot.
type completion struct {
	s      *Server
	req    *chat.Request
	fault  fault.Fault
	lease  *slots.Lease
	out    sink
	prompt []tokenizer.Token
	reply  gen.Reply
	steps  []gen.Step
	last   int // steps after which it is cut with "length", 0: none
	ctl    control

	cached     int
	n          int // tokens generated
	began      time.Time
	promptTime time.Duration
	first      time.Time // of the first token
	pace       time.Duration
}

// completions answers a chat request, from the queue to the last event.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, body []byte) error {
	req, err := chat.Decode(body)
	if err != nil {
		s.Record.Add(chat.AnySlot, body)
		return err
	}
	s.Record.Add(req.Slot, body)
	text, err := template.Render(req.Input())
	if err != nil {
		return err
	}
	prompt := s.tokens.Encode(text)
	f := s.faultFor(req, body)
	if s.refuse(w, f, len(prompt)) {
		return nil
	}
	lease, err := s.Pool.Acquire(s.Context, req.Slot, prompt)
	if err != nil {
		return err
	}
	defer lease.Release()
	// A document is never cancelled: the real server does not look.
	ctx := context.WithoutCancel(r.Context())
	if req.Stream {
		ctx = r.Context()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context, cancel)()
	if ctx.Err() != nil {
		lease.RollBack(prompt)
		return nil
	}
	if n := s.Pool.Context(); len(prompt) >= n {
		return exceeded(len(prompt), n)
	}
	c := s.prepare(w, req, f, lease, prompt)
	id := c.register()
	defer s.unregister(id)
	return c.run(ctx, r.Context())
}

func exceeded(n, ctx int) *chat.Error {
	return &chat.Error{
		Status: http.StatusBadRequest, Type: "exceed_context_size_error", NPrompt: n, NCtx: ctx,
		Message: fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", n, ctx),
	}
}

// prepare decides what will be said.
func (s *Server) prepare(w http.ResponseWriter, req *chat.Request, f fault.Fault, lease *slots.Lease, prompt []tokenizer.Token) *completion {
	h := head{id: "chatcmpl-" + randomID(), created: time.Now().Unix()}
	c := &completion{s: s, req: req, fault: f, lease: lease, prompt: prompt}
	c.ctl.armed = req.Armed
	o := gen.Options{Thinking: req.Thinking, Budget: req.Budget, Message: req.BudgetMessage}
	doc := &document{head: h, w: w}
	if m := req.Messages; len(m) > 0 && m[len(m)-1].Role == "assistant" {
		o.Thinking = false // the prompt ends inside the answer, which is given back with what is added
		doc.message.Content = m[len(m)-1].Content
	}
	c.reply = s.Brain(req)
	if !req.Parallel && len(c.reply.Calls) > 1 {
		c.reply.Calls = c.reply.Calls[:1]
	}
	c.spoil(&o)
	c.steps = gen.Steps(s.tokens, c.reply, o)
	c.spoilSteps()
	c.out = doc
	if req.Stream {
		ping := s.Ping
		if req.Ping >= 0 {
			ping = time.Duration(req.Ping) * time.Second
		}
		c.out = newStream(w, h, req.IncludeUsage, ping)
	}
	lease.Show(req.MaxTokens, req.Stream, req.Sampling)
	return c
}

// register makes the completion known to the control endpoint.
func (c *completion) register() string {
	id := ""
	switch o := c.out.(type) {
	case *stream:
		id = o.id
	case *document:
		id = o.id
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.active[id] = &c.ctl
	return id
}

func (s *Server) unregister(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, id)
}

// run processes the prompt and generates. An error means that the client has
// gone or the server ends: nothing more can be sent.
func (c *completion) run(ctx, client context.Context) error {
	if c.fault.Kind == fault.Evict {
		c.lease.Evict()
	}
	c.began = time.Now()
	c.cached = c.lease.Begin(c.prompt, c.req.CachePrompt)
	defer func() {
		if !c.first.IsZero() {
			c.lease.Spent(c.promptTime, time.Since(c.first))
		}
	}()
	if c.out.begin() != nil {
		return nil
	}
	if c.prefill(ctx) != nil {
		return nil
	}
	_ = c.generate(ctx, client) // the slot keeps what was done
	return nil
}

func (c *completion) prefill(ctx context.Context) error {
	if err := c.progress(c.cached); err != nil {
		return err
	}
	for done := c.cached; done < len(c.prompt); {
		n := min(batch, len(c.prompt)-done)
		if err := c.out.wait(ctx, per(n, c.s.PromptTPS)); err != nil {
			return err
		}
		c.lease.Process(c.prompt[done : done+n])
		done += n
		c.promptTime = time.Since(c.began)
		if err := c.progress(done); err != nil {
			return err
		}
	}
	return nil
}

func (c *completion) progress(done int) error {
	if !c.req.Progress {
		return nil
	}
	return c.out.role(&progress{Total: len(c.prompt), Cache: c.cached, Processed: done, TimeMS: c.promptTime.Milliseconds()}, c.eachTimings(done-c.cached))
}

// eachTimings is what timings_per_token adds to an event.
func (c *completion) eachTimings(processed int) *timings {
	if !c.req.TimingsPerToken {
		return nil
	}
	t := makeTimings(c.cached, processed, c.n, c.promptTime, c.sinceFirst())
	return &t
}

func (c *completion) sinceFirst() time.Duration {
	if c.first.IsZero() {
		return 0
	}
	return time.Since(c.first)
}

// generate says the reply token by token.
func (c *completion) generate(ctx, client context.Context) error {
	limit := len(c.prompt) + max(c.req.MaxTokens, 1)
	if c.req.MaxTokens < 0 {
		limit = c.s.Pool.Context()
	}
	limit = min(limit, c.s.Pool.Context())
	for i := 0; ; i++ {
		if over, err := c.strike(client, i); over || err != nil {
			return err
		}
		if err := c.out.wait(ctx, max(c.pace, per(1, c.s.GenTPS))); err != nil {
			return err
		}
		if c.ctl.end.Load() && gen.CanEnd(c.s.tokens, c.steps[:i], c.steps[i]) {
			c.steps = append(c.steps[:i:i], gen.EndReasoning(c.s.tokens, c.steps[:i], c.reply)...)
		}
		if err := c.step(i, limit); err != nil {
			return err
		}
		switch {
		case i == len(c.steps)-1:
			return c.finish(c.stopReason())
		case len(c.prompt)+c.n >= limit, c.last == c.n:
			return c.finish("length")
		}
	}
}

// step generates token i.
func (c *completion) step(i, limit int) error {
	if i == 0 {
		c.first = time.Now()
		c.promptTime = c.first.Sub(c.began)
		if err := c.out.role(nil, nil); err != nil {
			return err
		}
	}
	c.n = i + 1
	var before []tokenizer.Token
	if i > 0 {
		before = []tokenizer.Token{c.steps[i-1].Token}
	}
	c.lease.Generated(before, c.n, limit-len(c.prompt)-c.n)
	if d := c.steps[i].Delta; d != nil {
		return c.out.delta(*d, c.eachTimings(len(c.prompt)-c.cached))
	}
	return nil
}

func (c *completion) stopReason() string {
	for _, s := range c.steps {
		if s.Delta != nil && s.Delta.Call != nil {
			return "tool_calls"
		}
	}
	return "stop"
}

func (c *completion) finish(reason string) error {
	u := usage{Completion: c.n, Prompt: len(c.prompt), Total: len(c.prompt) + c.n, Details: usageDetails{c.cached}}
	return c.out.finish(reason, u, makeTimings(c.cached, len(c.prompt)-c.cached, c.n, c.promptTime, c.sinceFirst()))
}

// per is the time that n tokens take at a speed; 0 is as fast as possible.
func per(n int, tps float64) time.Duration {
	if tps <= 0 {
		return 0
	}
	return time.Duration(float64(n) / tps * float64(time.Second))
}

// randomID is 32 letters and digits, as the real server makes them.
func randomID() string {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var b [32]byte
	for i := range b {
		b[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return string(b[:])
}
