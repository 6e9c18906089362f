package proto

import (
	"errors"
	"time"

	"boxmaker/internal/strict"
)

// Records of the audit log: audit/<year>-<month>.jsonl. Each line is
//
//	{"v":1,"n":N,"time":"…","prev":"…","kind":"…",…}
//
// with the checksum of package appendlog behind it. N counts through all
// files; prev is the SHA-256 of the line before, across files (64 zeros in
// the first), as it stands on disk, its crc included, its line break not.

// AuditVersion is the version that new audit records carry.
const AuditVersion = 1

// An AuditHeader stands in front of every audit record.
type AuditHeader struct {
	N    int64     // number of the record in the log, from 0
	Time time.Time // milliseconds matter, the rest is dropped
	Prev string    // SHA-256, hex, of the line before
}

// An AuditRecord is the body of one line of the audit log.
type AuditRecord interface {
	strict.Value
	// Kind is the value of the "kind" member.
	Kind() string
}

// AuditStart says that a brokerd opened the log. Lost are heads that the log did
// not have, which the owner accepted.
type AuditStart struct {
	Version string      `json:"version"`
	PID     int         `json:"pid"`
	Lost    []AuditHead `json:"lost,omitempty"`
}

// AuditDecision is written and synced before anything runs, denials included.
type AuditDecision struct {
	ID        string  `json:"id"`
	Session   string  `json:"session"`
	Tool      string  `json:"tool"`
	Args      string  `json:"args"`   // as the model wrote them, at most [MaxAuditArgs] bytes
	Digest    string  `json:"digest"` // SHA-256, hex, of the call's canonical bytes
	Verdict   Verdict `json:"verdict"`
	Code      Code    `json:"code,omitzero"`  // why not
	Grant     string  `json:"grant,omitzero"` // file that decided
	GrantHash string  `json:"grant_hash,omitzero"`
	Taint     Class   `json:"taint"`
	Untrusted bool    `json:"untrusted,omitzero"`
	Approval  string  `json:"approval,omitzero"` // that an "ask" waits for
	Expires   string  `json:"expires,omitzero"`
}

// AuditApproval is the end of an approval.
type AuditApproval struct {
	ID       string  `json:"id"`
	Approval string  `json:"approval"`
	Verdict  Verdict `json:"verdict"`
	Code     Code    `json:"code,omitzero"` // why an approved call does not run after all
	By       string  `json:"by,omitzero"`
	Channel  string  `json:"channel,omitzero"`
	Digest   string  `json:"digest"`
}

// AuditOutcome is how a call ended.
type AuditOutcome struct {
	ID        string       `json:"id"`
	Outcome   CallOutcome  `json:"outcome"`
	Code      Code         `json:"code,omitzero"`
	Class     Class        `json:"class"`
	Untrusted bool         `json:"untrusted,omitzero"`
	Bytes     int64        `json:"bytes"` // of the text that loopd gets
	Hash      string       `json:"hash"`  // SHA-256, hex, of that text
	MS        int64        `json:"ms"`
	Egress    []EgressConn `json:"egress,omitempty"`
	More      int64        `json:"more,omitzero"` // connections beyond those listed
	Detail    string       `json:"detail,omitzero"`
}

// AuditRecovered says that opening the log found an unfinished line.
type AuditRecovered struct {
	Bytes int64  `json:"bytes"`
	File  string `json:"file"`
}

// AuditCheckpoint is a signed head that was given out.
type AuditCheckpoint struct {
	Head      AuditHead `json:"head"`
	Signature string    `json:"signature"` // the signature line of the signed note
}

// AuditHalt says that the owner stopped or resumed everything.
type AuditHalt struct {
	Halted bool   `json:"halted"`
	Reason string `json:"reason,omitzero"`
	By     string `json:"by"`
}

// AuditLimited says that calls came faster than brokerd takes them. Nothing was
// decided on those, and none has a record of its own.
type AuditLimited struct {
	Refused int64  `json:"refused"` // since the record of this kind before, or the start
	Session string `json:"session"` // of the first of them
}

// MaxAuditArgs is how much of a call's arguments a record holds; the digest is
// of all of them.
const MaxAuditArgs = 64 << 10

var auditRecords = map[string]func() AuditRecord{
	"start":      func() AuditRecord { return new(AuditStart) },
	"decision":   func() AuditRecord { return new(AuditDecision) },
	"approval":   func() AuditRecord { return new(AuditApproval) },
	"outcome":    func() AuditRecord { return new(AuditOutcome) },
	"recovered":  func() AuditRecord { return new(AuditRecovered) },
	"checkpoint": func() AuditRecord { return new(AuditCheckpoint) },
	"halt":       func() AuditRecord { return new(AuditHalt) },
	"limited":    func() AuditRecord { return new(AuditLimited) },
}

// Validate checks the sign.
func (r *AuditStart) Validate() error {
	err := nonNegative(int64(r.PID))
	for _, h := range r.Lost {
		err = errors.Join(err, h.Validate())
	}
	return err
}

// Validate checks identifiers, enums and sizes.
func (r *AuditDecision) Validate() error {
	_, err := ParseCallID(r.ID)
	errs := []error{
		err, CheckSession(r.Session), CheckHash(r.Digest), r.Taint.Validate(),
		oneOf("decision", r.Verdict, VerdictAllow, VerdictAsk, VerdictDeny),
	}
	if r.Verdict == VerdictDeny || r.Code != "" {
		errs = append(errs, r.Code.Validate())
	}
	if r.GrantHash != "" {
		errs = append(errs, CheckHash(r.GrantHash))
	}
	if r.Verdict == VerdictAsk {
		_, err := ParseTime(r.Expires)
		errs = append(errs, err, CheckToken(r.Approval))
	}
	if len(r.Args) > MaxAuditArgs {
		errs = append(errs, errors.New("proto: arguments longer than a record holds"))
	}
	return errors.Join(errs...)
}

// Validate checks identifiers and enums.
func (r *AuditApproval) Validate() error {
	_, err := ParseCallID(r.ID)
	errs := []error{err, CheckToken(r.Approval), CheckHash(r.Digest), r.Verdict.Validate()}
	if r.Code != "" {
		errs = append(errs, r.Code.Validate())
	}
	return errors.Join(errs...)
}

// Validate checks identifiers, enums and signs.
func (r *AuditOutcome) Validate() error {
	_, err := ParseCallID(r.ID)
	errs := []error{err, checkResult(r.Outcome, r.Code, r.Class), CheckHash(r.Hash), nonNegative(r.Bytes, r.MS, r.More)}
	for _, c := range r.Egress {
		errs = append(errs, c.Validate())
	}
	return errors.Join(errs...)
}

// Validate checks the size.
func (r *AuditRecovered) Validate() error { return nonNegative(r.Bytes) }

// Validate checks the head.
func (r *AuditCheckpoint) Validate() error { return r.Head.Validate() }

// Validate accepts any reason.
func (r *AuditHalt) Validate() error { return nil }

// Validate checks number and session.
func (r *AuditLimited) Validate() error {
	return errors.Join(nonNegative(r.Refused), CheckSession(r.Session))
}

// Kinds.

func (*AuditStart) Kind() string      { return "start" }
func (*AuditDecision) Kind() string   { return "decision" }
func (*AuditApproval) Kind() string   { return "approval" }
func (*AuditOutcome) Kind() string    { return "outcome" }
func (*AuditRecovered) Kind() string  { return "recovered" }
func (*AuditCheckpoint) Kind() string { return "checkpoint" }
func (*AuditHalt) Kind() string       { return "halt" }
func (*AuditLimited) Kind() string    { return "limited" }
