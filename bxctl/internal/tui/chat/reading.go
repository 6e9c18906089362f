package chat

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// reading is the progress of one prompt.
type reading struct {
	last proto.Prefill
	prev proto.Prefill
}

func (r *reading) add(p *proto.Prefill) {
	if p.MS > r.last.MS {
		r.prev = r.last
	}
	r.last = *p
}

// Below these the speed is not known well enough to tell a time.
const (
	surePiece = 1000 // milliseconds
	sureDone  = 512  // tokens
)

// left gives the time that the rest will take. It is known only after a while,
// and it counts with the slower of the mean and the latest speed: prompts get
// slower with their depth, never faster.
func (r *reading) left() (time.Duration, bool) {
	done, ms := r.last.Done-r.last.Cached, r.last.MS
	rest := r.last.Total - r.last.Done
	if ms < surePiece || done < sureDone || rest <= 0 {
		return 0, false
	}
	perToken := float64(ms) / float64(done)
	if n, t := r.last.Done-r.prev.Done, r.last.MS-r.prev.MS; r.prev.MS > 0 && n > 0 && t > 0 {
		perToken = max(perToken, float64(t)/float64(n))
	}
	return time.Duration(perToken*float64(rest)) * time.Millisecond, true
}

// line draws the progress in at most width columns; what matters less is left
// out first.
func (r *reading) line(width int) string {
	p := r.last
	percent := int64(100)
	if p.Total > 0 {
		percent = min(p.Done*100/p.Total, 100)
	}
	head := fmt.Sprintf(" %d%% of %s tokens", percent, term.Count(p.Total))
	var more []string
	if fresh := p.Done - p.Cached; fresh > 0 && p.MS > 0 {
		more = append(more, term.Count(fresh*1000/p.MS)+" tokens/s")
	}
	if p.Total > 0 {
		more = append(more, fmt.Sprintf("%d%% cached", p.Cached*100/p.Total))
	}
	if left, ok := r.left(); ok {
		more = append(more, "about "+term.Span(max(left.Round(time.Second), time.Second))+" left")
	}
	s := "reading "
	tail := head
	for _, part := range more {
		if term.Columns(s)+8+term.Columns(tail)+3+term.Columns(part) <= width {
			tail += " · " + part
		}
	}
	cells := min(max(width-term.Columns(s)-term.Columns(tail), 0), 20)
	return s + bar(percent, cells, p) + tail
}

// bar shows what was cached, what was read, and what is left.
func bar(percent int64, cells int, p proto.Prefill) string {
	full := int(percent) * cells / 100
	cached := 0
	if p.Total > 0 {
		cached = min(int(p.Cached*int64(cells)/p.Total), full)
	}
	return strings.Repeat("▓", cached) + strings.Repeat("█", full-cached) + strings.Repeat("░", cells-full)
}
