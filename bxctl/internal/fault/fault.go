// Package fault is an error that the owner meets: what happened, what it
// means, what to do next, and the key of its section in docs/runbook.md.
//
// It guarantees that each has an exit code of the documented set and that its
// text is one that a terminal can take as it is. It does not log and does not
// exit.
package fault

import (
	"errors"
	"strings"

	"boxmaker/bxctl/internal/term"
)

// Exit codes of bxctl. They are part of its interface.
const (
	OK         = 0
	Failed     = 1 // it was tried and did not work
	Usage      = 2 // it was not tried: a wrong flag, argument, message or setting
	NotRunning = 3 // Boxmaker does not run here
	Unanswered = 4 // the turn ended without an answer
)

// A Fault is an error for the owner. What is required, all else is optional.
type Fault struct {
	Code  int    // exit code; 0 means Failed
	What  string // what happened, lower case, no full stop
	Means string // what it means
	Do    string // what to do
	Key   string // section of docs/runbook.md
	Tail  []string
	Err   error // cause, printed after What
}

// Error gives the whole text in one line, without Tail.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.head())
	for _, s := range []string{f.Means, f.Do} {
		if s != "" {
			b.WriteString("; ")
			b.WriteString(s)
		}
	}
	if f.Key != "" {
		b.WriteString(" (see runbook: " + f.Key + ")")
	}
	return b.String()
}

func (f *Fault) head() string {
	switch {
	case f.Err == nil:
		return f.What
	case f.Key == "":
		return f.What + ": " + f.Err.Error()
	}
	return f.What + ": " + withoutKey(f.Err.Error())
}

// withoutKey takes the runbook keys out of a cause: the fault names one.
func withoutKey(s string) string {
	for {
		head, rest, ok := strings.Cut(s, " (see runbook: ")
		_, tail, closed := strings.Cut(rest, ")")
		if !ok || !closed {
			return s
		}
		s = head + tail
	}
}

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Code gives the exit code that belongs to err; 0 for nil.
func Code(err error) int {
	var f *Fault
	switch {
	case err == nil:
		return OK
	case errors.As(err, &f) && f.Code != 0:
		return f.Code
	default:
		return Failed
	}
}

// Text gives what is printed of err: a line with what happened, then an
// indented line for each other part. All of it is safe for a terminal.
func Text(err error) string {
	var f *Fault
	if !errors.As(err, &f) {
		return "bxctl: " + term.Safe(err.Error()) + "\n"
	}
	lines := []string{"bxctl: " + indent(f.head())}
	if f.Means != "" {
		lines = append(lines, "  "+indent(f.Means))
	}
	if f.Do != "" {
		lines = append(lines, "  "+indent(f.Do))
	}
	if f.Key != "" {
		lines = append(lines, "  (see runbook: "+f.Key+")")
	}
	if len(f.Tail) > 0 {
		lines = append(lines, "  last lines:")
		for _, t := range f.Tail {
			lines = append(lines, "    "+term.Line(t))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func indent(s string) string {
	return strings.ReplaceAll(strings.TrimRight(term.Safe(s), "\n"), "\n", "\n  ")
}

// Line gives err in one line that is safe for a terminal.
func Line(err error) string { return term.Line(err.Error()) }
