package proto

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"boxmaker/internal/strict"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MessageOf returns the raw message that a record adds to the prompt, or nil.
func MessageOf(r Record) jsontext.Value {
	switch r := r.(type) {
	case *User:
		return r.Message
	case *Assistant:
		return r.Message
	case *Tool:
		return r.Message
	default:
		return nil
	}
}

// rawMembers lists the members of a record that are kept byte for byte.
func rawMembers(r Record) []jsontext.Value {
	switch r := r.(type) {
	case *Baseline:
		return append([]jsontext.Value{r.Sampling, r.Tools, r.System}, r.Carry...)
	case *Queued:
		return []jsontext.Value{r.Message}
	default:
		if m := MessageOf(r); m != nil {
			return []jsontext.Value{m}
		}
		return nil
	}
}

// CheckRaw reports whether a JSON text can stand in a record and come back as
// the same bytes: one valid value, no white space between its tokens, every
// string in its shortest form (no \/, no \u00e9 for é), no key twice. Numbers
// stay as they are written.
func CheckRaw(v jsontext.Value) error {
	form, err := jsontext.AppendFormat(make([]byte, 0, len(v)), v)
	if err != nil {
		return fmt.Errorf("proto: raw JSON: %w", err)
	}
	if !bytes.Equal(form, v) {
		return fmt.Errorf("proto: raw JSON: %w", strict.ErrForm)
	}
	return nil
}

// EncodeRecord gives one log line, without the newline:
// {"v":1,"n":N,"time":"…","kind":"…",…}. It refuses a raw member that would not
// come back byte for byte (see [CheckRaw]): what is in the log is what is sent.
func EncodeRecord(h Header, r Record) ([]byte, error) {
	if err := checkHeader(h, r.Kind()); err != nil {
		return nil, err
	}
	body, err := strict.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.Kind(), err)
	}
	for _, raw := range rawMembers(r) {
		if err := CheckRaw(raw); err != nil {
			return nil, fmt.Errorf("record %s: %w", r.Kind(), err)
		}
	}
	b := appendHeader(make([]byte, 0, len(body)+100), RecordVersion, h)
	return appendTagged(b, "kind", r.Kind(), body), nil
}

func checkHeader(h Header, kind string) error {
	if y := h.Time.UTC().Year(); h.N < 0 || y < 0 || y > 9999 {
		return fmt.Errorf("%w: %s: number %d, year %d", ErrRecord, kind, h.N, y)
	}
	return nil
}

// appendHeader appends {"v":1,"n":N,"time":"…", with what follows to come.
func appendHeader(b []byte, version int, h Header) []byte {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(version), 10)
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, h.N, 10)
	b = append(b, `,"time":"`...)
	b = h.Time.UTC().AppendFormat(b, timeForm)
	return append(b, `",`...)
}

// DecodeRecord reads one log line. The result is a pointer and shares no memory
// with line.
func DecodeRecord(line []byte) (Header, Record, error) {
	h, r, rest, err := newRecord(line)
	if err != nil {
		return h, nil, err
	}
	if err := strict.Unmarshal(object(rest), r); err != nil {
		return h, nil, fmt.Errorf("%w: %s: %w", ErrRecord, r.Kind(), err)
	}
	return h, r, nil
}

// DecodeTrustedRecord is [DecodeRecord] for lines whose checksum was good: it
// gives the same record, in a fraction of the time, because it does not parse
// what stands inside a message and does not encode the record again.
//
// Precondition: package appendlog has just checked the line's crc, so that the
// bytes are those that EncodeRecord gave. Of any other line the result may be
// nonsense, a message that is no JSON included.
func DecodeTrustedRecord(line []byte) (Header, Record, error) {
	h, r, rest, err := newRecord(line)
	if err != nil {
		return h, nil, err
	}
	if err := decodeTrusted(rest, r); err != nil {
		return h, nil, fmt.Errorf("%w: %s: %w", ErrRecord, r.Kind(), err)
	}
	return h, r, nil
}

func decodeTrusted(rest []byte, r Record) error {
	body, message := rest, (*jsontext.Value)(nil)
	switch r := r.(type) {
	case *User:
		message = &r.Message
	case *Queued:
		message = &r.Message
	case *Assistant:
		message = &r.Message
	case *Tool:
		message = &r.Message
	}
	if message != nil {
		// It is the last member, and none before it can hold this text: they
		// are identifiers, enums and numbers.
		const key = `,"message":`
		i := bytes.Index(rest, []byte(key))
		if i < 0 || !bytes.HasSuffix(rest, []byte("}}")) {
			return errors.New("no message at its end")
		}
		*message = bytes.Clone(rest[i+len(key) : len(rest)-1])
		body = append(rest[:i:i], '}')
	}
	if len(body) > 1 {
		if err := json.Unmarshal(object(body), r, json.RejectUnknownMembers(true)); err != nil {
			return err
		}
	}
	return r.Validate()
}

// RecordKind reads only the header and kind of a log line.
func RecordKind(line []byte) (Header, string, error) {
	h, kind, _, err := cutHeader(line)
	return h, kind, err
}

// newRecord reads header and kind, and gives an empty record of that kind and
// the bytes that are still to be decoded (see cutTag).
func newRecord(line []byte) (Header, Record, []byte, error) {
	h, kind, rest, err := cutHeader(line)
	if err != nil {
		return h, nil, nil, err
	}
	f := records[kind]
	if f == nil {
		return h, nil, nil, fmt.Errorf("%w: unknown kind %q", ErrRecord, clip(kind, 40))
	}
	return h, f(), rest, nil
}

func cutHeader(line []byte) (h Header, kind string, rest []byte, err error) {
	h, rest, err = cutNumber(line, RecordVersion)
	if err != nil {
		return h, "", nil, err
	}
	kind, rest, err = cutTag(rest, "kind")
	if err != nil {
		return h, "", nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return h, kind, rest, nil
}

// cutNumber undoes appendHeader.
func cutNumber(line []byte, known int) (h Header, rest []byte, err error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"v":`))
	version, rest, ok2 := bytes.Cut(rest, []byte(","))
	v, err := strconv.ParseUint(string(version), 10, 31)
	if !ok || !ok2 || err != nil {
		return h, nil, fmt.Errorf("%w: no version", ErrRecord)
	}
	if v != uint64(known) { // whatever else such a line holds
		return h, nil, fmt.Errorf("%w %d, this program knows %d", ErrVersion, v, known)
	}
	if len(version) != len(strconv.Itoa(known)) {
		return h, nil, fmt.Errorf("%w: malformed version", ErrRecord)
	}
	rest, ok = bytes.CutPrefix(rest, []byte(`"n":`))
	n, rest, ok2 := bytes.Cut(rest, []byte(`,"time":"`))
	if !ok || !ok2 || len(rest) < len(timeForm)+2 || rest[len(timeForm)] != '"' || rest[len(timeForm)+1] != ',' {
		return h, nil, fmt.Errorf("%w: no number or time", ErrRecord)
	}
	h.N, err = strconv.ParseInt(string(n), 10, 64)
	if err != nil || h.N < 0 || strconv.FormatInt(h.N, 10) != string(n) {
		return h, nil, fmt.Errorf("%w: bad number", ErrRecord)
	}
	if h.Time, err = parseTime(rest[:len(timeForm)]); err != nil {
		return h, nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return h, rest[len(timeForm)+2:], nil
}
