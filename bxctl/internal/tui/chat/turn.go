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
	job   int
	text  string       // of the owner; empty: a turn that ran already
	held  []any        // what came while another turn was shown, or asked is set
	asked string       // the call whose result is being read
	ask   *proto.Asked // loopd says that a call waits for the owner
	shown bool

	began   time.Time
	taken   bool // it is on disk
	lost    bool // the connection is tried again
	wait    *proto.Waiting
	read    *reading
	md      *markdown.Stream
	part    strings.Builder // of the answer, since the last call or try
	segs    []string        // parts before
	think   strings.Builder
	thought time.Time // start of the thinking under way
	first   time.Duration
	calls   []*proto.ToolStarted // that run
	known   map[string]bool      // calls, results and notices that were shown
	again   *again
	done    *proto.Done
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
	case *proto.Accepted:
		t.taken = true
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
		m.say(m.sc.Dim("  " + l))
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
	m.answer(t, s)
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
}

// repeat passes over what was shown, and gives what is new of a piece.
func (m *Model) repeat(t *turn, s string) string {
	a := t.again
	a.buf.WriteString(s)
	got := strings.TrimLeft(a.buf.String(), "\n")
	old := ""
	if a.i < len(a.old) {
		old = a.old[a.i]
	}
	switch {
	case strings.HasPrefix(old, got):
		return ""
	case strings.HasPrefix(got, old):
		if a.i < len(a.old)-1 { // it goes on where a call came before
			t.md = nil
			m.say("", m.sc.Warn("(what follows was not seen before)"))
		}
		t.again = nil
		return got[len(old):]
	default:
		t.again = nil
		m.endPart(t)
		m.say("", m.sc.Warn("(the answer is written anew)"))
		return got
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
	m.text(m.sums(t, d.Usage), m.sc.Dim)
}

// sureWrite is how many milliseconds of writing make a speed.
const sureWrite = 100

func (m *Model) sums(t *turn, u proto.Usage) string {
	parts := []string{term.Span(m.cfg.Now().Sub(t.began))}
	if u.Generated > 0 {
		s := term.Count(u.Generated) + " tokens written"
		if u.GenerateMS >= sureWrite {
			s += fmt.Sprintf(" (%s/s)", term.Count(u.Generated*1000/u.GenerateMS))
		}
		parts = append(parts, s)
	}
	if all := u.Prompt + u.Cached; all > 0 {
		parts = append(parts, fmt.Sprintf("%s read, %d%% from the cache", term.Count(all), u.Cached*100/all))
	}
	if u.Window > 0 && u.Context > 0 {
		parts = append(parts, fmt.Sprintf("context %d%% full", u.Context*100/u.Window))
	}
	return strings.Join(parts, " · ")
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
