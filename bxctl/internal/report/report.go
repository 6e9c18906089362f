// Package report is the state of the installation in words and as JSON.
//
// It only lays out what others found; all text of a server in it is cleaned
// for the terminal.
package report

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Full is all that `bxctl status` shows.
type Full struct {
	Home  string        `json:"home"`
	Up    *Up           `json:"up,omitzero"`    // nil: no bxctl up runs
	Loopd *proto.Status `json:"loopd,omitzero"` // nil: loopd does not answer
	Error string        `json:"error,omitzero"` // why Loopd is nil
	// Broker is brokerd's own word; nil: it does not answer, or is not meant to run.
	Broker      *proto.BrokerStatus `json:"broker,omitzero"`
	BrokerError string              `json:"broker_error,omitzero"`
	// Chat is gatewayd's own word, asked for where brokerd has none of it.
	Chat      *proto.GatewayStatus `json:"chat,omitzero"`
	ChatError string               `json:"chat_error,omitzero"`
	// Systemd is the command that tells more where systemd runs the programs.
	Systemd string `json:"systemd,omitzero"`
}

// Up is the state of a running `bxctl up`.
type Up struct {
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Version string    `json:"version"`
	Model   string    `json:"model"`  // what serves the model, in words
	State   string    `json:"state"`  // running, stopping, failed
	Reason  string    `json:"reason"` // of failed
	Roles   []Role    `json:"roles"`
}

// Role is one program that up runs.
type Role struct {
	Name     string    `json:"name"`
	PID      int       `json:"pid"`   // 0: not now
	Start    uint64    `json:"start"` // kernel's start time of PID, in clock ticks since boot
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	State    string    `json:"state"`            // running, waiting, stopped
	Exit     string    `json:"exit,omitzero"`    // how it ended last time
	Reason   string    `json:"reason,omitzero"`  // what it said about that
	UID      uint32    `json:"uid"`              // that it runs as
	Missing  []string  `json:"missing,omitzero"` // protection that the kernel did not give
}

