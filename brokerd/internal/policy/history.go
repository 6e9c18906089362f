package policy

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
)

// A History is what decisions depend on of those before: how often each grant
// was used in the last hour, and which questions to the owner have no end. It
// is made from the audit log, so that a restart forgets nothing:
// [History.Seen] takes the records when the log is opened, then the Engine
// adds its own.
type History struct {
	mu   sync.Mutex // guards what follows
	uses map[string][]use
	open map[string]question // by approval
}

// use is one call that a grant let through or put before the owner.
type use struct {
	call string
	at   time.Time
}

// question is a call that waits for the owner.
type question struct {
	call, digest, grant, hash string
	expires                   time.Time
}

// NewHistory makes an empty one.
func NewHistory() *History { return &History{uses: map[string][]use{}, open: map[string]question{}} }

// Seen takes a record of the log.
func (h *History) Seen(header proto.AuditHeader, r proto.AuditRecord) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := r.(type) {
	case *proto.AuditDecision:
		return h.decided(header.Time, r)
	case *proto.AuditApproval:
		delete(h.open, r.Approval)
	}
	return nil
}

// decided notes a decision. Precondition: mu is held.
func (h *History) decided(at time.Time, r *proto.AuditDecision) error {
	if r.Verdict == proto.VerdictDeny || r.Grant == "" {
		return nil
	}
	uses := append(h.uses[r.Grant], use{r.ID, at})
	if len(uses) > 2*grant.MaxPerHour { // more is never counted
		uses = slices.Clone(uses[len(uses)-grant.MaxPerHour:])
	}
	h.uses[r.Grant] = uses
	if r.Verdict != proto.VerdictAsk {
		return nil
	}
	expires, err := proto.ParseTime(r.Expires)
	if err != nil {
		return fmt.Errorf("policy: decision on %s: %w", r.ID, err)
	}
	h.open[r.Approval] = question{r.ID, r.Digest, r.Grant, r.GrantHash, expires}
	return nil
}

// used counts the calls of a grant in the hour before now, but for one call. A
// time that is still to come, by a clock that was set back, counts as now: it
// must neither be lost nor hold the grant up until the clock is there again.
func (h *History) used(id, but string, now time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, u := range h.uses[id] {
		if u.at.After(now) {
			h.uses[id][i].at = now
		}
	}
	kept := slices.DeleteFunc(h.uses[id], func(u use) bool { return !u.at.After(now.Add(-time.Hour)) })
	if len(kept) == 0 {
		delete(h.uses, id)
		return 0
	}
	h.uses[id] = kept
	n := len(kept)
	for _, u := range kept {
		if u.call == but {
			n--
		}
	}
	return n
}

// take ends a question: it is there for the first who asks, if the call is that
// of the question to the byte.
func (h *History) take(approval, call, digest string) (question, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q, ok := h.open[approval]
	if !ok || q.call != call || q.digest != digest {
		return question{}, false
	}
	delete(h.open, approval)
	return q, true
}

// noted takes a decision of the Engine itself.
func (h *History) noted(at time.Time, r *proto.AuditDecision) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.decided(at, r)
}
