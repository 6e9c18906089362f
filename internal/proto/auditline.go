package proto

import (
	"bytes"
	"fmt"

	"boxmaker/internal/strict"

	"github.com/go-json-experiment/json"
)

// NoHash is the "prev" of the first record of an audit log, and the hash of an
// empty log's head.
const NoHash = "0000000000000000000000000000000000000000000000000000000000000000"

// EncodeAudit gives one line of the audit log, without checksum and newline:
// {"v":1,"n":N,"time":"…","prev":"…","kind":"…",…}.
func EncodeAudit(h AuditHeader, r AuditRecord) ([]byte, error) {
	if err := checkHeader(Header{h.N, h.Time}, r.Kind()); err != nil {
		return nil, err
	}
	if err := CheckHash(h.Prev); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, r.Kind(), err)
	}
	body, err := strict.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("audit record %s: %w", r.Kind(), err)
	}
	b := appendHeader(make([]byte, 0, len(body)+180), AuditVersion, Header{h.N, h.Time})
	b = append(b, prevKey...)
	b = append(b, h.Prev...)
	b = append(b, `",`...)
	return appendTagged(b, "kind", r.Kind(), body), nil
}

const prevKey = `"prev":"`

// DecodeAudit reads one line of the audit log. The result is a pointer and
// shares no memory with line.
func DecodeAudit(line []byte) (AuditHeader, AuditRecord, error) {
	return decodeAudit(line, func(b []byte, r AuditRecord) error { return strict.Unmarshal(b, r) })
}

// DecodeTrustedAudit is [DecodeAudit] for lines whose checksum was good: it
// gives the same record, quicker, because it does not encode it again.
//
// Precondition: package appendlog has just checked the line's crc.
func DecodeTrustedAudit(line []byte) (AuditHeader, AuditRecord, error) {
	return decodeAudit(line, func(b []byte, r AuditRecord) error {
		if err := json.Unmarshal(b, r, json.RejectUnknownMembers(true)); err != nil {
			return err
		}
		return r.Validate()
	})
}

func decodeAudit(line []byte, decode func([]byte, AuditRecord) error) (AuditHeader, AuditRecord, error) {
	h, kind, rest, err := cutAudit(line)
	if err != nil {
		return h, nil, err
	}
	f := auditRecords[kind]
	if f == nil {
		return h, nil, fmt.Errorf("%w: unknown kind %q", ErrRecord, clip(kind, 40))
	}
	r := f()
	if err := decode(object(rest), r); err != nil {
		return h, nil, fmt.Errorf("%w: %s: %w", ErrRecord, kind, err)
	}
	return h, r, nil
}

// AuditKind reads only header and kind of a line of the audit log. A kind that
// this program does not know is an error.
func AuditKind(line []byte) (AuditHeader, string, error) {
	h, kind, _, err := cutAudit(line)
	if err == nil && auditRecords[kind] == nil {
		err = fmt.Errorf("%w: unknown kind %q", ErrRecord, clip(kind, 40))
	}
	return h, kind, err
}

// AuditKinds lists the kinds, unordered.
func AuditKinds() []string {
	var kinds []string
	for k := range auditRecords {
		kinds = append(kinds, k)
	}
	return kinds
}

func cutAudit(line []byte) (h AuditHeader, kind string, rest []byte, err error) {
	number, rest, err := cutNumber(line, AuditVersion)
	if err != nil {
		return h, "", nil, err
	}
	h.N, h.Time = number.N, number.Time
	rest, ok := bytes.CutPrefix(rest, []byte(prevKey))
	if !ok || len(rest) < 66 || string(rest[64:66]) != `",` {
		return h, "", nil, fmt.Errorf("%w: no prev in its place", ErrRecord)
	}
	h.Prev = string(rest[:64])
	if err := CheckHash(h.Prev); err != nil {
		return h, "", nil, fmt.Errorf("%w: prev: %w", ErrRecord, err)
	}
	kind, rest, err = cutTag(rest[66:], "kind")
	if err != nil {
		return h, "", nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return h, kind, rest, nil
}
