package session

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

var (
	errCorrupt    = appendlog.ErrCorrupt
	errNoBaseline = fmt.Errorf("%w: the first record is not a baseline", proto.ErrRecord)
	errTaken      = fmt.Errorf("%w: its log was taken away, or replaced, while it was open", errCorrupt)
)

// An Error is a log that cannot be used, said to the owner. It turns into a
// *[proto.Error] by errors.As, and its cause is found by errors.Is.
type Error struct {
	Session string // "" if it is about the whole folder
	Runbook string // key in docs/runbook.md
	// Unchanged: nothing was written, so the log is as it was before the call. The
	// session should be closed; it can be opened anew, in this process.
	Unchanged bool

	text  string
	cause error
}

// Error says what happened, what it means and what to do.
func (e *Error) Error() string { return e.text + " (see runbook: " + e.Runbook + ")" }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.cause }

// As makes the error a *proto.Error for a client.
func (e *Error) As(target any) bool {
	p, ok := target.(**proto.Error)
	if ok {
		*p = &proto.Error{Code: proto.ErrSessionLog, Text: e.text, Runbook: e.Runbook}
	}
	return ok
}

const keptStart = "What was accepted is kept; free some space and start loopd again"

// problem turns what failed in a session's folder into an [Error].
func problem(id string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Session: id, cause: err}
	where := "the log of session " + id
	if id == "" {
		where = "the folder of sessions"
	}
	fact := firstClause(err)
	switch {
	case errors.Is(err, appendlog.ErrLocked):
		e.Runbook = "second-loopd"
		e.text = where + " is in use by another loopd, and two would spoil each other's files; use that one, or end it first (bxctl status shows it)"
	case errors.Is(err, proto.ErrVersion):
		e.Runbook = "session-version"
		e.text = where + " was written by another version of Boxmaker: " + fact + ". Nothing was changed; use the version that wrote it, or a newer one"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		e.Runbook = "disk-full"
		e.text = "the disk is full, so " + where + " takes nothing more: " + fact + ". " + keptStart
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		e.Runbook = "state-read-only"
		e.text = where + " cannot be read and written: " + fact + ". Nothing was changed; give the user that loopd runs as read and write rights there, or mount it writable"
	case errors.Is(err, errCorrupt), errors.Is(err, proto.ErrRecord):
		e.Runbook = "session-corrupt"
		e.text = where + " is damaged: " + fact + ". Nothing was changed, and the session cannot go on; put its folder back from a backup, or move it away to go on without it"
	default:
		e.Runbook = "session-io"
		e.text = where + " cannot be used: " + fact + ". What was accepted is kept as far as the disk is sound; look at the kernel's log, then start loopd again"
	}
	return e
}

// unchanged is problem for what failed before anything was written.
func unchanged(id string, err error) error {
	err = problem(id, err)
	var e *Error
	if errors.As(err, &e) {
		e.Unchanged = true
		e.text = strings.Replace(e.text, keptStart, "Nothing was changed; free some space, then send the message again", 1)
	}
	return err
}

// Unchanged reports whether err is an [Error] that says so.
func Unchanged(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unchanged
}

// firstClause drops the advice that errors of appendlog carry behind a semicolon,
// and puts a joined error on one line.
func firstClause(err error) string {
	text := strings.Replace(err.Error(), appendlog.ErrBroken.Error()+": ", "", 1) // the reason stands behind it
	fact, _, _ := strings.Cut(text, "; ")
	return strings.Join(strings.Fields(strings.ReplaceAll(fact, "\n", ": ")), " ")
}
