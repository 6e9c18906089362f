package audit

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// result gives the word that says how a record ended, and whether that is
// good, bad, or neither.
func result(r proto.AuditRecord) (word string, mood int) {
	switch r := r.(type) {
	case *proto.AuditDecision:
		return string(r.Verdict), map[proto.Verdict]int{proto.VerdictAllow: 1, proto.VerdictDeny: -1}[r.Verdict]
	case *proto.AuditApproval:
		mood := -1
		if r.Verdict == proto.VerdictApproved && r.Code == "" {
			mood = 1
		}
		return string(r.Verdict), mood
	case *proto.AuditOutcome:
		mood := -1
		if r.Outcome == proto.CallOK {
			mood = 1
		}
		return string(r.Outcome), mood
	case *proto.AuditHalt:
		if r.Halted {
			return "halted", -1
		}
		return "resumed", 1
	case *proto.AuditLimited:
		return "limited", -1
	default:
		return r.Kind(), 0
	}
}

// Human gives a record as one line. It is cut to the width of a terminal.
func (e Entry) Human(s term.Screen, now time.Time) string {
	word, mood := result(e.Record)
	paint := map[int]func(string) string{1: s.Good, -1: s.Bad, 0: s.Dim}[mood]
	head := fmt.Sprintf("%-15s %5d  ", clock(e.Header.Time, now), e.Header.N)
	rest := fmt.Sprintf("  %-12s %s", term.Line(e.Tool), term.Line(e.Session))
	if e.Call == "" {
		rest = ""
	}
	if d := e.detail(); d != "" {
		rest += "  " + term.Line(d)
	}
	if s.Terminal {
		rest = term.Clip(rest, s.Width()-term.Columns(head)-10)
	}
	return s.Dim(head) + paint(fmt.Sprintf("%-9s", word)) + rest
}

// clock gives a time to the second, in the zone of now, with the day unless it
// is today.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04:05")
	default:
		return t.Format(time.DateOnly + " 15:04")
	}
}

// Records says how long a log with that head is.
func Records(h proto.AuditHead) string { return many(h.N, "record") }

func many(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return term.Count(n) + " " + what
}

// detail is what stands behind the columns. It is not safe for a terminal.
func (e Entry) detail() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch r := e.Record.(type) {
	case *proto.AuditDecision:
		if r.Code != "" {
			add("%s", r.Code)
		}
		add("%s", r.Args)
		if r.Grant != "" {
			add("grant %s", r.Grant)
		}
	case *proto.AuditApproval:
		if r.By != "" {
			add("by %s in %s", r.By, r.Channel)
		}
		if r.Code != "" {
			add("%s", r.Code)
		}
	case *proto.AuditOutcome:
		if r.Code != "" {
			add("%s", r.Code)
		}
		add("%s in %s", term.Bytes(r.Bytes), term.Span(time.Duration(r.MS)*time.Millisecond))
		add("%s", seen(r.Class, r.Untrusted))
		for _, c := range r.Egress {
			add("%s", connection(c))
		}
		if r.More > 0 {
			add("%s more", many(r.More, "connection"))
		}
	case *proto.AuditStart:
		add("brokerd %s, process %d", r.Version, r.PID)
		for _, h := range r.Lost {
			add("the owner accepted that the log, once %s long (%.12s…), lost its end or is another one", many(h.N, "record"), h.Hash)
		}
	case *proto.AuditRecovered:
		add("%s at the end were cut short by a crash; they are in %s", term.Bytes(r.Bytes), r.File)
	case *proto.AuditCheckpoint:
		add("a head of %s was given out", many(r.Head.N, "record"))
	case *proto.AuditLimited:
		add("%s came faster than brokerd takes them, and were refused without a record each; the first in session %s", many(r.Refused, "call"), r.Session)
	case *proto.AuditHalt:
		add("by %s", r.By)
		if r.Reason != "" {
			add("%s", r.Reason)
		}
	}
	return strings.Join(parts, ", ")
}

func seen(c proto.Class, untrusted bool) string {
	if untrusted {
		return string(c) + ", untrusted"
	}
	return string(c)
}

func connection(c proto.EgressConn) string {
	text := fmt.Sprintf("%s %s", c.Host, c.Verdict)
	if c.Verdict == proto.EgressPassed || c.Sent+c.Received > 0 {
		text += fmt.Sprintf(" (%s out, %s in)", term.Bytes(c.Sent), term.Bytes(c.Received))
	}
	return text
}

// Long gives a record with all its members, a line each. Every value is
// harmless for a terminal, and none can pass for a line of ours: it is
// indented as far as its column, and its own line breaks are too.
func (e Entry) Long(s term.Screen, now time.Time) string {
	var b strings.Builder
	word, _ := result(e.Record)
	fmt.Fprintf(&b, "%s\n", s.Bold(fmt.Sprintf("record %d: %s %s", e.Header.N, e.Record.Kind(), word)))
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-11s %s\n", name, strings.ReplaceAll(term.Safe(value), "\n", "\n"+strings.Repeat(" ", 14)))
		}
	}
	row("time", e.Header.Time.In(now.Location()).Format("Mon 2 Jan 2006 15:04:05.000 MST"))
	row("call", e.Call)
	row("tool", e.Tool)
	switch r := e.Record.(type) {
	case *proto.AuditDecision:
		row("arguments", r.Args)
		row("code", string(r.Code))
		row("grant", r.Grant)
		row("grant hash", r.GrantHash)
		row("session", "has seen "+seen(r.Taint, r.Untrusted))
		row("approval", r.Approval)
		row("expires", local(r.Expires, now))
		row("digest", r.Digest)
	case *proto.AuditApproval:
		row("approval", r.Approval)
		row("by", r.By)
		row("channel", r.Channel)
		row("code", string(r.Code))
		row("digest", r.Digest)
	case *proto.AuditOutcome:
		row("code", string(r.Code))
		row("result", fmt.Sprintf("%s in %s, %s", term.Bytes(r.Bytes), term.Span(time.Duration(r.MS)*time.Millisecond), seen(r.Class, r.Untrusted)))
		row("hash", r.Hash)
		for _, c := range r.Egress {
			row("connection", strings.TrimSpace(connection(c)+" "+c.Address))
		}
		if r.More > 0 {
			row("", many(r.More, "connection")+" more")
		}
		row("detail", r.Detail)
	default:
		row("", e.detail())
	}
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	row("in", where)
	row("prev", e.Header.Prev)
	return b.String()
}

func local(at string, now time.Time) string {
	t, err := proto.ParseTime(at)
	if err != nil {
		return at
	}
	return t.In(now.Location()).Format("Mon 2 Jan 2006 15:04:05 MST")
}
