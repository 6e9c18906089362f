// Package policy decides on tool calls, and is the only maker of the permission
// to run one.
//
// It guarantees that an allowing [Decision] exists only after the record that
// allows it was synced to the audit log, that it is for one call as it was
// recorded, and that it can be spent once, however often it was copied. Whatever
// fails on the way denies: grants that cannot be read, taint that cannot be
// read, a record that cannot be written. An approval counts only for a call
// whose question is on record without an end, and only while the same grant, to
// the byte, still leaves it to the owner or allows it.
//
// It runs nothing, and does not know whether a granted path or host exists.
package policy

import (
	"errors"
	"sync/atomic"

	"boxmaker/brokerd/internal/audit"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// ErrDenied is returned by [Decision.Spend] for a decision that allows nothing.
var ErrDenied = errors.New("policy: denied")

// ErrSpent is returned when a decision is spent twice.
var ErrSpent = errors.New("policy: decision already spent")

// A Decision is permission to run one call once. The zero value denies; no
// other package can make one that allows. Copies share one permit.
//
// There is no method that reads one from bytes, and none may be added: a
// permission that can be stored can be replayed.
type Decision struct {
	_ [0]func() // two decisions can't be compared, nor used as a key
	p *permit
}

type permit struct {
	spent atomic.Bool
	ref   audit.Ref
	spec  Spec
}

// Spec is all that the runner is told: what to run and with what. It is a copy:
// changing it changes nothing that was decided.
type Spec struct {
	Call string
	Tool *tool.Tool
	Args string // canonical

	Read   []string // trees and files to mount, read-only
	Write  []string // to mount for writing
	Hidden []string // trees in these that the container must not see

	Hosts []string // host:port, for egressd
	Local []string // those of Hosts that may have a private address

	Secrets []string       // names; handed over a descriptor
	Inject  []grant.Inject // added outside of the container

	Limits   proto.Limits
	Userland proto.Userland
	Root     string

	Class     proto.Class // of what comes back
	Untrusted bool        // what comes back is untrusted text
	Grant     string
	Preview   bool   // change nothing, give the diff
	Seen      string // the file that the owner saw the change of: no other may be changed
}

// Spend returns the spec the first time, and an error ever after.
func (d Decision) Spend() (Spec, error) {
	if d.p == nil || !d.p.ref.OK() {
		return Spec{}, ErrDenied
	}
	if d.p.spent.Swap(true) {
		return Spec{}, ErrSpent
	}
	return d.p.spec, nil
}

// permits makes the decision that a record allows.
func permits(ref audit.Ref, s Spec) Decision {
	if !ref.OK() {
		return Decision{}
	}
	return Decision{p: &permit{ref: ref, spec: s}}
}
