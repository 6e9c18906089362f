package proto

import (
	"errors"
	"fmt"
	"time"

	"boxmaker/internal/strict"

	"github.com/go-json-experiment/json/jsontext"
)

// RecordVersion is the version that new session records carry. Goldens of every
// older version stay readable for ever.
const RecordVersion = 1

var (
	// ErrVersion reports a record of a version that this program does not know.
	ErrVersion = errors.New("proto: foreign record version")
	// ErrRecord reports a record that is not in canonical form.
	ErrRecord = errors.New("proto: bad record")
)

// A Record is the body of one line of a session log.
type Record interface {
	strict.Value
	// Kind is the value of the "kind" member.
	Kind() string
}

// Header stands in front of every record.
type Header struct {
	N    int64     // number of the record in its file, from 0
	Time time.Time // milliseconds matter, the rest is dropped
}

// Baseline is the first record of an epoch: all that stands in front of its
// messages, as it was on that day. Raw members are sent as they are; like every
// raw member of a record they must be in the form that [CheckRaw] accepts.
type Baseline struct {
	Model    string           `json:"model"`
	Slot     int              `json:"slot"`
	Sampling jsontext.Value   `json:"sampling"`        // object: every other constant member of the request, in order
	Tools    jsontext.Value   `json:"tools"`           // array
	System   jsontext.Value   `json:"system"`          // the system message
	Carry    []jsontext.Value `json:"carry,omitempty"` // messages taken over from the epoch before
	Template string           `json:"template"`        // SHA-256 of the chat template, hex; empty if unknown
	Window   int64            `json:"window"`          // n_ctx of the slot in tokens
}

// User is a message of the owner that starts a turn.
type User struct {
	Origin  string         `json:"origin"`
	Surface Surface        `json:"surface"`
	Message jsontext.Value `json:"message"`
}

// Queued is a message of the owner that came while a turn ran. Its turn starts
// with a User record of the same origin.
type Queued struct {
	Origin  string         `json:"origin"`
	Surface Surface        `json:"surface"`
	Message jsontext.Value `json:"message"`
}

// Assistant is a finished message of the model.
type Assistant struct {
	Message jsontext.Value `json:"message"`
}

// Tool is the result of a tool call as the model reads it.
type Tool struct {
	Call      string         `json:"call"`
	Outcome   CallOutcome    `json:"outcome"`
	Code      Code           `json:"code,omitzero"`
	Class     Class          `json:"class"`
	Untrusted bool           `json:"untrusted,omitzero"`
	Dropped   int64          `json:"dropped,omitzero"` // bytes that the model does not see
	MS        int64          `json:"ms,omitzero"`
	Head      AuditHead      `json:"head,omitzero"` // of the audit log, with this result in it
	Message   jsontext.Value `json:"message"`
}

// Completion holds what the server said of one request: tokens, microseconds.
type Completion struct {
	Finish      string `json:"finish"`
	CacheN      int64  `json:"cache_n"`
	PromptN     int64  `json:"prompt_n"`
	PredictedN  int64  `json:"predicted_n"`
	PromptUS    int64  `json:"prompt_us"`
	PredictedUS int64  `json:"predicted_us"`
	FirstMS     int64  `json:"first_ms"`        // request sent to first token
	Lost        int64  `json:"lost,omitzero"`   // tokens processed again after a cold cache
	Capped      bool   `json:"capped,omitzero"` // the thinking cap was hit
}

// CallAsked says that a call waits for the owner.
type CallAsked struct {
	Call     string `json:"call"`
	Approval string `json:"approval"`
	Expires  string `json:"expires"`
}

// Incomplete keeps what came of a completion that gave no message.
type Incomplete struct {
	Why      Why    `json:"why"`
	Detail   string `json:"detail,omitzero"`
	Retry    bool   `json:"retry,omitzero"` // the same bytes may succeed when sent again
	Text     string `json:"text,omitzero"`
	Thinking string `json:"thinking,omitzero"`
}

// StopAsked says that the owner stopped the turn.
type StopAsked struct{}

// TurnEnd ends a turn.
type TurnEnd struct {
	Origin  string      `json:"origin"`
	Outcome TurnOutcome `json:"outcome"`
	Text    string      `json:"text,omitzero"` // for the owner
	Runbook string      `json:"runbook,omitzero"`
	Queued  int         `json:"queued,omitzero"` // messages that still wait
}

