package logs

import (
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"

	"github.com/go-json-experiment/json/jsontext"
)

// An Entry is one line of a log.
type Entry struct {
	Role  string
	Time  time.Time // zero if the line has none
	Level string    // DEBUG, INFO, WARN, ERROR; empty if the line has none
	Msg   string    // as it stands there; not safe for a terminal
	Attrs []Attr    // in their order

	plain bool // a text that is no record: Msg is all there is
}

// An Attr is one attribute of a record.
type Attr struct {
	Name  string
	Value jsontext.Value
}

// Text is the value as text: a string without its quotes, else JSON. It is not
// safe for a terminal.
func (a Attr) Text() string {
	if a.Value.Kind() == '"' {
		if b, err := jsontext.AppendUnquote(nil, a.Value); err == nil {
			return string(b)
		}
	}
	return string(a.Value)
}

// Parse reads a line, without its end: a record of slog, or a plain text that
// is then the message. It never fails.
func Parse(role string, line []byte) Entry {
	e := Entry{Role: role}
	if len(line) == 0 || line[0] != '{' || !e.members(line) {
		return Entry{Role: role, Msg: string(line), plain: true}
	}
	return e
}

// members reads the object. It reports whether the line is one, whole.
func (e *Entry) members(line []byte) bool {
	v := jsontext.Value(line)
	if !v.IsValid() {
		return false
	}
	d := jsontext.NewDecoder(strings.NewReader(string(line)))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return false
		}
		name := key.String() // the token is void after the next read
		value, err := d.ReadValue()
		if err != nil {
			return false
		}
		e.member(Attr{name, value.Clone()})
	}
	return true
}

func (e *Entry) member(a Attr) {
	switch a.Name {
	case "time":
		if t, err := time.Parse(time.RFC3339Nano, a.Text()); err == nil {
			e.Time = t
			return
		}
	case "level":
		e.Level = a.Text()
		return
	case "msg":
		e.Msg = a.Text()
		return
	case "daemon", "role":
		if a.Text() == e.Role {
			return
		}
	case "text": // what Writer.record made of a plain line
		if e.Msg == "" && e.Level == "" {
			e.Msg, e.plain = a.Text(), true
			return
		}
	}
	e.Attrs = append(e.Attrs, a)
}

// Attr gives the text of an attribute, empty if there is none.
func (e Entry) Attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name == name {
			return a.Text()
		}
	}
	return ""
}

// Text is message and attributes in one line that is safe for a terminal.
func (e Entry) Text() string {
	return strings.TrimSpace(term.Line(e.Msg) + " " + e.Rest())
}

// Rest is the attributes of [Entry.Text].
func (e Entry) Rest() string {
	var b strings.Builder
	for i, a := range e.Attrs {
		if i > 0 {
			b.WriteByte(' ')
		}
		text := a.Text()
		if a.Value.Kind() == '"' && strings.ContainsAny(text, " \t\"=") {
			text = `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
		}
		b.WriteString(a.Name + "=" + text)
	}
	return term.Line(b.String())
}

// Human is the line of `bxctl logs`, without its end: time in the zone, level,
// role, message, attributes.
func (e Entry) Human(sc term.Screen, zone *time.Location) string {
	level := e.Level
	if level == "" {
		level = "-"
	}
	msg := term.Line(e.Msg)
	paint := func(s string) string { return s }
	switch e.Level {
	case "WARN":
		paint = sc.Warn
	case "ERROR":
		paint = sc.Bad
	case "DEBUG":
		paint = sc.Dim
	}
	at := strings.Repeat(" ", len("2006-01-02 15:04:05.000"))
	if !e.Time.IsZero() {
		at = e.Time.In(zone).Format("2006-01-02 15:04:05.000")
	}
	line := sc.Dim(at) + " " + paint(pad(term.Line(level), 5)) + " " + pad(term.Line(e.Role), 10) + " " + paint(msg)
	if rest := e.Rest(); rest != "" {
		line += " " + sc.Dim(rest)
	}
	return line
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-term.Columns(s))) }

// JSON is the entry as one line of JSON, without its end: role, time, level,
// msg and the attributes. It is safe for a terminal.
func (e Entry) JSON() []byte {
	b := []byte(`{"role":`)
	str := func(s string) {
		q, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			q, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
		}
		b = append(b, q...)
	}
	str(e.Role)
	if !e.Time.IsZero() {
		b = append(b, `,"time":"`...)
		b = e.Time.AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if e.Level != "" {
		b = append(b, `,"level":`...)
		str(e.Level)
	}
	b = append(b, `,"msg":`...)
	str(e.Msg)
	for _, a := range e.Attrs {
		b = append(b, ',')
		if a.Name == "role" || a.Name == "time" || a.Name == "level" || a.Name == "msg" {
			a.Name = "attr_" + a.Name // a name twice would be no JSON of ours
		}
		str(a.Name)
		b = append(b, ':')
		b = append(b, a.Value...)
	}
	return term.JSON(append(b, '}'))
}
