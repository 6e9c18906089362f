package api

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/fault"
	"boxmaker/practice/internal/gen"
	"boxmaker/practice/internal/template"
)

const page = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>\n"

// faultFor is what is to go wrong with a request: an order "!fault KIND …" in
// the first line of its last message, else the next order of the box. In-band
// orders are heard only with -faults, and each only as often as it says for the
// same body, so that a client that tries again can succeed.
func (s *Server) faultFor(req *chat.Request, body []byte) fault.Fault {
	line, ok := inBand(req)
	if !s.FaultRoute || !ok {
		return s.Faults.Chat(req.Slot)
	}
	f, err := fault.Parse(strings.Join(strings.Fields(line), ","))
	if err != nil {
		return fault.Fault{}
	}
	if f.Times == 0 {
		f.Times = 1
	}
	key := sha256.Sum256(body)
	s.mu.Lock()
	s.seen[key]++
	spent := f.Times > 0 && s.seen[key] > f.Times
	s.mu.Unlock()
	if spent {
		return fault.Fault{}
	}
	var box fault.Box // fills in the defaults
	box.Put(f)
	if f.Kind == fault.Loading {
		return fault.Fault{Kind: fault.Loading}
	}
	return box.Chat(chat.AnySlot)
}

func inBand(req *chat.Request) (string, bool) {
	if len(req.Messages) == 0 || req.Messages[len(req.Messages)-1].Role != "user" {
		return "", false
	}
	line, _, _ := strings.Cut(req.Messages[len(req.Messages)-1].Content, "\n")
	return strings.CutPrefix(line, "!fault ")
}

// refuse answers instead of a completion, if the fault says so.
func (s *Server) refuse(w http.ResponseWriter, f fault.Fault, prompt int) bool {
	switch f.Kind {
	case fault.Loading:
		gate(w, http.StatusServiceUnavailable, "unavailable_error", "Loading model")
	case fault.Unauthorised:
		unauthorised(w)
	case fault.HTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
	case fault.Exceeded:
		fail(w, exceeded(prompt+s.Pool.Context(), s.Pool.Context()))
	case fault.ServerError:
		fail(w, formatError())
	default:
		return false
	}
	return true
}

func formatError() *chat.Error {
	return &chat.Error{Status: http.StatusInternalServerError, Type: "server_error", Message: "The model produced output that does not match the expected peg-native format"}
}

// spoil changes what will be said.
func (c *completion) spoil(o *gen.Options) {
	r := &c.reply
	switch c.fault.Kind {
	case fault.Empty:
		*r = gen.Reply{}
	case fault.ThoughtOnly:
		r.Content, r.Calls = "", nil
	case fault.LongThought:
		r.Reasoning = strings.Repeat("Still thinking. ", c.s.Pool.Context())
		o.Budget = -1
	case fault.CutArguments:
		c.needCall(`{"note":"these arguments are cut in the middle, so they must never be used"}`)
	case fault.Markup:
		c.needCall(`{}`)
		text, err := template.Call(template.ToolUse{Name: r.Calls[0].Name, Arguments: []byte(r.Calls[0].Arguments)})
		if err == nil {
			r.Content, r.Calls = "Let me look.\n"+text, nil
		}
	case fault.Duplicate:
		c.needCall(`{}`)
		r.Calls = []gen.Use{r.Calls[0], r.Calls[0]}
	case fault.UnknownTool:
		r.Calls = []gen.Use{{Name: "no_such_tool", Arguments: `{}`}}
	case fault.BadArguments:
		c.needCall(`{}`)
		r.Calls[0].Arguments = `{"a": `
	}
}

// needCall makes sure that there is a call whose arguments are at least as long
// as these.
func (c *completion) needCall(args string) {
	r := &c.reply
	if len(r.Calls) == 0 {
		name := "clock"
		if len(c.req.Tools) > 0 {
			name = c.req.Tools[0].Name
		}
		r.Content, r.Calls = "", []gen.Use{{Name: name, Arguments: args}}
	}
	if len(r.Calls[0].Arguments) < len(args) {
		r.Calls[0].Arguments = args
	}
}

// spoilSteps changes how it will be said.
func (c *completion) spoilSteps() {
	var calls []int
	for i, s := range c.steps {
		if s.Delta != nil && s.Delta.Call != nil {
			calls = append(calls, i)
		}
	}
	switch {
	case len(calls) == 0:
	case c.fault.Kind == fault.CutArguments:
		c.last = calls[(len(calls)-1)/2] + 1
	case c.fault.Kind == fault.Duplicate:
		for _, i := range calls {
			c.steps[i].Delta.Call.Index = 0
		}
	}
}

// strike carries out the faults that come in the middle, before token i. It
// says whether the completion is over.
func (c *completion) strike(client context.Context, i int) (over bool, err error) {
	f := c.fault
	if i != min(f.After, len(c.steps)-1) {
		return false, nil
	}
	switch f.Kind {
	case fault.Stall:
		select {
		case <-client.Done():
		case <-c.s.Context.Done():
		}
		return true, nil
	case fault.Cut:
		return true, nil
	case fault.Disconnect:
		panic(http.ErrAbortHandler) // net/http breaks the connection and says nothing
	case fault.Error:
		return true, c.out.fail(formatError())
	case fault.KVFull:
		return true, c.out.fail(&chat.Error{Status: http.StatusInternalServerError, Type: "server_error", Message: "Context size has been exceeded."})
	case fault.ContextFull:
		c.n = c.s.Pool.Context() - len(c.prompt)
		return true, c.finish("length")
	case fault.Drip:
		c.pace = time.Duration(f.MS) * time.Millisecond
	case fault.BadUTF8:
		return false, c.out.raw([]byte("{\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"\xff\xfe\"}}]}"))
	case fault.BadJSON:
		return false, c.out.raw([]byte(`{"choices":[{"finish_reason":nu`))
	case fault.BigEvent:
		return false, c.out.delta(gen.Delta{Content: strings.Repeat("x", f.Bytes)}, nil)
	}
	return false, nil
}