// Delivered says that the answer of a turn is in the owner's chat. It may stand there
// twice, after a crash.
type Delivered struct {
	Key string `json:"key"` // of gatewayd's queue
}

// Recovered says that opening the log found an unfinished line and cut it off.
type Recovered struct {
	Bytes int64  `json:"bytes"`
	File  string `json:"file"` // side file, in the session's folder
}

var records = map[string]func() Record{
	"baseline":   func() Record { return new(Baseline) },
	"user":       func() Record { return new(User) },
	"queued":     func() Record { return new(Queued) },
	"assistant":  func() Record { return new(Assistant) },
	"tool":       func() Record { return new(Tool) },
	"completion": func() Record { return new(Completion) },
	"asked":      func() Record { return new(CallAsked) },
	"incomplete": func() Record { return new(Incomplete) },
	"stopped":    func() Record { return new(StopAsked) },
	"turn":       func() Record { return new(TurnEnd) },
	"delivered":  func() Record { return new(Delivered) },
	"recovered":  func() Record { return new(Recovered) },
}

// RecordKinds lists the kinds, unordered.
func RecordKinds() []string {
	var kinds []string
	for k := range records {
		kinds = append(kinds, k)
	}
	return kinds
}

func rawKind(what string, v jsontext.Value, want jsontext.Kind) error {
	if v.Kind() != want {
		return fmt.Errorf("proto: %s is not a JSON %v", what, want)
	}
	return nil
}

// Validate checks the shapes of the raw members.
func (r *Baseline) Validate() error {
	errs := []error{
		rawKind("sampling", r.Sampling, '{'), rawKind("tools", r.Tools, '['),
		rawKind("system", r.System, '{'), nonNegative(int64(r.Slot), r.Window),
	}
	for _, m := range r.Carry {
		errs = append(errs, rawKind("carry", m, '{'))
	}
	return errors.Join(errs...)
}

// Validate checks origin, surface and message.
func (r *User) Validate() error {
	return errors.Join(CheckToken(r.Origin), r.Surface.Validate(), rawKind("message", r.Message, '{'))
}

// Validate checks origin, surface and message.
func (r *Queued) Validate() error {
	return errors.Join(CheckToken(r.Origin), r.Surface.Validate(), rawKind("message", r.Message, '{'))
}

// Validate checks the message.
func (r *Assistant) Validate() error { return rawKind("message", r.Message, '{') }

// Validate checks the call id, the enums, the head and the message.
func (r *Tool) Validate() error {
	_, err := ParseCallID(r.Call)
	if r.Head != (AuditHead{}) {
		err = errors.Join(err, r.Head.Validate())
	}
	return errors.Join(err, checkResult(r.Outcome, r.Code, r.Class), rawKind("message", r.Message, '{'), nonNegative(r.Dropped, r.MS))
}

// Validate checks the signs.
func (r *Completion) Validate() error {
	return nonNegative(r.CacheN, r.PromptN, r.PredictedN, r.PromptUS, r.PredictedUS, r.FirstMS, r.Lost)
}

// Validate checks the identifiers.
func (r *CallAsked) Validate() error {
	return (&Asked{Call: r.Call, Approval: r.Approval, Expires: r.Expires}).Validate()
}

// Validate checks the reason.
func (r *Incomplete) Validate() error { return r.Why.Validate() }

// Validate accepts the only value.
func (r *StopAsked) Validate() error { return nil }

// Validate checks origin and outcome.
func (r *TurnEnd) Validate() error {
	return errors.Join(CheckToken(r.Origin), r.Outcome.Validate(), nonNegative(int64(r.Queued)))
}

// Validate checks the key.
func (r *Delivered) Validate() error { return CheckToken(r.Key) }

// Validate checks the size.
func (r *Recovered) Validate() error { return nonNegative(r.Bytes) }

// Kinds.

func (*Baseline) Kind() string   { return "baseline" }
func (*User) Kind() string       { return "user" }
func (*Queued) Kind() string     { return "queued" }
func (*Assistant) Kind() string  { return "assistant" }
func (*Tool) Kind() string       { return "tool" }
func (*Completion) Kind() string { return "completion" }
func (*CallAsked) Kind() string  { return "asked" }
func (*Incomplete) Kind() string { return "incomplete" }
func (*StopAsked) Kind() string  { return "stopped" }
func (*TurnEnd) Kind() string    { return "turn" }
func (*Delivered) Kind() string  { return "delivered" }
func (*Recovered) Kind() string  { return "recovered" }
