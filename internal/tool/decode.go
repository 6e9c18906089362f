package tool

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxArgs is the longest text of arguments, in bytes.
const MaxArgs = 1 << 20

// An Error is one short sentence for the model, which starts with its code.
type Error struct {
	Code proto.Code
	Text string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

func invalid(format string, a ...any) error {
	return &Error{Code: proto.CodeInvalidArguments, Text: fmt.Sprintf(format, a...)}
}

// Decode reads a model's arguments: one JSON object with exactly the members of
// the schema. Nothing is guessed: a member that is unknown, doubled, in another
// case, null or of another type is an error, which is always an *[Error].
func (t *Tool) Decode(text string) (*Call, error) {
	if len(text) > MaxArgs {
		return nil, invalid("the arguments are %d bytes, and the limit is %d; send less at once.", len(text), MaxArgs)
	}
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	a := t.fresh()
	fields := a.fields()
	if err := t.read(text, fields); err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	return &Call{Tool: t, Args: a, Canonical: canonical(fields), args: a}, nil
}

// read fills the fields. Every member is looked at before its value is parsed,
// and no type here nests, so that depth costs nothing.
func (t *Tool) read(text string, fields []field) error {
	d := jsontext.NewDecoder(strings.NewReader(text))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return invalid("the arguments of %s must be one JSON object, for example %s.", t.Name, t.example())
	}
	var seen []string
	for d.PeekKind() != '}' {
		tok, err := d.ReadToken()
		if err != nil {
			return t.syntax(err, fields)
		}
		name := tok.String()
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return t.unknown(name, fields)
		}
		seen = append(seen, name)
		if err := fields[i].value.read(d); err != nil {
			if e := (*valueError)(nil); errors.As(err, &e) {
				return invalid("`%s` %s.", name, e.text)
			}
			return t.syntax(err, fields)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return t.syntax(err, fields)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalid("there is text after the JSON object; send one object, for example %s.", t.example())
	}
	for _, f := range fields {
		if f.required && !slices.Contains(seen, f.name) {
			return invalid("%s needs `%s`, for example %s.", t.Name, f.name, t.example())
		}
	}
	return nil
}

// syntax says what is wrong with the JSON itself.
func (t *Tool) syntax(err error, fields []field) error {
	var at *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid("an argument of %s stands twice; send each once: %s.", t.Name, names(fields))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the arguments of %s are not valid JSON: the text is cut off; send an object such as %s.", t.Name, t.example())
	case errors.As(err, &at):
		return invalid("the arguments of %s are not valid JSON (at byte %d); send an object such as %s.", t.Name, at.ByteOffset, t.example())
	default:
		return invalid("the arguments of %s are not valid JSON; send an object such as %s.", t.Name, t.example())
	}
}

// unknown repeats the name only if nothing in it can be taken for anything else.
func (t *Tool) unknown(name string, fields []field) error {
	if !plainName(name) {
		return invalid("%s has no such argument; it takes %s.", t.Name, names(fields))
	}
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return invalid("%s has no argument `%s`; write it `%s`.", t.Name, name, f.name)
		}
	}
	return invalid("%s has no argument `%s`; it takes %s.", t.Name, name, names(fields))
}

func plainName(name string) bool {
	return name != "" && len(name) <= 40 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// names lists the arguments: `path` and `depth` (optional).
func names(fields []field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = "`" + f.name + "`"
		if !f.required {
			parts[i] += " (optional)"
		}
	}
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return parts[0]
}

// canonical writes the members in the schema's order, without defaults.
func canonical(fields []field) string {
	b := []byte{'{'}
	for _, f := range fields {
		if f.value.isDefault() && !f.required {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.name...), '"', ':')
		b = f.value.append(b)
	}
	return string(append(b, '}'))
}
