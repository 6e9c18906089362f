// Package rate bounds how often something may be done, for each session and in
// all.
//
// It guarantees that in any time t no more is let through than the burst and
// t times the rate, for one session and for all together, whatever names the
// sessions have, and that its memory is bounded by what is let through. It goes
// by the times that it is given; a time that goes back counts as no time.
package rate

import "time"

// A Limit is a bucket: so much at once, and so much a second afterwards.
type Limit struct {
	Burst  float64
	Second float64
}

// A Meter measures. It is not safe for concurrent use.
type Meter struct {
	each, all Limit
	whole     bucket
	sessions  map[string]bucket
	sweep     int
}

// bucket is how much is taken of a limit, as of a time.
type bucket struct {
	taken float64
	at    time.Time
}

// New makes a meter that nothing was taken from.
func New(each, all Limit) *Meter {
	return &Meter{each: each, all: all, sessions: map[string]bucket{}, sweep: minSweep}
}

const minSweep = 256

// Take takes n for a session, if there is so much. Else it takes nothing.
func (m *Meter) Take(session string, n float64, now time.Time) bool {
	one, whole := m.sessions[session].drained(m.each, now), m.whole.drained(m.all, now)
	if one.taken+n > m.each.Burst || whole.taken+n > m.all.Burst {
		return false
	}
	one.taken += n
	whole.taken += n
	m.sessions[session], m.whole = one, whole
	if len(m.sessions) >= m.sweep {
		m.forget(now)
	}
	return true
}

// drained is the bucket at a time.
func (b bucket) drained(l Limit, now time.Time) bucket {
	if d := now.Sub(b.at); !b.at.IsZero() && d > 0 {
		b.taken = max(0, b.taken-d.Seconds()*l.Second)
	}
	if now.After(b.at) {
		b.at = now
	}
	return b
}

// forget drops sessions of which nothing is taken any more.
func (m *Meter) forget(now time.Time) {
	for s, b := range m.sessions {
		if b.drained(m.each, now).taken == 0 {
			delete(m.sessions, s)
		}
	}
	m.sweep = max(minSweep, 2*len(m.sessions))
}
