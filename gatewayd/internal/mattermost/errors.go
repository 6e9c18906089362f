package mattermost

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Refused is the server's no: the request was understood and had no effect.
// Asking again changes nothing.
type Refused struct {
	Status int
	ID     string // the server's name for the reason, "" if it gave none
	Text   string // its words, cut and cleaned: not for a model, not for decisions
}

func (e *Refused) Error() string { return answer("refused", e.Status, e.ID, e.Text) }

// Token reports that it is the token which is refused: wrong, revoked, or its
// user disabled.
func (e *Refused) Token() bool { return e.Status == http.StatusUnauthorized }

// Gone reports that what was asked for is not there (any more).
func (e *Refused) Gone() bool { return e.Status == http.StatusNotFound }

// Failed is an error of the server (5xx), or an answer that it cannot have meant.
// To a request that changes something it comes inside an Unsure.
type Failed struct {
	Status int
	ID     string
	Text   string
}

func (e *Failed) Error() string { return answer("failed", e.Status, e.ID, e.Text) }

// Busy is the server's "too many requests". The request had no effect.
type Busy struct{ After time.Duration }

func (e *Busy) Error() string {
	return fmt.Sprintf("the Mattermost server wants fewer requests, and a pause of %s", e.After)
}

// Unsure is a request that should have changed something and may have: it was
// sent, or a part of it, and no answer tells. Look before sending it again. Every
// other error of such a request means that nothing was changed.
type Unsure struct{ Err error }

func (e *Unsure) Error() string { return "sent, but not known whether it was done: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Unsure) Unwrap() error { return e.Err }

// ErrTooBig reports an answer, a frame or a file over the limits of this package.
var ErrTooBig = errors.New("over the limit of what is read from a Mattermost server")

// TokenRefused reports an error that no waiting mends: the token does not count.
func TokenRefused(err error) bool {
	var r *Refused
	return errors.As(err, &r) && r.Token()
}

func answer(what string, status int, id, text string) string {
	s := fmt.Sprintf("the Mattermost server %s it (%d %s)", what, status, http.StatusText(status))
	if id != "" {
		s += " " + id
	}
	if text != "" {
		s += ": " + text
	}
	return s
}

func isTooBig(err error) bool { return errors.Is(err, ErrTooBig) }

func isGone(err error) bool {
	var r *Refused
	return errors.As(err, &r) && r.Gone()
}
