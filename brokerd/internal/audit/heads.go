package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// FormatHead writes a head as flags and [HeadFile] have it.
func FormatHead(h proto.AuditHead) string { return strconv.FormatInt(h.N, 10) + ":" + h.Hash }

// ParseHead reads it.
func ParseHead(s string) (proto.AuditHead, error) {
	count, hash, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	h := proto.AuditHead{N: n, Hash: hash}
	if err == nil {
		err = h.Validate()
	}
	if err == nil && FormatHead(h) != s {
		err = errors.New("another form")
	}
	if err != nil {
		return proto.AuditHead{}, errors.New("audit: a head is N:HASH, how many records and the hash of the last line in hex")
	}
	return h, nil
}

// A known head is one that the log must have.
type known struct {
	proto.AuditHead
	from string
	met  bool
	bad  error // there is a head that can't be read
}

// expect gathers the heads that the log must have.
func expect(c Config) ([]*known, error) {
	var all []*known
	for _, h := range c.Known {
		all = append(all, &known{AuditHead: h, from: "anchors/"})
	}
	if c.State == nil {
		return all, nil
	}
	b, err := c.State.ReadFile(HeadFile)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %s in brokerd's folder: %w (see runbook: brokerd-state)", HeadFile, err)
	}
	h, err := ParseHead(strings.TrimRight(string(b), " \n"))
	return append(all, &known{AuditHead: h, from: HeadFile, bad: err}), nil
}

// meet notes the heads that the log has at this point.
func meet(all []*known, h proto.AuditHead) {
	for _, k := range all {
		k.met = k.met || k.AuditHead == h && k.bad == nil
	}
}

// missed gives the heads that the log does not have, and says what that means
// unless the owner accepted the log with just this end.
func missed(all []*known, end proto.AuditHead, accepted *proto.AuditHead) (lost []proto.AuditHead, err error) {
	for _, k := range all {
		if k.met || k.N == 0 && k.bad == nil {
			continue
		}
		fault := &chain.Fault{What: chain.Cut, N: -1, Text: fmt.Sprintf("it was %d records long (%s), and is %d", k.N, k.from, end.N)}
		switch {
		case k.bad != nil:
			fault.What, fault.Text = chain.Changed, k.from+" does not say how long it was: "+k.bad.Error()
		case k.N <= end.N:
			fault.What, fault.Text = chain.Forked, fmt.Sprintf("record %d is not the one that was there (%s)", k.N-1, k.from)
		}
		if err == nil {
			err = fault
		}
		if k.bad == nil {
			lost = append(lost, k.AuditHead)
		}
	}
	if err == nil || accepted != nil && *accepted == end {
		return lost, nil
	}
	return nil, fmt.Errorf("audit: the audit log is not the one that was here, and nothing is allowed until it is: %w; "+
		"put the whole log back, or, if you know why it is so (a restored backup, a folder moved away), say so with: bxctl audit accept (see runbook: audit-cut)", err)
}
