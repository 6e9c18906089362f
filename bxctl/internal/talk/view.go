// Package talk is a turn as the owner sees it: one question and its answer
// ([Ask]), or a conversation in plain lines ([Chat]).
//
// It guarantees that text of the model and of tools reaches a screen only
// through package term, and that a screen that is no terminal gets the final
// answer and nothing else. What a failed try had shown is marked as void.
package talk

import (
	"fmt"
	"io"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// A View shows the events of one turn after another. Not for use by several
// goroutines at once.
type View struct {
	Answer term.Screen // gets the text of the answer
	Notes  term.Screen // gets all else; nothing, if it is no terminal and Chat is off
	Stream bool        // the text comes as it arrives; otherwise the final answer comes at the end
	Chat   bool        // keep a line about thinking and usage
	Now    func() time.Time
	Owner  bool // approvals are shown as brokerd tells them

	clean   term.Cleaner
	mark    marker          // of the answer's lines
	status  string          // status line on the terminal now
	mid     bool            // the answer's last line is open
	part    strings.Builder // text of the answer since the last tool call or retry
	thought time.Time       // start of the thinking that is under way
	calls   []*proto.ToolStarted
	began   time.Time
}

// Event shows one event.
func (v *View) Event(m proto.Message) {
	if _, ok := m.(*proto.Thinking); !ok {
		v.endThinking()
	}
	if v.began.IsZero() {
		v.began = v.Now()
	}
	switch m := m.(type) {
	case *proto.Accepted:
		v.accepted(m)
	case *proto.Waiting:
		v.Status(waiting(m))
	case *proto.Prefill:
		v.Status(prefill(m))
	case *proto.Thinking:
		if v.thought.IsZero() {
			v.thought = v.Now()
		}
		v.Status(fmt.Sprintf("(thinking… %d s)", int(v.Now().Sub(v.thought).Seconds())))
	case *proto.Text:
		v.text(m.Text)
	case *proto.ToolStarted:
		v.part.Reset()
		v.calls = append(v.calls, m)
		v.endLine()
		v.Status("· " + callLine(m) + " …")
	case *proto.Asked:
		v.asked(m)
	case *proto.Result:
		v.result(m)
	case *proto.Notice:
		v.notice(m)
	case *proto.Done:
		v.done(m)
	case *proto.Error:
		v.clear()
		v.endLine()
	default: // answers of other requests are not shown here
	}
}

// asked tells where a call that waits can be seen and answered. What it is about
// is brokerd's to say.
func (v *View) asked(m *proto.Asked) {
	text := "· a call waits for your approval, until " + v.clock(m.Expires)
	if !v.Owner {
		text += ": bxctl approve " + term.Line(m.Approval)
	}
	v.Note(v.Notes.Warn(text))
}

func (v *View) accepted(m *proto.Accepted) {
	if m.Queued > 0 {
		v.Note(v.Notes.Dim(fmt.Sprintf("(queued behind %d)", m.Queued)))
	} else {
		v.Status("(asked)")
	}
}

// Rejoined says that all events of the turn come once more.
func (v *View) Rejoined() {
	v.clear()
	v.endLine()
	if v.part.Len() > 0 {
		v.Note(v.Notes.Warn("(the text above comes again)"))
	}
	v.part.Reset()
	v.calls = nil
	v.thought = time.Time{}
	v.clean = term.Cleaner{}
}

func (v *View) text(s string) {
	if !v.Stream {
		v.Status("(answering)")
		v.part.WriteString(s)
		return
	}
	if v.part.Len() == 0 {
		if s = strings.TrimLeft(s, "\n"); s == "" { // models like to begin with empty lines
			return
		}
	}
	v.part.WriteString(s)
	v.write(s)
}

func (v *View) write(s string) {
	if s == "" {
		return
	}
	v.clear()
	s = v.clean.Clean(s)
	if v.Answer.Terminal {
		s = v.mark.more(s)
	}
	io.WriteString(v.Answer.W, s) //nolint:errcheck // a reader that left ends the program by SIGPIPE
	v.mid = v.mid && s == "" || s != "" && !strings.HasSuffix(s, "\n")
}

func (v *View) result(m *proto.Result) {
	line := "· a tool"
	for i, c := range v.calls {
		if c.Call == m.Call {
			line = "· " + callLine(c)
			v.calls = append(v.calls[:i], v.calls[i+1:]...)
			break
		}
	}
	var end string
	if m.Outcome == proto.CallOK {
		end = fmt.Sprintf(" → ok, %s, %s", term.Bytes(m.Bytes), term.Span(time.Duration(m.MS)*time.Millisecond))
	} else {
		end = fmt.Sprintf(" → %s (%s)", term.Line(string(m.Outcome)), term.Line(string(m.Code)))
	}
	room := v.Notes.Width() - 1 - term.Columns(end)
	text := term.Clip(line, max(room, 20)) + end
	if m.Outcome == proto.CallOK {
		v.Note(v.Notes.Dim(text))
	} else {
		v.Note(v.Notes.Warn(text))
	}
}

func callLine(m *proto.ToolStarted) string {
	args := term.Line(m.Args)
	if args == "{}" {
		args = ""
	}
	return strings.TrimSpace(term.Line(m.Tool) + " " + term.Clip(args, 400))
}

func (v *View) notice(m *proto.Notice) {
	text := term.Line(m.Text)
	if text == "" {
		text = string(m.Kind)
	}
	if m.Kind == proto.NoticeRetry {
		if v.Stream && v.part.Len() > 0 {
			text = "the text above is void: " + text
		}
		v.part.Reset()
		v.clean = term.Cleaner{}
	}
	v.Note(v.Notes.Warn("! " + text))
}

// done shows what of the final answer is not there yet.
func (v *View) done(m *proto.Done) {
	v.clear()
	for _, c := range v.calls {
		v.Note(v.Notes.Warn("· " + callLine(c) + " → no result"))
	}
	answer, shown := m.Answer, v.part.String()
	switch {
	case answer == "":
	case !v.Stream:
		v.write(answer)
	case strings.HasPrefix(answer, shown) && shown != "":
		v.write(answer[len(shown):])
	case strings.TrimSpace(answer) == strings.TrimSpace(shown):
	default:
		v.endLine()
		v.write(strings.TrimLeft(answer, "\n"))
	}
	v.endLine()
	if v.Chat {
		v.Note(v.Notes.Dim(v.usage(m.Usage)))
	}
	v.part.Reset()
	v.calls, v.clean, v.began = nil, term.Cleaner{}, time.Time{}
}

// finish ends what is open of a turn, without a word.
func (v *View) finish() {
	v.endThinking()
	v.clear()
	v.endLine()
	v.part.Reset()
	v.calls, v.clean, v.began = nil, term.Cleaner{}, time.Time{}
}

func (v *View) usage(u proto.Usage) string {
	parts := []string{term.Span(v.Now().Sub(v.began))}
	if u.Generated > 0 {
		parts = append(parts, term.Count(u.Generated)+" tokens written")
	}
	if all := u.Prompt + u.Cached; all > 0 {
		parts = append(parts, fmt.Sprintf("%s read, %d%% from the cache", term.Count(all), u.Cached*100/all))
	}
	if u.Window > 0 && u.Context > 0 {
		parts = append(parts, fmt.Sprintf("context %d%% full", u.Context*100/u.Window))
	}
	return "(" + strings.Join(parts, " · ") + ")"
}

func (v *View) endThinking() {
	if v.thought.IsZero() {
		return
	}
	took := v.Now().Sub(v.thought)
	v.thought = time.Time{}
	v.clear()
	if v.Chat {
		v.Note(v.Notes.Dim("(thought for " + term.Span(took) + ")"))
	}
}

// Note writes a line beside the answer. The text is clean already.
func (v *View) Note(s string) {
	if !v.Chat && !v.Notes.Terminal {
		return
	}
	v.clear()
	v.endLine()
	fmt.Fprintln(v.Notes.W, s)
}

// Status shows a line that the next output replaces.
func (v *View) Status(s string) {
	if !v.Notes.InPlace() || v.mid || s == v.status {
		return
	}
	v.status = s
	io.WriteString(v.Notes.W, v.Notes.Erase()+v.Notes.Dim(term.Clip(s, v.Notes.Width()-1))) //nolint:errcheck // see write
}

func (v *View) clear() {
	if v.status != "" {
		v.status = ""
		io.WriteString(v.Notes.W, v.Notes.Erase()) //nolint:errcheck // see write
	}
}

// endLine ends the answer's open line.
func (v *View) endLine() {
	if rest := v.mark.end(); rest != "" {
		io.WriteString(v.Answer.W, rest) //nolint:errcheck // see write
		v.mid = true
	}
	if v.mid {
		v.mid = false
		io.WriteString(v.Answer.W, "\n") //nolint:errcheck // see write
	}
}

func (v *View) clock(s string) string {
	t, err := proto.ParseTime(s)
	if err != nil {
		return term.Line(s)
	}
	return term.When(t, v.Now())
}

func waiting(m *proto.Waiting) string {
	ahead := ""
	if m.Ahead > 0 {
		ahead = fmt.Sprintf(", %d ahead", m.Ahead)
	}
	switch m.Reason {
	case proto.WaitSlot:
		return "(waiting for the slot" + ahead + ")"
	case proto.WaitModel:
		return "(waiting for the model)"
	case proto.WaitApproval:
		return "(waiting for your approval)"
	default:
		return "(waiting for the message before this one" + ahead + ")"
	}
}

// prefill draws how far the prompt has been read.
func prefill(m *proto.Prefill) string {
	percent := int64(100)
	if m.Total > 0 {
		percent = min(m.Done*100/m.Total, 100)
	}
	const cells = 20
	full := int(percent * cells / 100)
	bar := strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	s := fmt.Sprintf("reading %s %d%% of %s tokens", bar, percent, term.Count(m.Total))
	if m.Cached > 0 && m.Total > 0 {
		s += fmt.Sprintf(", %d%% cached", m.Cached*100/m.Total)
	}
	if fresh := m.Done - m.Cached; fresh > 0 && m.MS > 0 {
		s += fmt.Sprintf(", %s tokens/s", term.Count(fresh*1000/m.MS))
	}
	return s
}
