// Package proto holds the messages and records that Boxmaker's programs share:
// their types, identifiers, closed enums and checks. It does no I/O.
//
// Wire messages are tagged unions: {"type":"submit",...}, the tag first, in the
// canonical form of package strict. Records (see record.go) are tagged by "kind".
// Golden files in testdata are the specification; docs/formats describes them.
//
// Compatibility: a field may be added if its zero value means what its absence
// meant before (all optional fields are omitzero). Nothing is renamed, retyped or
// reordered; a change that needs it gets a new tag or a new record version.
package proto

import (
	"bytes"
	"errors"
	"fmt"

	"boxmaker/internal/strict"
)

// A Message is one variant of a tagged union.
type Message interface {
	strict.Value
	// Tag is the value of the "type" member.
	Tag() string
}

// ErrTag reports a document without a known tag in first place.
var ErrTag = errors.New("proto: unknown message type")

// A Union is the closed set of messages that one side of a socket may send.
type Union struct {
	name string
	make map[string]func() Message
}

func union(name string, makers ...func() Message) Union {
	u := Union{name: name, make: make(map[string]func() Message, len(makers))}
	for _, f := range makers {
		u.make[f().Tag()] = f
	}
	return u
}

// Tags lists the union's tags, unordered.
func (u Union) Tags() []string {
	var tags []string
	for t := range u.make {
		tags = append(tags, t)
	}
	return tags
}

// New returns a pointer to an empty message with that tag, or nil.
func (u Union) New(tag string) Message {
	if f := u.make[tag]; f != nil {
		return f()
	}
	return nil
}

// Decode decodes one message of the union. The result is a pointer.
func (u Union) Decode(b []byte) (Message, error) {
	tag, body, err := cutTag(b, "type")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.name, err)
	}
	m := u.New(tag)
	if m == nil {
		return nil, fmt.Errorf("%s: %w %q", u.name, ErrTag, clip(tag, 40))
	}
	if err := strict.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", u.name, tag, err)
	}
	return m, nil
}

// Encode encodes one message with its tag.
func Encode(m Message) ([]byte, error) {
	body, err := strict.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Tag(), err)
	}
	return addTag("type", m.Tag(), body), nil
}

// addTag puts {"key":"tag" in front of the members of the object body.
func addTag(key, tag string, body []byte) []byte {
	b := make([]byte, 0, len(body)+len(key)+len(tag)+8)
	b = append(b, `{"`...)
	b = append(b, key...)
	b = append(b, `":"`...)
	b = append(b, tag...)
	b = append(b, '"')
	if len(body) > 2 {
		b = append(b, ',')
	}
	return append(b, body[1:]...)
}

// cutTag undoes addTag. Only the canonical place and form of the tag is taken.
func cutTag(b []byte, key string) (tag string, body []byte, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"`+key+`":"`))
	if !ok {
		return "", nil, fmt.Errorf("%w: no %q in first place", ErrTag, key)
	}
	i := bytes.IndexByte(rest, '"')
	if i < 0 || i+1 >= len(rest) {
		return "", nil, fmt.Errorf("%w: cut short", ErrTag)
	}
	tag, rest = string(rest[:i]), rest[i+1:]
	switch {
	case rest[0] == '}' && len(rest) == 1:
		return tag, []byte("{}"), nil
	case rest[0] == ',' && len(rest) > 2:
		body = make([]byte, len(rest))
		copy(body, rest)
		body[0] = '{'
		return tag, body, nil
	default:
		return "", nil, fmt.Errorf("%w: malformed after the tag", ErrTag)
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
