package serve

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// brief gives a schema as a model needs it to make a call: without examples,
// bounds, and what else only the check of the arguments uses. A small model
// reads the whole of it on each search. A schema that can't be read is given as
// it is.
func brief(schema []byte) string {
	out, ok := briefly(jsontext.NewDecoder(strings.NewReader(string(schema))), nil, true)
	if !ok {
		return string(schema)
	}
	return string(out)
}

// briefly copies the next value of d to out; schema says that it is one, so
// that its members are keywords, and not names of the owner's.
func briefly(d *jsontext.Decoder, out []byte, schema bool) ([]byte, bool) {
	if d.PeekKind() != '{' {
		v, err := d.ReadValue()
		return append(out, v...), err == nil
	}
	if _, err := d.ReadToken(); err != nil {
		return out, false
	}
	out = append(out, '{')
	for first := true; d.PeekKind() != '}'; {
		key, err := d.ReadToken()
		if err != nil {
			return out, false
		}
		name := key.String()
		if schema && noise(name) {
			if d.SkipValue() != nil {
				return out, false
			}
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		if out, err = jsontext.AppendQuote(out, name); err != nil {
			return out, false
		}
		ok := false
		if out, ok = briefly(d, append(out, ':'), !schema || name != "properties"); !ok {
			return out, false
		}
	}
	_, err := d.ReadToken()
	return append(out, '}'), err == nil
}

// noise reports whether a keyword of a schema helps nobody to make a call.
func noise(keyword string) bool {
	switch keyword {
	case "examples", "additionalProperties", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "maxProperties":
		return true
	default:
		return false
	}
}
