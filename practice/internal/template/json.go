package template

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// writeJSON is the template's tojson filter: members in the order in which they
// came, ", " and ": " between them, text outside ASCII as it is.
func writeJSON(b *strings.Builder, v jsontext.Value) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	writeNext(b, d)
}

// writeNext copies the next value. Depth is bounded by the decoder.
func writeNext(b *strings.Builder, d *jsontext.Decoder) {
	tok, err := d.ReadToken()
	if err != nil {
		return // the request decoder has checked the syntax
	}
	switch tok.Kind() {
	case '{':
		writeContainer(b, d, "{", "}", func() {
			if name, err := d.ReadToken(); err == nil {
				writeToken(b, name)
			}
			b.WriteString(": ")
			writeNext(b, d)
		})
	case '[':
		writeContainer(b, d, "[", "]", func() { writeNext(b, d) })
	default:
		writeToken(b, tok)
	}
}

func writeContainer(b *strings.Builder, d *jsontext.Decoder, open, end string, element func()) {
	b.WriteString(open)
	for i := 0; d.PeekKind() != jsontext.Kind(end[0]) && d.PeekKind() != 0; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		element()
	}
	_, _ = d.ReadToken()
	b.WriteString(end)
}

func writeToken(b *strings.Builder, tok jsontext.Token) {
	if tok.Kind() != '"' {
		b.WriteString(tok.String())
		return
	}
	quoted, err := jsontext.AppendQuote(nil, tok.String())
	if err == nil {
		b.Write(quoted)
	}
}

var errNoObject = errors.New("template: not a JSON object")

// eachMember calls f for every member of an object, in order.
func eachMember(v jsontext.Value, f func(name string, value jsontext.Value)) error {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true))
	open, err := d.ReadToken()
	if err != nil {
		return err
	}
	if open.Kind() != '{' {
		return errNoObject
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		f(key, value.Clone())
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errNoObject // something follows the object
	}
	return nil
}
