package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"boxmaker/bxctl/internal/approval"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
)

// Messages about approvals. They come from brokerd, over its socket for the
// owner; what loopd says of an approval is never shown as one.
type (
	// Approval is a call that waits for the owner.
	Approval struct{ Approval *proto.Approval }
	// Retracted says that one waits no more.
	Retracted struct{ Retracted *proto.Retracted }
	// OwnerGone says that the socket can't be reached, and why.
	OwnerGone struct{ Err error }
	// OwnerBack says that it is reached: what waits comes now, once more.
	OwnerBack struct{}
	// Decided is what came of a Decide.
	Decided struct {
		Approval *proto.Approval
		Got      *proto.Answered
		Err      error
	}
)

// Decide gives the owner's answer to an approval, and Decided.
type Decide struct {
	Approval *proto.Approval
	Verdict  proto.Verdict
}

func (Decide) effect() {}

// guard is how long an approval must have been on the screen before a key can
// answer it: keys that were on their way when it appeared were not meant for it.
const guard = time.Second

// forgotten is how long an approval may stay unmentioned after brokerd came back.
const forgotten = 2 * time.Second

// asking is one approval that waits.
type asking struct {
	a     *proto.Approval
	shown time.Time // when it appeared; zero: it is of another session, or was not shown yet
	width int       // of the window then
	sent  bool      // the answer is under way
	over  bool      // its call has a result; brokerd's word on how it ended is on its way
	stale time.Time // brokerd came back then, and has not named it since
}

// oversight is what the chat knows of approvals.
type oversight struct {
	asks  []*asking
	gone  error  // why brokerd can't be reached; nil: it is
	focus string // the approval that keys are for; empty: they are for the text
	note  string // beside the keys
}

// approvalEvent takes what concerns approvals; false: something else.
func (m *Model) approvalEvent(msg any) bool {
	switch msg := msg.(type) {
	case Approval:
		m.waits(msg.Approval)
	case Retracted:
		m.retracted(msg.Retracted)
	case Decided:
		m.decided(msg)
	case OwnerGone:
		first := m.over.gone == nil
		m.over.gone = msg.Err
		if first && len(m.jobs) > 0 && m.jobs[0].ask != nil {
			m.unreachable(m.jobs[0].ask)
		}
	case OwnerBack:
		m.over.gone = nil
		for _, k := range m.over.asks {
			k.stale = m.cfg.Now()
		}
	default:
		return false
	}
	return true
}

func (m *Model) asking(id string) *asking {
	for _, k := range m.over.asks {
		if k.a.Approval == id {
			return k
		}
	}
	return nil
}

func (m *Model) waits(a *proto.Approval) {
	if k := m.asking(a.Approval); k != nil {
		k.stale = time.Time{}
		return
	}
	m.over.asks = append(m.over.asks, &asking{a: a})
	m.showAsks()
}

// showAsks shows what waits in this session and was not shown.
func (m *Model) showAsks() {
	for _, k := range m.over.asks {
		if k.shown.IsZero() && k.a.Session == m.cfg.Session {
			m.show(k, false)
		}
	}
}

// show finishes the lines of an approval.
func (m *Model) show(k *asking, whole bool) {
	if len(m.jobs) > 0 && m.jobs[0].md != nil { // the lines stand between two blocks
		m.say(m.jobs[0].md.Close()...)
		m.jobs[0].md = nil
	}
	o := approval.Options{
		Width: m.room(), Screen: m.sc, Now: m.cfg.Now(), Fold: "Ctrl-X u",
		Hint: "Ctrl-X answers it, or /approve " + term.Line(k.a.Code) + ", /deny " + term.Line(k.a.Code),
	}
	if whole {
		o.Fold = ""
	}
	m.say("")
	m.say(approval.Lines(k.a, o)...)
	m.say("")
	k.shown, k.width = m.cfg.Now(), m.width
}

// drop takes an approval away, and tells why if it was shown.
func (m *Model) drop(k *asking, why string) {
	m.over.asks = slices.DeleteFunc(m.over.asks, func(o *asking) bool { return o == k })
	if m.over.focus == k.a.Approval {
		m.over.focus, m.over.note = "", ""
	}
	if len(m.jobs) > 0 && m.jobs[0].wait != nil && m.jobs[0].wait.Reason == proto.WaitApproval && m.first() == nil {
		m.jobs[0].wait = nil
	}
	if why != "" && !k.shown.IsZero() {
		m.say("")
		m.say(why)
		m.say("")
	}
}

