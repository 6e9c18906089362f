package llama

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says why a request gave nothing that can be kept.
type Error struct {
	Why     proto.Why
	Status  int    // of HTTP, or the code of an error event; 0 if there was none
	Type    string // the server's own type of error, such as "server_error"; may be empty
	Message string // one line, safe to show: no control characters, short

	// PromptTokens and Context are set with WhyContextFull if the server gave
	// them: the size of the prompt and n_ctx.
	PromptTokens, Context int64

	// Retry: the same bytes, sent once more, may well succeed.
	Retry bool

	cause error
}

// Error gives the whole story in one line, with the runbook's key.
func (e *Error) Error() string {
	s := "inference server: " + e.Message
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	return s + " (see runbook: " + e.Runbook() + ")"
}

// Unwrap gives the cause, such as context.Canceled; often nil.
func (e *Error) Unwrap() error { return e.cause }

// Runbook is the key of the runbook's section about this error.
func (e *Error) Runbook() string {
	switch e.Why {
	case proto.WhyUnreachable:
		return "server-unreachable"
	case proto.WhyUnauthorised:
		return "server-unauthorised"
	case proto.WhyStalled:
		return "server-stalled"
	case proto.WhyCut:
		return "server-cut"
	case proto.WhyBadData:
		return "server-bad-data"
	case proto.WhyContextFull:
		return "context-full"
	case proto.WhyEmpty, proto.WhyLength, proto.WhyMarkup, proto.WhyBadCall:
		return "answer-unusable"
	case proto.WhyStopped:
		return "turn-stopped"
	default:
		return "server-error"
	}
}

// maxMessage caps an error's message, in runes.
const maxMessage = 300

// clean makes a text from outside safe to show on one line: white space of any
// kind becomes one space, control and format characters go, the rest is capped.
func clean(s string) string {
	if len(s) > 16*maxMessage {
		s = s[:16*maxMessage]
	}
	var b strings.Builder
	n, gap := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			gap = n > 0
			continue
		case r == unicode.ReplacementChar, !unicode.IsPrint(r):
			continue
		}
		if gap {
			b.WriteByte(' ')
			n, gap = n+1, false
		}
		if n >= maxMessage {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

func fail(why proto.Why, format string, args ...any) *Error {
	return &Error{Why: why, Message: clean(fmt.Sprintf(format, args...)), Retry: retries(why)}
}

// retries: the faults that another try with the same bytes often mends, since
// the model answers anew.
func retries(why proto.Why) bool {
	switch why {
	case proto.WhyCut, proto.WhyEmpty, proto.WhyMarkup, proto.WhyBadCall:
		return true
	default:
		return false
	}
}

// apiError is the server's own form of an error, in a body or in a stream.
type apiError struct {
	Code         jsontext.Value `json:"code"` // a number; other servers write other things
	Message      string         `json:"message"`
	Type         string         `json:"type"`
	PromptTokens int64          `json:"n_prompt_tokens"`
	Context      int64          `json:"n_ctx"`
}

// status is the error's code if it can be a status of HTTP, else 500.
func (e *apiError) status() int {
	n, err := strconv.Atoi(string(e.Code))
	if err != nil || n < 400 || n > 599 {
		return http.StatusInternalServerError
	}
	return n
}

// kvFull is how the server says in the middle of a stream that its cache has no
// room left. It gives no field to tell it by (seen on b11669).
const kvFull = "context size has been exceeded"

// classify turns a status and the server's words into an Error.
func classify(status int, e apiError) *Error {
	out := &Error{Why: proto.WhyServerError, Status: status, Type: clean(e.Type), Message: clean(e.Message)}
	switch {
	case e.Type == "exceed_context_size_error":
		out.Why = proto.WhyContextFull
		out.PromptTokens, out.Context = max(e.PromptTokens, 0), max(e.Context, 0)
	case strings.HasPrefix(strings.ToLower(e.Message), kvFull):
		out.Why = proto.WhyContextFull
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		out.Why = proto.WhyUnauthorised
	case status == http.StatusServiceUnavailable:
		out.Why = proto.WhyUnreachable
	case status >= 500, status == http.StatusTooManyRequests:
		out.Retry = true
	}
	if out.Message == "" {
		out.Message = cmp.Or(strings.ToLower(http.StatusText(status)), "it failed and does not say why")
	}
	return out
}
