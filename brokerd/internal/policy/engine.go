package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"boxmaker/brokerd/internal/audit"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// Log is what the Engine needs of the audit log. That a record is synced is
// said by the Ref, which package audit alone can make.
type Log interface {
	Append(r proto.AuditRecord) (audit.Ref, error)
}

// Taint says what a session has seen. With an error it gives the worst.
type Taint interface {
	Get(session string) (class proto.Class, untrusted bool, err error)
}

// Config is what an Engine works with.
type Config struct {
	Audit   Log
	Grants  *grant.Dir
	Taint   Taint
	History *History // of the whole log
	Now     func() time.Time
	// Trouble is told what denied although no grant says so: grants or taint
	// that can't be read. nil if nobody wants to know.
	Trouble func(error)
}

// An Engine decides on calls, one at a time: what it reads of grants, taint and
// history holds until its record is written.
type Engine struct {
	cfg Config
	mu  sync.Mutex
}

// New makes an Engine.
func New(c Config) *Engine { return &Engine{cfg: c} }

// A Request is a call that wants a decision.
type Request struct {
	Call     *proto.Call
	Halted   bool          // the owner stopped everything
	Approval func() string // makes the id of an approval, if it comes to one
	Expires  time.Time     // of that approval
}

// A Ruling is what was decided: [Allowed], [Asks] or [Denied]. It is on record.
type Ruling interface{ ruling() }

// Facts are what every ruling says about the call.
type Facts struct {
	Head      proto.AuditHead // with the record
	Digest    string          // of [Canonical]
	Call      *tool.Call      // nil if it could not be decoded
	Grant     *grant.Grant    // that decided; nil if none did
	Hosts     []string        // that the call may connect to
	Local     []string
	Taint     proto.Class
	Untrusted bool // the session has seen untrusted text
}

// Allowed lets the call run, once.
type Allowed struct {
	Facts
	Decision Decision
}

// Asks leaves it to the owner.
type Asks struct {
	Facts
	Approval string
	Expires  time.Time
	// Preview is permission to find out what the call would change, without
	// changing it. It denies if there is no such thing.
	Preview    Decision
	HasPreview bool
}

// Denied lets nothing run. Text is for the model, and begins with the code.
type Denied struct {
	Facts
	Code proto.Code
	Text string
}

func (Allowed) ruling() {}
func (Asks) ruling()    {}
func (Denied) ruling()  {}

// Canonical gives the bytes that a decision, and an approval, is about: all that
// loopd said of the call, each part with its length before it.
func Canonical(c *proto.Call) string {
	return string(canonical(c))
}

func canonical(c *proto.Call) []byte {
	b := make([]byte, 0, 64+len(c.ID)+len(c.Session)+len(c.Tool)+len(c.Args))
	b = append(b, "boxmaker call\n"...)
	for _, s := range [...]string{c.ID, c.Session, c.Tool, c.Args} {
		b = append(strconv.AppendInt(b, int64(len(s)), 10), ':')
		b = append(append(b, s...), ',')
	}
	return b
}

// Digest is the SHA-256, hex, of [Canonical].
func Digest(c *proto.Call) string {
	sum := sha256.Sum256(canonical(c))
	return hex.EncodeToString(sum[:])
}

// Decide decides on a call and puts that on record. An error means that it could
// not be put on record: nothing was allowed, and nothing can be any more.
func (e *Engine) Decide(r Request) (Ruling, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.cfg.Now()
	f, v := e.look(r.Call, r.Halted, now, "")
	record := &proto.AuditDecision{
		ID: r.Call.ID, Session: r.Call.Session, Tool: r.Call.Tool, Args: recorded(r.Call.Args), Digest: f.Digest,
		Verdict: v.Verdict, Code: v.Code, Taint: f.Taint, Untrusted: f.Untrusted,
	}
	if v.Grant != nil {
		record.Grant, record.GrantHash = v.Grant.ID, v.Grant.Hash
	}
	if v.Verdict == proto.VerdictAsk {
		record.Approval, record.Expires = r.Approval(), proto.Time(r.Expires)
	}
	ref, err := e.append(record)
	if err != nil {
		return nil, err
	}
	if err := e.cfg.History.noted(now, record); err != nil {
		return nil, err
	}
	f.Head = ref.Head()
	switch v.Verdict {
	case proto.VerdictAllow:
		return Allowed{Facts: f, Decision: permits(ref, specOf(r.Call.ID, f.Call, v))}, nil
	case proto.VerdictAsk:
		a := Asks{Facts: f, Approval: record.Approval, Expires: r.Expires}
		if p, ok := specOf(r.Call.ID, f.Call, v).preview(); ok {
			a.Preview, a.HasPreview = permits(ref, p), true
		}
		return a, nil
	case proto.VerdictDeny:
		return Denied{Facts: f, Code: v.Code, Text: v.Why}, nil
	default:
		return nil, fmt.Errorf("policy: the grants gave the verdict %q", v.Verdict)
	}
}

// append writes a record. A Ref that names nothing is a failure too.
func (e *Engine) append(r proto.AuditRecord) (audit.Ref, error) {
	ref, err := e.cfg.Audit.Append(r)
	if err == nil && !ref.OK() {
		err = errors.New("policy: the audit log gave no reference")
	}
	return ref, err
}

// look finds out what the grants say about a call. but is a call that does not
// count against its own grant's calls_per_hour.
func (e *Engine) look(c *proto.Call, halted bool, now time.Time, but string) (Facts, grant.Verdict) {
	f := Facts{Digest: Digest(c)}
	var err error
	if f.Taint, f.Untrusted, err = e.cfg.Taint.Get(c.Session); err != nil {
		f.Taint, f.Untrusted = proto.ClassSecret, true
		e.trouble(err)
	}
	if halted {
		return f, deny(proto.CodeHalted, "the owner has stopped everything; do nothing more until you are told to go on.")
	}
	t := tool.Find(c.Tool)
	if t == nil {
		return f, deny(proto.CodeUnknownTool, "there is no tool of that name; look for one with find_tool.")
	}
	if f.Call, err = t.Decode(c.Args); err != nil {
		return f, refused(err)
	}
	set, err := e.cfg.Grants.Read()
	if err != nil {
		e.trouble(err) // the set is empty: nothing is granted
	}
	v := set.Decide(grant.Request{
		Call: f.Call, Taint: f.Taint, Untrusted: f.Untrusted, Now: now,
		Used: func(g *grant.Grant) int { return e.cfg.History.used(g.ID, but, now) },
	})
	f.Grant, f.Hosts, f.Local = v.Grant, v.Hosts, v.Local
	return f, v
}

func (e *Engine) trouble(err error) {
	if e.cfg.Trouble != nil {
		e.cfg.Trouble(err)
	}
}

func deny(code proto.Code, text string) grant.Verdict {
	return grant.Verdict{Verdict: proto.VerdictDeny, Code: code, Why: string(code) + ": " + text}
}

// refused is the verdict on arguments that can't be decoded.
func refused(err error) grant.Verdict {
	var bad *tool.Error
	if errors.As(err, &bad) {
		return deny(bad.Code, bad.Text)
	}
	return deny(proto.CodeInvalidArguments, "the arguments can't be read.")
}

// recorded is what a record holds of the arguments; the digest is of all of
// them.
func recorded(args string) string {
	if len(args) > proto.MaxAuditArgs {
		args = args[:proto.MaxAuditArgs]
	}
	if clean := strings.ToValidUTF8(args, ""); clean != args { // the cut may go through a letter
		return clean
	}
	return args
}