// Ended tells how the role ended last time, and why.
func (r Role) Ended() string {
	text := "ended (" + r.Exit + ")"
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Model says in a few words what answers.
func Model(s proto.Server) string {
	switch {
	case s.Practice:
		return "practice model (rules, not a language model)"
	case s.Model == "":
		return "model not known yet"
	default:
		return "model " + term.Line(s.Model)
	}
}

// Brief is a few lines for the chat.
func Brief(sc term.Screen, st *proto.Status, session string) string {
	var b strings.Builder
	b.WriteString("loopd " + strings.TrimSuffix(st.State+": "+term.Line(st.Detail), ": ") + "\n")
	fmt.Fprintf(&b, "%s, context %s tokens, %d slots\n", Model(st.Server), term.Count(st.Server.Context), st.Server.Slots)
	for _, s := range st.Slots {
		b.WriteString(slotLine(s) + "\n")
	}
	fmt.Fprintf(&b, "session %s, %d turns open in all\n", session, st.OpenTurns)
	return sc.Dim(strings.TrimRight(b.String(), "\n"))
}

func slotLine(s proto.SlotState) string {
	line := fmt.Sprintf("slot %s (id %d): ", term.Line(s.Name), s.ID)
	if s.Session == "" {
		line += "free"
	} else {
		line += "used by " + term.Line(s.Session)
	}
	if s.Waiting > 0 {
		line += fmt.Sprintf(", %d waiting", s.Waiting)
	}
	return line
}

// Text gives the whole state for people.
func (f Full) Text(sc term.Screen, now time.Time) string {
	w := &writer{sc: sc, now: now}
	w.head(f)
	if f.Up != nil {
		w.roles(f.Up)
	}
	if f.Loopd != nil {
		w.loopd(f.Loopd)
	}
	if f.Broker != nil || f.BrokerError != "" {
		w.broker(f.Broker, f.BrokerError)
	}
	w.chat(f)
	return w.b.String()
}

type writer struct {
	b   strings.Builder
	sc  term.Screen
	now time.Time
}

func (w *writer) row(name, text string) {
	w.b.WriteString(w.sc.Fold(19, fmt.Sprintf("  %-16s %s", name, text)) + "\n")
}

func (w *writer) title(s string) { w.b.WriteString("\n" + w.sc.Bold(s) + "\n") }

func (w *writer) head(f Full) {
	state := "not running"
	switch {
	case f.Loopd != nil && f.Loopd.State == "ready":
		state = w.sc.Good("ready")
	case f.Loopd != nil:
		state = w.sc.Warn(f.Loopd.State)
		if d := term.Line(f.Loopd.Detail); d != "" {
			state += " (" + d + ")"
		}
	case f.Up != nil:
		state = w.sc.Bad("loopd does not answer")
	}
	w.b.WriteString(w.sc.Bold("Boxmaker") + ": " + state + "\n")
	w.row("home", f.Home)
	if f.Systemd != "" {
		w.row("run by", "systemd; more with: "+f.Systemd)
	}
	if f.Error != "" {
		w.row("error", w.sc.Bad(term.Line(f.Error)))
	}
}

func (w *writer) roles(u *Up) {
	w.title("roles")
	w.row("up", fmt.Sprintf("pid %d, since %s, version %s", u.PID, w.since(u.Since), term.Line(u.Version)))
	if u.State != "running" {
		w.row("", w.sc.Bad(u.State+": "+term.Line(u.Reason)))
	}
	for _, r := range u.Roles {
		text := r.State
		if r.PID != 0 {
			text = fmt.Sprintf("pid %d, uid %d, since %s", r.PID, r.UID, w.since(r.Since))
		}
		if r.Restarts > 0 {
			text += w.sc.Warn(fmt.Sprintf(", restarted %d times, last: %s", r.Restarts, term.Line(r.Exit)))
		}
		if r.PID == 0 && r.Exit != "" {
			text += ", " + w.sc.Bad(term.Line(r.Ended()))
		}
		w.row(r.Name, text)
		for _, m := range r.Missing {
			w.row("", w.sc.Warn("missing: "+term.Line(m)))
		}
	}
}

func (w *writer) since(t time.Time) string {
	return term.When(t, w.now) + " (" + term.Span(w.now.Sub(t)) + ")"
}

func (w *writer) loopd(st *proto.Status) {
	w.title("model")
	w.row("server", Model(st.Server))
	if st.Server.Build != "" {
		w.row("build", term.Line(st.Server.Build))
	}
	if st.Server.Context > 0 {
		w.row("context", fmt.Sprintf("%s tokens a slot, %d slots", term.Count(st.Server.Context), st.Server.Slots))
	}
	if st.Server.Template != "" {
		w.row("template", term.Clip(term.Line(st.Server.Template), 17))
	}
	if st.Baseline > 0 {
		w.row("baseline", term.Count(st.Baseline)+" tokens of system prompt and tools")
	}
	for _, s := range st.Slots {
		w.row("slot "+term.Line(s.Name), strings.TrimPrefix(slotLine(s), "slot "+term.Line(s.Name)+" "))
	}
	if st.OpenTurns > 0 {
		w.row("open turns", term.Count(int64(st.OpenTurns)))
	}
	w.checks("self-test", st.Checks)
	w.checks("confinement of loopd", st.Confinement)
}

func (w *writer) broker(st *proto.BrokerStatus, why string) {
	w.title("authority")
	if st == nil {
		w.row("error", w.sc.Bad(term.Line(why)))
		return
	}
	state, bad := Authority(st)
	if bad {
		state = w.sc.Warn(state)
	}
	w.row("state", state)
	for _, b := range st.Broken {
		w.row("broken grant", w.sc.Bad(term.Line(b)))
	}
	w.row("audit log", fmt.Sprintf("%s records, head %.16s", term.Count(st.Head.N), term.Line(st.Head.Hash)))
	if st.Kept > 0 {
		w.row("results kept", fmt.Sprintf("%d, until loopd has logged them", st.Kept))
	}
	chat, tools := Chat(st)
	w.checks("what tools need", tools)
	w.checks("confinement of brokerd", st.Confinement)
	w.checks("chat", chat)
}

// Authority says in a line how brokerd is; warn: something is for the owner to do.
func Authority(st *proto.BrokerStatus) (text string, warn bool) {
	parts := []string{fmt.Sprintf("%d grants", st.Grants)}
	if st.Grants == 1 {
		parts[0] = "1 grant"
	}
	if n := len(st.Broken); n > 0 {
		parts, warn = append(parts, fmt.Sprintf("%d broken, which grant nothing", n)), true
	}
	if st.Running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", st.Running))
	}
	if st.Pending > 0 {
		parts, warn = append(parts, fmt.Sprintf("%d waiting for you (bxctl approvals)", st.Pending)), true
	}
	if st.Halted {
		reason := term.Line(st.HaltReason)
		if reason != "" {
			reason = " (" + reason + ")"
		}
		parts, warn = append([]string{"halted" + reason + ": everything is denied until bxctl resume"}, parts...), true
	}
	return strings.Join(parts, ", "), warn
}

func (w *writer) checks(title string, checks []proto.Check) {
	if len(checks) == 0 {
		return
	}
	w.title(title)
	wide := 0
	for _, c := range checks {
		wide = max(wide, term.Columns(term.Line(c.Name)))
	}
	paint := map[string]func(string) string{"ok": w.sc.Good, "failed": w.sc.Bad, "skipped": w.sc.Warn, "pending": w.sc.Dim}
	for _, c := range checks {
		f := paint[c.State]
		if f == nil {
			f = w.sc.Warn
		}
		name := term.Line(c.Name)
		line := "  " + f(fmt.Sprintf("%-8s", c.State)) + name
		if d := term.Line(c.Detail); d != "" {
			line += strings.Repeat(" ", wide-term.Columns(name)+2) + d
		}
		if c.Runbook != "" && c.State == "failed" {
			line += " (see runbook: " + term.Line(c.Runbook) + ")"
		}
		w.b.WriteString(w.sc.Fold(10+wide+2, line) + "\n")
	}
}
