package config

import (
	"fmt"
	"strings"
)

// Error is a fault of a config file or of where files live, told so that the
// owner can mend it. It never holds a value that looks like a secret.
type Error struct {
	File    string // as it was given to [Load]; empty if no file is at fault
	Line    int    // from 1; 0 if the fault has no line
	Key     string // dotted, such as "server.idle"; empty if no key is at fault
	What    string // what happened
	Do      string // what the owner can do about it
	Runbook string // key in docs/runbook.md
	Err     error  // the cause, for errors.Is; may be nil
}

// Error gives "file:line: what; do (see runbook: key)".
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.What)
	if e.Do != "" {
		b.WriteString("; " + e.Do)
	}
	if e.Runbook != "" {
		b.WriteString(" (see runbook: " + e.Runbook + ")")
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalid is for Validate methods: the value of key (dotted) is not usable, and
// why. [Load] adds the file and the line.
func Invalid(key, format string, args ...any) *Error {
	return &Error{Key: key, What: fmt.Sprintf("%q: ", key) + fmt.Sprintf(format, args...), Runbook: "config-bad-value"}
}
