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
	"slices"

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
	inner, ok := bytes.CutPrefix(b, []byte("{"))
	if !ok {
		return nil, fmt.Errorf("%s: %w: not an object", u.name, ErrTag)
	}
	tag, rest, err := cutTag(inner, "type")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.name, err)
	}
	m := u.New(tag)
	if m == nil {
		return nil, fmt.Errorf("%s: %w %q", u.name, ErrTag, clip(tag, 40))
	}
	if err := strict.Unmarshal(object(rest), m); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", u.name, tag, err)
	}
	return m, nil
}

// Encode encodes one message with its tag.
func Encode(m Message) ([]byte, error) { return Append(nil, m) }

// Append appends what [Encode] gives to dst, which is left as it was on an error.
func Append(dst []byte, m Message) ([]byte, error) {
	body, err := strict.Marshal(m)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", m.Tag(), err)
	}
	return appendTagged(append(dst, '{'), "type", m.Tag(), body), nil
}

// appendTagged appends "key":"tag" and the members of the object body, its
// closing brace included.
func appendTagged(dst []byte, key, tag string, body []byte) []byte {
	dst = slices.Grow(dst, len(key)+len(tag)+len(body)+8)
	dst = append(dst, '"')
	dst = append(dst, key...)
	dst = append(dst, `":"`...)
	dst = append(dst, tag...)
	dst = append(dst, '"')
	if len(body) > 2 {
		dst = append(dst, ',')
	}
	return append(dst, body[1:]...)
}

// cutTag undoes appendTagged. Only the canonical place and form of the tag is
// taken. rest is what follows it: "}" alone, or "," and more.
func cutTag(b []byte, key string) (tag string, rest []byte, err error) {
	value, ok := bytes.CutPrefix(b, []byte(`"`+key+`":"`))
	if !ok {
		return "", nil, fmt.Errorf("%w: no %q in its place", ErrTag, key)
	}
	i := bytes.IndexByte(value, '"')
	if i < 0 {
		return "", nil, fmt.Errorf("%w: cut short", ErrTag)
	}
	tag, rest = string(value[:i]), value[i+1:]
	if string(rest) != "}" && (len(rest) < 3 || rest[0] != ',') {
		return "", nil, fmt.Errorf("%w: malformed after the tag", ErrTag)
	}
	return tag, rest, nil
}

// object makes an object of what cutTag left.
func object(rest []byte) []byte {
	if len(rest) == 1 {
		return []byte("{}")
	}
	b := bytes.Clone(rest)
	b[0] = '{'
	return b
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
