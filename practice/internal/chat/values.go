package chat

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Members reads a JSON object, the last of doubled members winning; a document
// of another kind has no members. The error is an [*Error] in the words of the
// real server's JSON library, as far as they can be had.
func Members(body []byte) (map[string]jsontext.Value, error) {
	v, err := read(body)
	if err != nil {
		return nil, err
	}
	m := make(map[string]jsontext.Value)
	if v.Kind() == '{' {
		if err := json.Unmarshal(v, &m, jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, invalid("%v", err)
		}
	}
	return m, nil
}

func read(body []byte) (jsontext.Value, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, invalid("[json.exception.parse_error.101] parse error at line 1, column 1: attempting to parse an empty input; check that your input string or stream contains the expected JSON")
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	v, err := d.ReadValue()
	if err == nil {
		v = v.Clone()
		if _, err = d.ReadToken(); err == io.EOF {
			return v, nil
		}
		if err == nil {
			err = errors.New("unexpected value; expected end of input")
		}
	}
	at := min(int64(len(body)), d.InputOffset())
	if s := (*jsontext.SyntacticError)(nil); errors.As(err, &s) {
		at = min(int64(len(body)), s.ByteOffset)
		err = s.Err
	}
	line := 1 + bytes.Count(body[:at], []byte("\n"))
	column := int(at) - bytes.LastIndexByte(body[:at], '\n')
	return nil, invalid("[json.exception.parse_error.101] parse error at line %d, column %d: syntax error while parsing value - %v", line, column, err)
}

func kindName(v jsontext.Value) string {
	switch v.Kind() {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	default:
		return "null"
	}
}

// TypeError is the answer to a value of the wrong kind outside a chat body.
func TypeError(want string, v jsontext.Value) *Error {
	return invalid("[json.exception.type_error.302] type must be %s, but is %s", want, kindName(v))
}

func typeError(name, want string, v jsontext.Value) *Error {
	return invalid("Field '%s': [json.exception.type_error.302] type must be %s, but is %s", name, want, kindName(v))
}

func boolean(m map[string]jsontext.Value, name string, to *bool) error {
	v, ok := m[name]
	if !ok || v.Kind() == 'n' {
		return nil
	}
	if v.Kind() != 't' && v.Kind() != 'f' {
		return typeError(name, "boolean", v)
	}
	*to = v.Kind() == 't'
	return nil
}

// number reads an integer as the real server's library does: fractions are cut
// off, and true is 1.
func number(m map[string]jsontext.Value, name string, to *int) error {
	v, ok := m[name]
	if !ok || v.Kind() == 'n' {
		return nil
	}
	var f float64
	switch {
	case v.Kind() == 't':
		f = 1
	case v.Kind() == 'f':
	case v.Kind() != '0' || json.Unmarshal(v, &f) != nil:
		return typeError(name, "number", v)
	}
	n := math.MinInt32 // what a number that is too large becomes there
	if f >= math.MinInt32 && f <= math.MaxInt32 {
		n = int(f)
	}
	if n < -1 {
		return invalid("Field '%s': Value must be between -1 <= value <= 2147483647, but got %d", name, n)
	}
	*to = n
	return nil
}

// budget is a number whose range alone is checked; of another type it is
// ignored.
func budget(m map[string]jsontext.Value, name string, to *int) error {
	if m[name].Kind() != '0' {
		return nil
	}
	return number(m, name, to)
}

func str(m map[string]jsontext.Value, name string, to *string) error {
	v, ok := m[name]
	if !ok || v.Kind() == 'n' {
		return nil
	}
	if v.Kind() != '"' {
		return typeError(name, "string", v)
	}
	*to = text(v)
	return nil
}
