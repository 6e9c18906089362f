package tool

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A field is one argument and where it is kept.
type field struct {
	name     string
	required bool
	value    value
}

// A value is an argument's type, bound to a field of a struct.
type value interface {
	schemaType() string
	read(*jsontext.Decoder) error
	isDefault() bool
	append([]byte) []byte // JSON
	show() string         // for people
	texts() []string      // for constraints
}

// A valueError ends a sentence that begins with the argument's name.
type valueError struct{ text string }

func (e *valueError) Error() string { return e.text }

func bad(format string, a ...any) error { return &valueError{fmt.Sprintf(format, a...)} }

// token reads the next token if it has the wanted kind. The text of the token
// that was found instead is not repeated: it may be anything.
func token(d *jsontext.Decoder, kind jsontext.Kind, want string) (jsontext.Token, error) {
	switch found := d.PeekKind(); found {
	case kind:
		return d.ReadToken()
	case 'n', 't', 'f', '"', '0', '{', '[':
		word := map[jsontext.Kind]string{'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "a list"}[found]
		if found == 'n' {
			return jsontext.Token{}, bad("is null; it must be %s, or be left out if it is optional", want)
		}
		return jsontext.Token{}, bad("is %s; it must be %s", word, want)
	default:
		return d.ReadToken() // which gives the error
	}
}

// text is a string. mend checks it and gives its one form.
type text struct {
	p    *string
	def  string
	want string
	mend func(string) (string, error)
}

func (v text) schemaType() string { return "string" }
func (v text) isDefault() bool    { return *v.p == v.def }
func (v text) show() string       { return *v.p }

func (v text) read(d *jsontext.Decoder) error {
	tok, err := token(d, '"', v.want)
	if err != nil {
		return err
	}
	s := tok.String()
	if v.mend != nil {
		if s, err = v.mend(s); err != nil {
			return err
		}
	}
	*v.p = s
	return nil
}

func (v text) append(b []byte) []byte { return appendString(b, *v.p) }

func (v text) texts() []string {
	if *v.p == "" {
		return nil
	}
	return []string{*v.p}
}

func appendString(b []byte, s string) []byte {
	b, err := jsontext.AppendQuote(b, s)
	if err != nil {
		panic("tool: a decoded string is not UTF-8") // the decoder lets none pass
	}
	return b
}

// number is a whole number; 0 stands for the default, since small models send
// it for "from the start" and "no limit".
type number struct {
	p        *int64
	def, max int64
}

func (v number) schemaType() string     { return "integer" }
func (v number) isDefault() bool        { return *v.p == v.def }
func (v number) show() string           { return strconv.FormatInt(*v.p, 10) }
func (v number) texts() []string        { return []string{v.show()} }
func (v number) append(b []byte) []byte { return strconv.AppendInt(b, *v.p, 10) }

func (v number) read(d *jsontext.Decoder) error {
	want := fmt.Sprintf("a whole number up to %d", v.max)
	tok, err := token(d, '0', want)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(tok.String(), 10, 64)
	if err != nil || n < 0 || n > v.max {
		return bad("must be %s, without a sign, a point or an exponent", want)
	}
	if n == 0 {
		n = v.def
	}
	*v.p = n
	return nil
}

// flag is true or false, and false if absent.
type flag struct{ p *bool }

func (v flag) schemaType() string     { return "boolean" }
func (v flag) isDefault() bool        { return !*v.p }
func (v flag) show() string           { return strconv.FormatBool(*v.p) }
func (v flag) texts() []string        { return []string{v.show()} }
func (v flag) append(b []byte) []byte { return strconv.AppendBool(b, *v.p) }

func (v flag) read(d *jsontext.Decoder) error {
	kind := d.PeekKind()
	if kind != 'f' {
		kind = 't'
	}
	tok, err := token(d, kind, "true or false")
	if err != nil {
		return err
	}
	*v.p = tok.Bool()
	return nil
}

// list is strings, at least one.
type list struct {
	p    *[]string
	max  int
	mend func(i int, s string) error
}

func (v list) schemaType() string { return "array" }
func (v list) isDefault() bool    { return len(*v.p) == 0 }
func (v list) show() string       { return string(v.append(nil)) }
func (v list) texts() []string    { return slices.Clone(*v.p) }

func (v list) read(d *jsontext.Decoder) error {
	if _, err := token(d, '[', `a list of strings, for example ["ls","-l"]`); err != nil {
		return err
	}
	out := []string{}
	for d.PeekKind() != ']' {
		tok, err := token(d, '"', "a list of strings only")
		if err != nil {
			return err
		}
		if len(out) == v.max {
			return bad("has more than %d elements", v.max)
		}
		if err := v.mend(len(out), tok.String()); err != nil {
			return err
		}
		out = append(out, tok.String())
	}
	*v.p = out
	_, err := d.ReadToken()
	return err
}

func (v list) append(b []byte) []byte {
	b = append(b, '[')
	for i, s := range *v.p {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// pairs is an object of strings. mend gives the one form of a name, so that a
// name cannot stand twice in two spellings.
type pairs struct {
	p    *map[string]string
	max  int
	mend func(name, value string) (string, string, error)
}

func (v pairs) schemaType() string { return "object" }
func (v pairs) isDefault() bool    { return len(*v.p) == 0 }
func (v pairs) show() string       { return string(v.append(nil)) }

func (v pairs) read(d *jsontext.Decoder) error {
	if _, err := token(d, '{', `an object of strings, for example {"Accept":"text/plain"}`); err != nil {
		return err
	}
	out := map[string]string{}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := key.String() // before the next read: a token lives no longer
		tok, err := token(d, '"', "an object whose values are strings")
		if err != nil {
			return err
		}
		name, val, err := v.mend(name, tok.String())
		if err != nil {
			return err
		}
		if _, twice := out[name]; twice {
			return bad("has the name %s twice", name)
		}
		if len(out) == v.max {
			return bad("has more than %d members", v.max)
		}
		out[name] = val
	}
	if len(out) > 0 {
		*v.p = out
	}
	_, err := d.ReadToken()
	return err
}

func (v pairs) append(b []byte) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(*v.p)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = appendString(b, (*v.p)[name])
	}
	return append(b, '}')
}

func (v pairs) texts() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(*v.p)) {
		out = append(out, name+": "+(*v.p)[name])
	}
	return out
}
