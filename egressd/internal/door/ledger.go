package door

import (
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
	listed   []proto.EgressConn
	more     int64
}

// another counts an attempt, and reports whether it is within limit.
func (l *ledger) another(limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts++
	return l.attempts <= limit
}

func (l *ledger) add(c proto.EgressConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listed) < maxListed {
		l.listed = append(l.listed, c)
	} else {
		l.more++
	}
}

func (l *ledger) report() *proto.EgressReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &proto.EgressReport{Connections: append([]proto.EgressConn{}, l.listed...), More: l.more}
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
