package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/markdown"
	"boxmaker/internal/proto"
)

// turn is one message and what comes of it.
type turn struct {
	job    int
	text   string // of the owner; empty: it is shown already
	from   string // where it was sent; empty: here
	origin string
	other  bool         // somebody else sent it
	held   []any        // what came while another turn was shown, or asked is set
	asked  string       // the call whose result is being read
	ask    *proto.Asked // loopd says that a call waits for the owner
	shown  bool

	queued  bool // loopd has others before it
	started bool // loopd is at it
	began   time.Time
	taken   bool // it is on disk
	lost    bool // the connection is tried again
	wait    *proto.Waiting
	read    *reading
	md      *markdown.Stream
	part    strings.Builder // of the answer, since the last call or try
	tokens  int64           // of part, about
	since   time.Time       // its start
	segs    []string        // parts before
	think   strings.Builder
	thought time.Time // start of the thinking under way
	first   time.Duration
	calls   []*proto.ToolStarted // that run
	known   map[string]bool      // calls, results and notices that were shown
	again   *again
	done    *proto.Done
}

// note takes what an event says of the turn's place in the queue.
func (t *turn) note(e any) {
	switch e := e.(type) {
	case *proto.Accepted:
		t.taken, t.queued = true, e.Queued > 0
	case *proto.Waiting:
		if e.Reason == proto.WaitQueue {
			t.queued = true
		} else {
			t.started = true
		}
	case *proto.Notice:
		t.started = t.started || e.Kind != proto.NoticeNeutralised
	case Lost, Back:
	default:
		t.started = true
	}
}

// again follows the events of a turn that come once more, and passes over what
// was shown.
type again struct {
	old []string // parts of the answer as they were shown
	i   int
	buf strings.Builder
}

// event takes one message of a turn that is shown.
func (m *Model) event(t *turn, e proto.Message) {
	t.lost = false
	if _, ok := e.(*proto.Thinking); !ok {
		m.endThinking(t)
	}
	switch e.(type) {
	case *proto.Waiting, *proto.Prefill, *proto.Accepted:
	default:
		t.wait, t.read = nil, nil
	}
	switch e := e.(type) {
	case *proto.Accepted: // see note
	case *proto.Waiting:
		t.wait, t.read = e, nil
	case *proto.Prefill:
		t.wait = nil
		if t.read == nil {
			t.read = &reading{}
		}
		t.read.add(e)
	case *proto.Thinking:
		m.thinking(t, e.Text)
	case *proto.Text:
		m.piece(t, e.Text)
	case *proto.ToolStarted:
		m.called(t, e)
	case *proto.Asked:
		m.asked(t, e)
	case *proto.Result:
		m.result(t, e)
	case *proto.Notice:
		m.notice(t, e)
	case *proto.Done:
		m.finish(t, e)
	default: // Error comes as the end's err; answers of other requests are not shown here
	}
}

func (m *Model) thinking(t *turn, s string) {
	if t.thought.IsZero() {
		t.thought = m.cfg.Now()
		t.think.Reset()
	}
	t.think.WriteString(s)
}

// endThinking leaves one line of the thinking, or all of it.
func (m *Model) endThinking(t *turn) {
	if t.thought.IsZero() {
		return
	}
	took := m.cfg.Now().Sub(t.thought)
	t.thought = time.Time{}
	key := "thought " + t.think.String()
	if t.known[key] || t.again != nil && t.known["thought"] {
		return
	}
	t.known[key], t.known["thought"] = true, true
	m.say("")
	line := "∴ thought"
	if took >= 100*time.Millisecond {
		line += " for " + term.Span(took)
	}
	m.say(m.sc.Dim(line))
	if m.details {
		m.unfold(t.think.String())
	}
}

// unfold finishes a longer text, indented and dim.
func (m *Model) unfold(s string) {
	for _, l := range wrapText(term.Safe(strings.TrimSpace(s)), m.room()-2) {
		m.say(m.sc.Dim(term.Indent(l)))
	}
}

func (m *Model) piece(t *turn, s string) {
	if t.first == 0 {
		t.first = max(m.cfg.Now().Sub(t.began), 1)
	}
	if t.again != nil {
		if s = m.repeat(t, s); s == "" {
			return
		}
	}
	if t.part.Len() == 0 {
		if s = strings.TrimLeft(s, "\n"); s == "" { // models like to begin with empty lines
			return
		}
	}
	t.part.WriteString(s)
	t.count(s, m.cfg.Now())
	m.answer(t, s)
}

// longToken is more than a token has, in bytes: a longer piece is several that
// were joined on the way.
const longToken = 24

// count counts the tokens of the answer's part, as well as it can be known.
func (t *turn) count(s string, now time.Time) {
	if t.tokens == 0 {
		t.since = now
	}
	if t.tokens++; len(s) > longToken {
		t.tokens += int64(len(s))/4 - 1
	}
}

// sureSpeed is how long writing goes on before it has a speed.
const sureSpeed = time.Second

// writing says how much came, and how fast.
func (m *Model) writing(t *turn) string {
	took := m.cfg.Now().Sub(t.since)
	if took < sureSpeed {
		return "writing"
	}
	return fmt.Sprintf("writing, about %s tokens, %s/s", term.Count(t.tokens), term.Count(int64(float64(t.tokens)/took.Seconds())))
}

