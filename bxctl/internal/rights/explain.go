package rights

import (
	"errors"
	"strings"
	"time"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/go-json-experiment/json/jsontext"
)

// An Explanation says what would become of a call.
type Explanation struct {
	Verdict   string `json:"verdict"`
	Code      string `json:"code,omitzero"`
	Grant     string `json:"grant,omitzero"`
	Why       string `json:"why"`
	Taint     string `json:"taint"`
	Untrusted bool   `json:"untrusted"`
	Steps     []Step `json:"steps"`
}

// A Step is what one grant makes of the call.
type Step struct {
	Grant string `json:"grant"`
	Fits  bool   `json:"fits"`
	Why   string `json:"why"`
}

// Said takes what brokerd explained.
func Said(e *proto.Explained) Explanation {
	out := Explanation{Verdict: string(e.Verdict), Code: string(e.Code), Grant: e.Grant, Why: e.Why, Taint: string(e.Taint), Untrusted: e.Untrusted, Steps: []Step{}}
	for _, s := range e.Steps {
		out.Steps = append(out.Steps, Step(s))
	}
	return out
}

// ErrTool reports a tool that does not exist.
var ErrTool = errors.New("there is no such tool")

// Explain decides on a call by the files, as brokerd would for a session with
// that taint. It counts no calls per hour.
func Explain(set grant.Set, name, args string, taint proto.Class, untrusted bool, now time.Time) (Explanation, error) {
	t := tool.Find(name)
	if t == nil {
		return Explanation{}, ErrTool
	}
	out := Explanation{Verdict: string(proto.VerdictDeny), Taint: string(taint), Untrusted: untrusted, Steps: []Step{}}
	c, err := t.Decode(args)
	if err != nil {
		var bad *tool.Error
		if !errors.As(err, &bad) {
			return Explanation{}, err
		}
		out.Code, out.Why = string(bad.Code), bad.Error()
		return out, nil
	}
	v := set.Decide(grant.Request{Call: c, Taint: taint, Untrusted: untrusted, Now: now})
	out.Verdict, out.Code, out.Why = string(v.Verdict), string(v.Code), v.Why
	if v.Grant != nil {
		out.Grant = v.Grant.ID
	}
	for _, s := range v.Steps {
		out.Steps = append(out.Steps, Step(s))
	}
	return out, nil
}

// Arguments gives the JSON of a call's arguments. What is no object is taken
// for the one argument that a grant is about; the others get any value.
func Arguments(name, text string) string {
	if t := strings.TrimSpace(text); t == "" || strings.HasPrefix(t, "{") {
		return text
	}
	q, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return text // it is no text, and Decode says so
	}
	s := string(q)
	switch name {
	case tool.NameSearchFiles:
		return `{"path":` + s + `,"pattern":"x"}`
	case tool.NameWriteFile:
		return `{"path":` + s + `,"content":""}`
	case tool.NameEditFile:
		return `{"path":` + s + `,"old":"x","new":"y"}`
	case tool.NameShell:
		return `{"command":` + s + `}`
	case tool.NameHTTPFetch:
		return `{"url":` + s + `}`
	case tool.NameRun:
		var words []string
		for _, w := range strings.Fields(text) {
			if q, err := jsontext.AppendQuote(nil, w); err == nil {
				words = append(words, string(q))
			}
		}
		return `{"argv":[` + strings.Join(words, ",") + `]}`
	default:
		return `{"path":` + s + `}`
	}
}