func (m *Model) retracted(r *proto.Retracted) {
	if k := m.asking(r.Approval); k != nil {
		m.drop(k, m.ended(k.a, r.Verdict, r.By, r.Channel))
	}
}

// ended is the line about an approval's end.
func (m *Model) ended(a *proto.Approval, v proto.Verdict, by, channel string) string {
	mark, paint := "✗ ", m.sc.Warn
	what := "was " + string(v)
	switch v {
	case proto.VerdictApproved:
		mark, paint = "✓ ", m.sc.Good
	case proto.VerdictExpired:
		what = "has expired, and was denied"
	case proto.VerdictDenied, proto.VerdictWithdrawn:
	default:
		what = "ended"
	}
	s := mark + term.Line(a.Tool) + " (" + term.Line(a.Code) + ") " + what
	if by != "" {
		s += " by " + term.Line(by)
	}
	if channel != "" {
		s += " in " + term.Line(channel)
	}
	return paint(term.Clip(s, m.room()))
}

func (m *Model) decided(d Decided) {
	k := m.asking(d.Approval.Approval)
	switch {
	case d.Err != nil:
		if k != nil {
			k.sent = false
		}
		m.say("")
		m.text(strings.TrimRight(fault.Text(d.Err), "\n"), m.sc.Warn)
		m.say("")
	case k != nil: // else its end was told already
		if !d.Got.First {
			m.say("", m.sc.Warn("(somebody answered before you)"))
		}
		m.drop(k, m.ended(k.a, d.Got.Verdict, d.Got.By, d.Got.Channel))
	}
}

// asked takes loopd's word that a call waits. What waits is brokerd's to say.
func (m *Model) asked(t *turn, e *proto.Asked) {
	t.ask = e
	if m.asking(e.Approval) == nil && m.over.gone != nil {
		m.unreachable(e)
	}
}

func (m *Model) unreachable(e *proto.Asked) {
	m.say("")
	m.warn("a call waits for your approval until " + m.clock(e.Expires) + ", and brokerd can't be asked from here:")
	m.text(strings.TrimRight(fault.Text(m.over.gone), "\n"), m.sc.Warn)
	m.warn("answer it where brokerd can be reached: bxctl approvals, bxctl approve CODE")
	m.say("")
}

// forget drops what brokerd does not know any more.
func (m *Model) forget() {
	for _, k := range slices.Clone(m.over.asks) {
		if !k.stale.IsZero() && m.cfg.Now().Sub(k.stale) > forgotten {
			why := m.sc.Dim("(" + term.Line(k.a.Tool) + ", " + term.Line(k.a.Code) + ", waits no more)")
			if k.over {
				why = ""
			}
			m.drop(k, why)
		}
	}
}

// settled ends the approval of a call that has its result. loopd and brokerd
// tell by ways of their own, so that the end may be told after it.
func (m *Model) settled(call string) {
	for _, k := range slices.Clone(m.over.asks) {
		if k.a.Call == call {
			k.over, k.sent, k.stale = true, true, m.cfg.Now()
			if m.over.focus == k.a.Approval {
				m.over.focus, m.over.note = "", ""
			}
		}
	}
}

// first gives what waits in this session, the oldest that is not answered.
func (m *Model) first() *asking {
	for _, k := range m.over.asks {
		if k.a.Session == m.cfg.Session && !k.shown.IsZero() && !k.sent {
			return k
		}
	}
	return nil
}

// focusOn is Ctrl-X: keys are for the approval now.
func (m *Model) focusOn() {
	k := m.first()
	switch {
	case k == nil:
		m.say1("(nothing waits for your approval in this session)")
	case m.tooNarrow():
	case m.width < k.width:
		m.show(k, false) // the terminal broke its rows anew
	case m.cfg.Now().Sub(k.shown) < guard: // the key was not meant for it
	default:
		m.over.focus = k.a.Approval
	}
}

// tooNarrow reports, and says, that a call can't be shown whole, so that nobody
// can answer it here.
func (m *Model) tooNarrow() bool {
	if m.width >= approval.MinWidth {
		return false
	}
	m.say1("(make the window wider to see the call: %d columns)", approval.MinWidth)
	return true
}

