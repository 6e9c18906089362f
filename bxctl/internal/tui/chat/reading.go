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

// line draws the progress in at most width columns. In a narrow window words go
// first, then the bar gets shorter, then the last figures go.
func (r *reading) line(width int) string {
	p := r.last
	percent := int64(100)
	if p.Total > 0 {
		percent = min(p.Done*100/p.Total, 100)
	}
	words := width >= 84
	head, tokens, about := "", "", ""
	if words {
		head, tokens, about = "reading ", " tokens", "about "
	}
	parts := []string{fmt.Sprintf("%d%% of %s%s", percent, term.Count(p.Total), tokens)}
	if fresh := p.Done - p.Cached; fresh > 0 && p.MS > 0 {
		parts = append(parts, term.Count(fresh*1000/p.MS)+tokens+"/s")
	}
	if p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d%% cached", p.Cached*100/p.Total))
	}
	if left, ok := r.left(); ok {
		parts = append(parts, about+whole(left)+" left")
	}
	tail := " " + strings.Join(parts, " · ")
	for len(parts) > 1 && term.Columns(head)+4+term.Columns(tail) > width {
		parts = parts[:len(parts)-1]
		tail = " " + strings.Join(parts, " · ")
	}
	cells := min(max(width-term.Columns(head)-term.Columns(tail), 0), 20)
	return head + bar(percent, cells, p) + tail
}

// whole gives a time in whole seconds: more would not be honest.
func whole(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", max(int(d.Round(time.Second)/time.Second), 1))
	}
	return term.Span(d)
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
