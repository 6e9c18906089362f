package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A document is what a walk over the file learns: on which line each key is.
type document struct {
	parser unstable.Parser
	root   reflect.Type
	table  []string
	lines  map[string]int  // dotted key to line
	lists  map[string]bool // dotted keys that a [[heading]] opened
	alien  [][]string      // keys that the program does not know, in file order
}

// walk checks every key's spelling and every value for secrets, before any
// value is decoded: go-toml matches keys without regard to case, so that
// "Idle" would otherwise count as "idle", and both may stand in one file.
func walk(data []byte, into any) (*document, *Error) {
	d := &document{root: reflect.TypeOf(into), lines: map[string]int{}, lists: map[string]bool{}}
	d.parser.Reset(data)
	for d.parser.NextExpression() {
		e := d.parser.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, line, err := d.path(nil, e)
			if err != nil {
				return d, err
			}
			d.table = path
			if e.Kind == unstable.ArrayTable {
				d.lists[strings.Join(path, ".")] = true
			}
			if err := d.note(path, line, len(path)); err != nil {
				return d, err
			}
		case unstable.KeyValue:
			if err := d.keyValue(d.table, e); err != nil {
				return d, err
			}
		default:
			// Comments: nothing to check beyond the raw text.
		}
	}
	if err := d.parser.Error(); err != nil {
		return d, syntaxError(data, err)
	}
	if len(d.alien) > 0 {
		return d, d.unknown()
	}
	return d, nil
}

// note keeps the line of a key, and checks its first n parts (those that name
// tables) and the key itself against the types of the program.
func (d *document) note(path []string, line, n int) *Error {
	for i := range path {
		at := path[:i+1]
		key := strings.Join(at, ".")
		if d.lines[key] == 0 {
			d.lines[key] = line
		}
		t := typeAt(d.root, at)
		if t == nil {
			if !slices.ContainsFunc(d.alien, func(a []string) bool { return slices.Equal(a, at) }) {
				d.alien = append(d.alien, slices.Clone(at))
			}
			return nil
		}
		// go-toml would take one [table] for a list of tables.
		if i < n && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && !d.lists[key] {
			return wrongType(line, at, t)
		}
	}
	return nil
}

// path reads the key of an expression that stands in the table base.
func (d *document) path(base []string, e *unstable.Node) (path []string, line int, err *Error) {
	path = append(path, base...)
	for k := e.Key(); k.Next(); {
		n := k.Node()
		line = d.parser.Shape(n.Raw).Start.Line
		if err := d.checkName(path, string(n.Data), line); err != nil {
			return nil, line, err
		}
		path = append(path, string(n.Data))
	}
	return path, line, nil
}

// checkName allows a-z, 0-9 and '_' only.
func (d *document) checkName(parent []string, name string, line int) *Error {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" {
		return nil
	}
	e := &Error{
		Line: line, Key: strings.Join(append(parent[:len(parent):len(parent)], name), "."), Runbook: "config-unknown-key",
		What: fmt.Sprintf("key %s: keys have only lower-case letters, digits and _", quote([]byte(name))),
		Do:   "did you mistype it?",
	}
	plain := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if known := nearest(plain, keysAt(d.root, parent)); known != "" {
		e.Do = fmt.Sprintf("did you mean %q?", known)
	}
	return e
}

func (d *document) keyValue(base []string, e *unstable.Node) *Error {
	path, line, err := d.path(base, e)
	if err != nil {
		return err
	}
	if err := d.note(path, line, len(path)-1); err != nil {
		return err
	}
	return d.value(path, line, e.Value(), typeAt(d.root, path))
}

// value looks for secrets in a value and in all that it contains. t is the type
// that the program expects there; nil if the key is unknown.
func (d *document) value(path []string, line int, v *unstable.Node, t reflect.Type) *Error {
	switch v.Kind {
	case unstable.Integer, unstable.Float:
		// go-toml would store 30 in a Duration as 30 ns, without asking it.
		if t != nil && textual(t) {
			return wrongType(line, path, t)
		}
	case unstable.String:
		if v.Raw.Length > 0 {
			line = d.parser.Shape(v.Raw).Start.Line
		}
		if what := secretLooking(path[len(path)-1], string(v.Data), isPublic(d.root, path)); what != "" {
			key := strings.Join(path, ".")
			return secretError(line, key, fmt.Sprintf("the value of %q looks like a secret (%s)", key, what))
		}
	case unstable.Array:
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			t = t.Elem()
		}
		for it := v.Children(); it.Next(); {
			if err := d.value(path, line, it.Node(), t); err != nil {
				return err
			}
		}
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			if err := d.keyValue(path, it.Node()); err != nil {
				return err
			}
		}
	default:
		// Dates and booleans.
	}
	return nil
}

