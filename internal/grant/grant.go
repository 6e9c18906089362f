// Package grant reads the owner's grants and says which of them decides on a
// call. brokerd decides by it, bxctl checks and explains by it, so that both
// always say the same.
//
// It guarantees: a file that is not wholly understood grants nothing, and
// changes nothing about the other files; without a grant that fits, the answer
// is no; a deny that fits wins over everything; more deny files never allow
// more. [Set.Decide] is pure: the same files, call, taint and time give the
// same verdict.
//
// It does not look at the file system that grants are about. That a granted
// path is the file the owner meant is checked when it is mounted, and which
// address a host name has is checked when it is dialled. A deny of a path
// refuses calls that name it; against a link in a granted tree that leads
// there, [Verdict] says what has to be hidden from the container.
package grant

import (
	"time"

	"boxmaker/internal/proto"
)

// Mode says what a grant does with a call that it fits.
type Mode string

// Modes, from the one that gives most to the one that gives least.
const (
	Auto Mode = "auto" // run it
	Ask  Mode = "ask"  // ask the owner
	Deny Mode = "deny" // refuse it, whatever other grants say
)

func (m Mode) known() bool { return m == Auto || m == Ask || m == Deny }

// rank orders the modes; a higher one gives less.
func (m Mode) rank() int {
	switch m {
	case Auto:
		return 0
	case Ask:
		return 1
	default:
		return 2
	}
}

// A Grant is one file of the owner. A Grant that [Set] holds has passed every
// check; it is shared and must not be changed.
type Grant struct {
	ID            string // file name
	Hash          string // SHA-256, hex, of the file's bytes
	Tool          string
	Mode          Mode
	ModeUntrusted Mode // once the session has seen untrusted text; never gives more than Mode
	Expires       time.Time
	Reason        string
	MaxTaint      proto.Class // highest taint of the session under which it allows
	ResultClass   proto.Class // label of what comes back
	Untrusted     bool        // what comes back is untrusted text
	Paths         Paths
	Net           Net
	Args          []Constraint // by name of the argument
	Limits        Limits
	Secrets       Secrets
	Userland      Userland
}

// Paths are trees: each path stands for itself and all below it. They are
// absolute and clean.
type Paths struct {
	Read  []string // may be read
	Write []string // may be written, and read too
}

// Net is where a call may connect to.
type Net struct {
	Hosts []string // host:port in lower case; "*.example.com:443" for all names below example.com
	Local []string // those of Hosts that may have a private address
}

// Limits of one call. Zero means that the file says nothing.
type Limits struct {
	CallsPerHour int
	Time         time.Duration
	Memory       int64 // bytes
	Output       int64 // bytes
	PIDs         int64
}

// Secrets names what the call may use; values are never here.
type Secrets struct {
	Names  []string // handed to the tool over an inherited descriptor
	Inject []Inject // added to its requests outside of the container
}

// Inject adds a header with a secret to requests for one host.
type Inject struct {
	Name   string // of the secret
	Host   string // host:port, one of Net.Hosts
	Header string
	Prefix string // before the value, such as "Bearer "
}

// Userland says what programs run and shell find.
type Userland struct {
	Kind proto.Userland
	Root string // for proto.UserlandRoot
}

// ModeFor is the mode for a session that has seen untrusted text, or not.
func (g *Grant) ModeFor(untrusted bool) Mode {
	if untrusted {
		return g.ModeUntrusted
	}
	return g.Mode
}

// Expired reports whether the grant allows nothing any more at a time. A deny
// that has expired denies nothing any more.
func (g *Grant) Expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// A Problem is a fault of a grant file, or something in it that the owner
// should know.
type Problem struct {
	File    string // file name in the folder; empty if it is about the folder
	Line    int    // from 1; 0 if it has no line
	What    string // what is wrong
	Do      string // how to mend it
	Runbook string // section of docs/runbook.md
	Warning bool   // the file grants what it says all the same

	key string // of the file, whose line it is
}

// A Set is what the folder held when it was read. It is shared and must not be
// changed.
type Set struct {
	Grants   []*Grant  // in the order of their file names
	Broken   []Problem // of files that grant nothing; a deny among them denies all calls of its tool
	Warnings []Problem // of files that grant what they say
}
