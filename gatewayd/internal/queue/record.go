package queue

import (
	"errors"
	"fmt"

	"boxmaker/internal/proto"
	"boxmaker/internal/strict"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is that of new records.
const Version = 1

// A Record is one line of the log. The set is closed.
type Record interface {
	strict.Value
	kind() string
}

// First is the time of the server's clock, in milliseconds, before which nothing
// is heard: when the bot first looked around.
type First struct {
	At int64 `json:"at"`
}

// Mark says that all that happened in a channel up to a time is in this log, as
// far as it is heard.
type Mark struct {
	Channel string `json:"channel"`
	At      int64  `json:"at"`
}

// Heard is a message of the owner: it is answered once. From this record on it is
// the bot's to answer, whatever becomes of the post.
type Heard struct {
	Post    string `json:"post"`
	Root    string `json:"root"` // first post of its thread, which may be itself
	Channel string `json:"channel"`
	At      int64  `json:"at"` // the server's clock
	// Key goes into the props of the post that will hold the answer. Nobody can
	// guess it, so that this post is found again if its fate is unknown.
	Key  string `json:"key"`
	Text string `json:"text,omitzero"` // for the agent, or the command
	// Command is set if the text is not for the agent; then gatewayd answers.
	Command string `json:"command,omitzero"`
	Files   bool   `json:"files,omitzero"` // it had some, which are not read
}

// A Part is one post of an answer. One with neither text nor file is a post that the
// server lets nobody change: it stays as it is, and others follow it.
type Part struct {
	Key  string `json:"key"`
	Text string `json:"text"`
	File string `json:"file,omitzero"` // content of a file to go with it
	Top  bool   `json:"top,omitzero"`  // not in the thread, but a thread of its own
}

// Stays reports whether nothing is to be done for the part.
func (p Part) Stays() bool { return p.Text == "" && p.File == "" }

// Reply is the answer to a message, whole. The first part has the message's key.
// A second Reply replaces the first, as far as it was not posted.
type Reply struct {
	Post  string `json:"post"`
	Parts []Part `json:"parts"`
}

// Placed says that the post with a key is on the server. Final: with its last
// text; the first part of an answer takes the place of the text that said to wait.
type Placed struct {
	Post  string `json:"post"` // the message
	Key   string `json:"key"`
	ID    string `json:"id"` // the post that was made
	Final bool   `json:"final,omitzero"`
}

// Done ends a message. After it nothing is kept but that it was there.
type Done struct {
	Post string `json:"post"`
	// Channel and At are those of the message, where its own record is gone.
	Channel string `json:"channel,omitzero"`
	At      int64  `json:"at,omitzero"`
}

func blank(kind string) (Record, bool) {
	switch kind {
	case "first":
		return new(First), true
	case "mark":
		return new(Mark), true
	case "heard":
		return new(Heard), true
	case "reply":
		return new(Reply), true
	case "placed":
		return new(Placed), true
	case "done":
		return new(Done), true
	default:
		return nil, false
	}
}

func (*First) kind() string  { return "first" }
func (*Mark) kind() string   { return "mark" }
func (*Heard) kind() string  { return "heard" }
func (*Reply) kind() string  { return "reply" }
func (*Placed) kind() string { return "placed" }
func (*Done) kind() string   { return "done" }

var errTime = errors.New("queue: a time before 1970")

func ids(at int64, all ...string) error {
	var errs []error
	for _, id := range all {
		errs = append(errs, proto.CheckToken(id))
	}
	if at < 0 {
		errs = append(errs, errTime)
	}
	return errors.Join(errs...)
}

// Validate checks the time.
func (r *First) Validate() error { return ids(r.At) }

// Validate checks id and time.
func (r *Mark) Validate() error { return ids(r.At, r.Channel) }

// Validate checks ids and time.
func (r *Heard) Validate() error { return ids(r.At, r.Post, r.Root, r.Channel, r.Key) }

// Validate checks ids and that there is a part.
func (r *Reply) Validate() error {
	errs := []error{ids(0, r.Post)}
	for _, p := range r.Parts {
		errs = append(errs, ids(0, p.Key))
	}
	if len(r.Parts) == 0 {
		errs = append(errs, errors.New("queue: an answer without a part"))
	}
	return errors.Join(errs...)
}

// Validate checks the ids.
func (r *Placed) Validate() error { return ids(0, r.Post, r.Key, r.ID) }

// Validate checks ids and time.
func (r *Done) Validate() error {
	if r.Channel != "" {
		return ids(r.At, r.Post, r.Channel)
	}
	return ids(r.At, r.Post)
}

// head stands in front of every record.
type head struct {
	V    int    `json:"v"`
	Kind string `json:"kind"`
}

func (h *head) Validate() error { return nil }

// encode gives a line without its checksum.
func encode(r Record) ([]byte, error) {
	body, err := strict.Marshal(r)
	if err != nil {
		return nil, err
	}
	h, err := strict.Marshal(&head{Version, r.kind()})
	if err != nil {
		return nil, err
	}
	return append(append(h[:len(h)-1], ','), body[1:]...), nil
}

// decode reads what encode wrote, and nothing else.
func decode(line []byte) (Record, error) {
	var h struct {
		head
		Rest jsontext.Value `json:",inline"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	r, ok := blank(h.Kind)
	switch {
	case h.V != Version:
		return nil, fmt.Errorf("queue: a record of version %d, and this program knows %d", h.V, Version)
	case !ok:
		return nil, errors.New("queue: a record of a kind that this program does not know")
	}
	start, err := strict.Marshal(&h.head)
	if err != nil || len(line) <= len(start) || string(line[:len(start)-1]) != string(start[:len(start)-1]) {
		return nil, strict.ErrForm
	}
	body := append([]byte{'{'}, line[len(start):]...)
	if err := strict.Unmarshal(body, r); err != nil {
		return nil, err
	}
	return r, nil
}
