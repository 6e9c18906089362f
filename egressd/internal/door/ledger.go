package door

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"boxmaker/internal/proto"
)

// Bounds of a report.
const (
	maxListed = 256
	maxHost   = 120 // characters of something that is no host
)

// A ledger collects what was attempted.
type ledger struct {
	mu       sync.Mutex // guards what follows
	attempts int
	listed   []entry
	more     int64
}

// An entry is an attempt with its number.
type entry struct {
	n   int
	row proto.EgressConn
}

// another gives an attempt its number, and reports whether it is within limit.
func (l *ledger) another(limit int) (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts++
	return l.attempts, l.attempts <= limit
}

// add notes how an attempt ended. Of more than are listed, the first to end are;
// but what reached a host takes the place of what did not, else a tool could
// hide where it went behind a few hundred attempts that are refused.
func (l *ledger) add(n int, c proto.EgressConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listed) < maxListed {
		l.listed = append(l.listed, entry{n, c})
		return
	}
	l.more++
	if c.Address == "" {
		return
	}
	for i := len(l.listed) - 1; i >= 0; i-- {
		if l.listed[i].row.Address == "" {
			l.listed = append(slices.Delete(l.listed, i, i+1), entry{n, c})
			return
		}
	}
}

// report lists the attempts in the order in which they began.
func (l *ledger) report() *proto.EgressReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.listed, func(a, b entry) int { return a.n - b.n })
	r := &proto.EgressReport{Connections: []proto.EgressConn{}, More: l.more}
	for _, e := range l.listed {
		r.Connections = append(r.Connections, e.row)
	}
	return r
}

// escaped makes something that came in place of a host fit for a record:
// printable ASCII, and not long.
func escaped(raw string) string {
	if len(raw) > maxHost {
		raw = raw[:maxHost]
	}
	s := strings.Trim(strconv.QuoteToASCII(raw), `"`)
	if len(s) > maxHost {
		s = s[:maxHost]
	}
	return s
}
