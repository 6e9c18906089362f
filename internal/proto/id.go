package proto

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrID reports an identifier outside its alphabet or length.
var ErrID = errors.New("proto: bad identifier")

// MaxSessionID is the longest session id, in bytes.
const MaxSessionID = 64

// CheckSession reports whether id is a session id: [a-z0-9-]{1,64}.
// The alphabet has no dot and no slash, so an id is always a safe file name.
func CheckSession(id string) error {
	if len(id) == 0 || len(id) > MaxSessionID {
		return fmt.Errorf("%w: a session id has 1 to %d characters", ErrID, MaxSessionID)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%w: a session id has only a-z, 0-9 and '-'", ErrID)
		}
	}
	return nil
}

// CheckToken reports whether s is an opaque token such as an origin id or an
// approval id: [A-Za-z0-9_-]{1,64}.
func CheckToken(s string) error {
	if len(s) == 0 || len(s) > 64 {
		return fmt.Errorf("%w: a token has 1 to 64 characters", ErrID)
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("%w: a token has only letters, digits, '-' and '_'", ErrID)
		}
	}
	return nil
}

// CheckHash reports whether s is a SHA-256 in hex: [0-9a-f]{64}.
func CheckHash(s string) error {
	if len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: a hash has 64 hex digits in lower case", ErrID)
	}
	return nil
}

// A CallID names one tool call by its place in the session log, so that it is
// the same before and after a crash: session, epoch (from 1), number of the
// assistant record in the epoch's log, index of the call in that message.
type CallID struct {
	Session string
	Epoch   int
	Record  int64
	Index   int
}

// String gives session/epoch/record/index.
func (c CallID) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", c.Session, c.Epoch, c.Record, c.Index)
}

// ParseCallID reads what [CallID.String] wrote, and nothing else.
func ParseCallID(s string) (CallID, error) {
	p := strings.Split(s, "/")
	if len(p) != 4 {
		return CallID{}, fmt.Errorf("%w: a call id has four parts", ErrID)
	}
	epoch, err1 := strconv.Atoi(p[1])
	record, err2 := strconv.ParseInt(p[2], 10, 64)
	index, err3 := strconv.Atoi(p[3])
	c := CallID{Session: p[0], Epoch: epoch, Record: record, Index: index}
	if err := errors.Join(err1, err2, err3, CheckSession(p[0])); err != nil {
		return CallID{}, fmt.Errorf("%w: call id: %w", ErrID, err)
	}
	if c.String() != s || epoch < 1 || record < 0 || index < 0 {
		return CallID{}, fmt.Errorf("%w: call id not in canonical form", ErrID)
	}
	return c, nil
}

// timeForm is RFC 3339 in UTC with milliseconds, always the same length.
const timeForm = "2006-01-02T15:04:05.000Z"

// Time formats t as records and messages carry it.
func Time(t time.Time) string { return t.UTC().Format(timeForm) }

// ParseTime reads what [Time] wrote, and nothing else.
func ParseTime(s string) (time.Time, error) { return parseTime(s) }

var errTime = errors.New("proto: bad time")

// parseTime is by hand, since every line of every log has a time: it takes a
// third of what time.Parse and a comparison of the form take.
func parseTime[T string | []byte](s T) (time.Time, error) {
	if len(s) != len(timeForm) {
		return time.Time{}, fmt.Errorf("%w: %d characters in the place of %d", errTime, len(s), len(timeForm))
	}
	var parts [7]int
	for i, part := 0, 0; i < len(s); i++ {
		switch want := timeForm[i]; {
		case want < '0' || want > '9':
			if s[i] != want {
				return time.Time{}, fmt.Errorf("%w: no %q at place %d", errTime, want, i)
			}
			part++
		case s[i] < '0' || s[i] > '9':
			return time.Time{}, fmt.Errorf("%w: no digit at place %d", errTime, i)
		default:
			parts[part] = parts[part]*10 + int(s[i]-'0')
		}
	}
	t := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], parts[6]*int(time.Millisecond), time.UTC)
	if parts[1] < 1 || t.Month() != time.Month(parts[1]) || t.Day() != parts[2] || parts[3] > 23 || parts[4] > 59 || parts[5] > 59 {
		return time.Time{}, fmt.Errorf("%w: there is no such day or hour", errTime)
	}
	return t, nil
}