// fill decodes the file into the struct.
func fill(data []byte, into any) *Error {
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(into)
	if err == nil {
		return nil
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		return badValue(bad, into)
	}
	// Unknown keys have been found by walk; here they can only be those of a
	// struct that it does not see through. Some map keys give bare errors.
	return &Error{What: "the file does not fit the program: " + bare(err.Error()), Do: "compare it with the file that bxctl init writes", Runbook: "config-bad-value", Err: err}
}

// unknown tells of the first key that the program does not know.
func (d *document) unknown() *Error {
	path := d.alien[0]
	parent, name, key := path[:len(path)-1], path[len(path)-1], strings.Join(path, ".")
	e := &Error{Line: d.lines[key], Key: key, Runbook: "config-unknown-key", What: fmt.Sprintf("unknown key %q", name)}
	if len(parent) > 0 {
		e.What += fmt.Sprintf(" in [%s]", strings.Join(parent, "."))
	}
	if n := len(d.alien) - 1; n > 0 {
		e.What += fmt.Sprintf(" (and %d more unknown)", n)
	}
	known := keysAt(d.root, parent)
	switch near, home := nearest(name, known), tableOf(d.root, name); {
	case near != "":
		e.Do = fmt.Sprintf("did you mean %q?", near)
	case home != "":
		e.Do = fmt.Sprintf("%q belongs under [%s]", name, home)
	case len(known) > 0:
		e.Do = "known here: " + strings.Join(known, ", ")
	default:
		e.Do = "remove it"
	}
	return e
}

// badValue turns go-toml's error into ours. The texts that it tells apart are
// pinned by tests, since the library gives no codes.
func badValue(bad *toml.DecodeError, into any) *Error {
	line, _ := bad.Position()
	path, text := []string(bad.Key()), strings.TrimPrefix(bad.Error(), "toml: ")
	key := strings.Join(path, ".")
	switch {
	case len(path) == 0:
		return &Error{Line: line, What: "this is not TOML: " + bare(text), Do: `a line is a [table], a comment, or key = value with texts in "quotes"`, Runbook: "config-not-toml"}
	case strings.HasPrefix(text, "key ") || strings.HasPrefix(text, "table "):
		return &Error{Line: line, Key: key, What: text, Do: "keep one of the two", Runbook: "config-duplicate-key"}
	case strings.HasPrefix(text, "integer value ") || strings.HasPrefix(text, "negative integer ") || strings.Contains(text, "too large to fit"):
		return &Error{Line: line, Key: key, What: fmt.Sprintf("%q: the number is out of range", key), Do: "write a number that can be meant", Runbook: "config-bad-value"}
	case strings.HasPrefix(text, "cannot "):
		return wrongType(line, path, typeAt(reflect.TypeOf(into), path))
	case strings.HasPrefix(text, "parsing time "): // a time as text, which is taken too
		return &Error{Line: line, Key: key, What: fmt.Sprintf("%q is no time with its zone", key), Do: "write it such as 2027-06-30T00:00:00Z or 2027-06-30T00:00:00+02:00, with or without quotes", Runbook: "config-bad-value"}
	default: // of an UnmarshalText
		return &Error{Line: line, Key: key, What: fmt.Sprintf("%q: %s", key, text), Runbook: "config-bad-value"}
	}
}

func wrongType(line int, path []string, t reflect.Type) *Error {
	key := strings.Join(path, ".")
	return &Error{Line: line, Key: key, What: fmt.Sprintf("%q has a value of the wrong type", key), Do: "it takes " + describe(t), Runbook: "config-wrong-type"}
}

func syntaxError(data []byte, err error) *Error {
	e := &Error{What: "this is not TOML", Do: `a line is a [table], a comment, or key = value with texts in "quotes"`, Runbook: "config-not-toml"}
	var p *unstable.ParserError
	if errors.As(err, &p) {
		e.What += ": " + bare(p.Message)
		// The highlight is a part of data, so its capacity tells where.
		e.Line = lineAt(data, min(max(cap(data)-cap(p.Highlight), 0), len(data)))
	}
	return e
}

// bare removes what a message of the library quotes from the file: a syntax
// error can stand inside a secret.
func bare(text string) string {
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, "…")
}

func textual(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