// focusKey takes a key for the approval; false: it was not one, and is for the
// text again. Capital letters, so that a word that is typed on does nothing.
func (m *Model) focusKey(k tea.KeyPressMsg) ([]Effect, bool) {
	a := m.asking(m.over.focus)
	if a == nil {
		m.over.focus = ""
		return nil, false
	}
	switch {
	case k.Text == "A":
		return m.decide(a, proto.VerdictApproved), true
	case k.Text == "D":
		return m.decide(a, proto.VerdictDenied), true
	case k.Text == "a" || k.Text == "d":
		m.over.note = "capital letters"
		return nil, true
	case k.Text == "u":
		m.show(a, true)
		return nil, true
	}
	name := k.Keystroke()
	m.over.focus, m.over.note = "", ""
	return nil, name == "esc" || name == "ctrl+x" || name == "enter" || name == "kpenter"
}

func (m *Model) decide(k *asking, v proto.Verdict) []Effect {
	m.over.focus, m.over.note, k.sent = "", "", true
	return []Effect{Decide{k.a, v}}
}

// answerCommand is /approve and /deny.
func (m *Model) answerCommand(name, code string) []Effect {
	var k *asking
	for _, o := range m.over.asks {
		if strings.EqualFold(o.a.Code, code) {
			k = o
		}
	}
	switch {
	case k == nil && code == "":
		m.say1("(%s takes the code of what waits; /approvals shows it)", name)
	case k == nil:
		m.say1("(no approval with that code waits)")
	case k.sent:
		m.say1("(it is being answered)")
	case m.tooNarrow():
	case k.shown.IsZero() || m.width < k.width:
		m.show(k, false)
		m.say1("(look at it, and answer again)")
	case name == "/approve":
		return m.decide(k, proto.VerdictApproved)
	default:
		return m.decide(k, proto.VerdictDenied)
	}
	return nil
}

// showAll is /approvals: also those of other sessions.
func (m *Model) showAll() {
	for _, k := range m.over.asks {
		m.show(k, false)
	}
	switch {
	case m.over.gone != nil:
		m.say("")
		m.text(strings.TrimRight(fault.Text(m.over.gone), "\n"), m.sc.Warn)
	case len(m.over.asks) == 0:
		m.say1("(nothing waits for your approval)")
	}
}

// askLines is what waits, in the live part.
func (m *Model) askLines() []string {
	var out []string
	for _, k := range m.over.asks {
		if k.a.Session != m.cfg.Session || k.shown.IsZero() || k.over {
			continue
		}
		head, end := "‖ "+term.Line(k.a.Tool)+" ("+term.Line(k.a.Code)+") waits", " for you · Ctrl-X answers · "+m.left(k.a.Expires)
		if term.Columns(head+end) > m.room() {
			end = " · Ctrl-X · " + m.left(k.a.Expires)
		}
		if k.sent {
			end = " · being answered"
		}
		if len(out) > 3 { // the rest shows when these are answered
			continue
		}
		out = append(out, m.sc.Warn(term.Clip(term.Clip(head, m.room()-term.Columns(end))+end, m.room())))
	}
	if n := m.elsewhere(); n > 0 {
		out = append(out, m.sc.Dim(term.Clip(fmt.Sprintf("‖ %d more in other sessions: /approvals", n), m.room())))
	}
	return out
}

func (m *Model) elsewhere() (n int) {
	for _, k := range m.over.asks {
		if k.a.Session != m.cfg.Session {
			n++
		}
	}
	return n
}

// left says how long there is, in steps that do not flicker.
func (m *Model) left(expires string) string {
	t, err := proto.ParseTime(expires)
	if err != nil {
		return ""
	}
	switch d := t.Sub(m.cfg.Now()); {
	case d <= 0:
		return "expires now"
	case d < time.Minute:
		return fmt.Sprintf("expires in %d s", int(d/time.Second)+1)
	default:
		return fmt.Sprintf("expires in %d min", int((d+30*time.Second)/time.Minute))
	}
}

// focusLines replace the last line while keys are for an approval. They say
// which one once more: an answer of the model may look like the frame above.
func (m *Model) focusLines() []string {
	k := m.asking(m.over.focus)
	if k == nil {
		return nil
	}
	s := "A approve · D deny · u unfold · Esc later"
	if m.over.note != "" {
		s += " (" + m.over.note + ")"
	}
	return []string{m.sc.Warn(approval.Line(k.a, approval.Options{Width: m.room()})), m.sc.Bold(term.Clip(s, m.room()))}
}

// codeChoices offers what waits to /approve and /deny.
func (m *Model) codeChoices(word, prefix string) []choice {
	var out []choice
	for _, k := range m.over.asks {
		if code := term.Line(k.a.Code); !k.sent && strings.HasPrefix(strings.ToLower(code), strings.ToLower(prefix)) {
			out = append(out, choice{word + code, code, approval.Line(k.a, approval.Options{Width: m.room()})})
		}
	}
	return out
}