func (m *Model) answer(t *turn, s string) {
	if t.md == nil {
		t.md = markdown.NewStream(m.theme, m.room())
	}
	if lines := t.md.Write(s); len(lines) > 0 {
		if !t.known["text"] {
			m.say("")
			t.known["text"] = true
		}
		m.say(lines...)
	}
}

// endPart finishes the answer so far.
func (m *Model) endPart(t *turn) {
	if t.md != nil {
		lines := t.md.Close()
		if len(lines) > 0 && !t.known["text"] {
			m.say("")
		}
		m.say(lines...)
		t.md = nil
	}
	delete(t.known, "text")
	if t.part.Len() > 0 {
		t.segs = append(t.segs, t.part.String())
	}
	t.part.Reset()
	t.tokens = 0
}

// repeat passes over what was shown, and gives what is new of a piece. After a
// restart loopd has no events of what ended before it, so that a later part of the
// answer may come first.
func (m *Model) repeat(t *turn, s string) string {
	a := t.again
	a.buf.WriteString(s)
	got := strings.TrimLeft(a.buf.String(), "\n")
	for i := a.i; ; i++ {
		old := ""
		if i < len(a.old) {
			old = a.old[i]
		}
		switch {
		case strings.HasPrefix(old, got):
			return ""
		case strings.HasPrefix(got, old):
			if i < len(a.old)-1 { // it goes on where a call came before
				t.md = nil
				m.say("", m.sc.Warn("(what follows was not seen before)"))
			}
			t.again = nil
			return got[len(old):]
		case i >= len(a.old)-1:
			t.again = nil
			m.endPart(t)
			m.say("", m.sc.Warn("(the answer is written anew)"))
			return got
		}
	}
}

func (m *Model) notice(t *turn, n *proto.Notice) {
	text := term.Line(n.Text)
	if text == "" {
		text = string(n.Kind)
	}
	if t.again != nil && t.known["notice "+text] {
		return
	}
	t.known["notice "+text] = true
	if n.Kind == proto.NoticeRetry && t.again == nil {
		if t.part.Len() > 0 {
			text = "the text above is void: " + text
		}
		m.endPart(t)
		t.segs = nil
	} else if t.md != nil { // the line stands between two blocks
		m.say(t.md.Close()...)
		t.md = nil
	}
	m.warn(text)
}

// finish shows what of the final answer is not there yet, and the sums.
func (m *Model) finish(t *turn, d *proto.Done) {
	t.done, t.again = d, nil
	for _, c := range t.calls {
		m.callRow(callLine(c), " → no result", proto.CallUnknown)
	}
	t.calls = nil
	shown := t.part.String()
	switch rest, ok := strings.CutPrefix(strings.TrimLeft(d.Answer, "\n"), shown); {
	case d.Answer == "" || strings.TrimSpace(d.Answer) == strings.TrimSpace(shown):
	case ok:
		m.piece(t, rest)
	default:
		m.endPart(t)
		m.piece(t, d.Answer)
	}
	m.endPart(t)
	if u := d.Usage; u.Window > 0 && u.Context > 0 {
		m.usage = u
	}
	m.say("")
	if d.Outcome == proto.TurnStopped {
		m.say(m.sc.Warn("(stopped)"))
	}
	m.say(m.sc.Dim(m.sums(t, d.Usage)))
}

// sureWrite is how many milliseconds of writing make a speed.
const sureWrite = 100

// sums is one row. Where it is narrow, how full the context is goes first, which
// stands below the input too, then words, then the last figures.
func (m *Model) sums(t *turn, u proto.Usage) string {
	fit := func(parts []string, least int) (string, bool) {
		for n := len(parts); n >= max(least, 1); n-- {
			if s := strings.Join(parts[:n], " · "); n == 1 || term.Columns(s) <= m.room() {
				return s, true
			}
		}
		return "", false
	}
	if parts := m.sumParts(t, u, true); len(parts) > 1 {
		if s, ok := fit(parts, len(parts)-1); ok {
			return s
		}
	}
	s, _ := fit(m.sumParts(t, u, false), 1)
	return s
}

func (m *Model) sumParts(t *turn, u proto.Usage, words bool) []string {
	tokens, cache, full := " tokens written", "% from the cache", " full"
	if !words {
		tokens, cache, full = " written", "% cached", ""
	}
	parts := []string{term.Span(m.cfg.Now().Sub(t.began))}
	if u.Generated > 0 {
		s := term.Count(u.Generated) + tokens
		if u.GenerateMS >= sureWrite {
			s += fmt.Sprintf(" (%s/s)", term.Count(u.Generated*1000/u.GenerateMS))
		}
		parts = append(parts, s)
	}
	if all := u.Prompt + u.Cached; all > 0 {
		parts = append(parts, fmt.Sprintf("%s read, %d%s", term.Count(all), u.Cached*100/all, cache))
	}
	if u.Window > 0 && u.Context > 0 {
		parts = append(parts, fmt.Sprintf("context %d%%%s", u.Context*100/u.Window, full))
	}
	return parts
}

// end shows how the first turn ended, and goes on with the next.
func (m *Model) end(t *turn, err error) {
	m.stopping = false
	m.endThinking(t)
	m.endPart(t)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		m.say("")
		m.text(strings.TrimRight(fault.Text(err), "\n"), m.sc.Warn)
	}
	m.say("")
	m.jobs = m.jobs[1:]
	m.showNext()
}

func (m *Model) clock(s string) string {
	at, err := proto.ParseTime(s)
	if err != nil {
		return term.Line(s)
	}
	return term.When(at, m.cfg.Now())
}
