package grant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// A Request is a call and all that a decision on it depends on.
type Request struct {
	Call      *tool.Call
	Taint     proto.Class // of the session
	Untrusted bool        // the session has seen untrusted text
	Now       time.Time
	// Used says how many calls a grant let through, or put before the owner,
	// in the last hour. nil stands for none.
	Used func(g *Grant) int
}

// A Verdict is what the grants say about a call.
type Verdict struct {
	Verdict proto.Verdict // allow, ask or deny
	Code    proto.Code    // why not; empty unless Verdict is deny
	Grant   *Grant        // that decided; nil if none did
	Why     string        // one sentence; of a denial it is what the model reads, and begins with the code
	Steps   []proto.ExplainStep

	// What the grant gives this call, once the denies are taken from it. They
	// are empty if Verdict is deny.
	Hosts  []string // for egressd
	Local  []string
	Hidden []string // trees in Grant.Paths that the container must not see
}

// Decide says which grant decides on a call. A deny that hits it wins. Else the
// first one in the order of file names that fits it decides. Else the answer
// is no.
func (s Set) Decide(r Request) Verdict {
	var v Verdict
	var first, denier *Grant
	var misses []miss
	for _, g := range s.Grants {
		if g.Tool != r.Call.Tool.Name {
			continue
		}
		m := g.look(r)
		switch {
		case m.kind == hits && denier == nil:
			denier = g
		case m.kind == fits && first == nil:
			first = g
		}
		misses = append(misses, m)
		v.Steps = append(v.Steps, proto.ExplainStep{Grant: g.ID, Fits: m.kind == fits || m.kind == hits, Why: m.why})
	}
	name := r.Call.Tool.Name
	switch {
	case denier != nil:
		v.deny(proto.CodeDeniedByGrant, denier, "the owner does not want %s to be used for this.", name)
	case first == nil:
		code, why := s.refusal(r, misses)
		v.deny(code, nil, "%s", why)
	case first.Limits.CallsPerHour > 0 && r.Used != nil && r.Used(first) >= first.Limits.CallsPerHour:
		v.deny(proto.CodeRateLimited, first, "%s may be used %d times an hour, and was; go on without it.", name, first.Limits.CallsPerHour)
	case first.ModeFor(r.Untrusted) == Auto:
		v.Verdict, v.Grant, v.Why = proto.VerdictAllow, first, first.ID+" allows it"
	default:
		v.Verdict, v.Grant, v.Why = proto.VerdictAsk, first, first.ID+" leaves it to the owner"
	}
	if v.Verdict != proto.VerdictDeny {
		v.Hosts, v.Local = s.hosts(first, r)
		v.Hidden = s.hidden(first, r)
	}
	return v
}

func (v *Verdict) deny(code proto.Code, g *Grant, format string, args ...any) {
	v.Verdict, v.Code, v.Grant = proto.VerdictDeny, code, g
	v.Why = string(code) + ": " + fmt.Sprintf(format, args...)
}

// Permits reports whether a tool is worth showing to a model: some grant could
// allow a call of it, whatever call that is, and no deny stands against all of
// them. r.Call is not looked at.
func (s Set) Permits(name string, r Request) bool {
	some := false
	for _, g := range s.Grants {
		if g.Tool != name || g.Expired(r.Now) {
			continue
		}
		if g.ModeFor(r.Untrusted) == Deny && g.unconditional() {
			return false
		}
		some = some || g.Open(r)
	}
	return some
}

// Open reports whether the grant can let a call of such a session through, or
// put it before the owner. r.Call is not looked at.
func (g *Grant) Open(r Request) bool {
	return !g.Expired(r.Now) && g.ModeFor(r.Untrusted) != Deny && rank(r.Taint) <= rank(g.MaxTaint)
}

// Denied reports whether a path lies in a tree, or an entry of hosts is one,
// that is denied to the tool whatever the arguments are.
func (s Set) Denied(name, place string, r Request) bool {
	return slices.ContainsFunc(s.denies(name, r), func(d *Grant) bool {
		return slices.ContainsFunc(d.deniedTrees(), func(t string) bool { return Within(place, t) }) ||
			hostIn(place, d.deniedHosts()) || slices.Contains(d.deniedHosts(), place)
	})
}

func (g *Grant) unconditional() bool {
	return len(g.Args) == 0 && len(g.Paths.Read)+len(g.Paths.Write)+len(g.Net.Hosts) == 0
}

// A miss is what one grant makes of a call.
type miss struct {
	kind kind
	why  string
	arg  *Constraint // for kind missArg
}

type kind int

const (
	expired   kind = iota
	missReach      // paths or hosts
	missArg
	missTaint
	notHit // a deny that is about other calls
	fits
	hits
)

// look says what the grant makes of a call. Whether an allowing grant fits
// asks that everything in the call is granted; whether a deny hits, that
// anything in it is denied.
func (g *Grant) look(r Request) miss {
	if g.Expired(r.Now) {
		return miss{kind: expired, why: "it expired on " + g.Expires.UTC().Format(time.DateTime) + " UTC"}
	}
	if g.ModeFor(r.Untrusted) == Deny {
		return g.lookDeny(r)
	}
	if why := g.reaches(r.Call); why != "" {
		return miss{kind: missReach, why: why}
	}
	for i := range g.Args {
		c := &g.Args[i]
		if vals, ok := r.Call.Value(c.Arg); !ok || !c.Fits(vals) {
			return miss{kind: missArg, why: "the argument " + c.Arg + " is outside of [args." + c.Arg + "]", arg: c}
		}
	}
	if rank(r.Taint) > rank(g.MaxTaint) {
		return miss{kind: missTaint, why: fmt.Sprintf("it applies up to the taint %s, and the session has %s", g.MaxTaint, r.Taint)}
	}
	return miss{kind: fits, why: "it fits: " + string(g.ModeFor(r.Untrusted)) + g.because(r.Untrusted)}
}

func (g *Grant) because(untrusted bool) string {
	if untrusted && g.ModeUntrusted != g.Mode {
		return ", since the session has seen untrusted text"
	}
	return ""
}

// rank orders the classes; what is none counts as the highest.
func rank(c proto.Class) int {
	switch c {
	case proto.ClassPublic:
		return 0
	case proto.ClassPrivate:
		return 1
	default:
		return 2
	}
}

// reaches says what the call names that the grant does not give; "" if it gives
// all of it.
func (g *Grant) reaches(c *tool.Call) string {
	reads, writes, hosts := c.Reads(), c.Writes(), c.Hosts()
	does := abilities(g.Tool)
	if does.named && len(reads)+len(writes)+len(hosts) == 0 {
		return "the call names nothing that could be granted"
	}
	for _, p := range writes {
		if !clean(p) || !slices.ContainsFunc(g.Paths.Write, func(t string) bool { return Within(p, t) }) {
			return p + " is not in its paths.write"
		}
	}
	for _, p := range reads {
		in := func(t string) bool { return Within(p, t) }
		if !clean(p) || !slices.ContainsFunc(g.Paths.Read, in) && !slices.ContainsFunc(g.Paths.Write, in) {
			return p + " is not in its paths"
		}
	}
	for _, h := range hosts {
		if !hostIn(h, g.Net.Hosts) {
			return h + " is not in its net.hosts"
		}
	}
	return ""
}

func (g *Grant) lookDeny(r Request) miss {
	for i := range g.Args {
		if vals, _ := r.Call.Value(g.Args[i].Arg); !g.Args[i].Hits(vals) {
			return miss{kind: notHit, why: "it denies other values of " + g.Args[i].Arg}
		}
	}
	trees := g.deniedTrees()
	hit := len(trees)+len(g.deniedHosts()) == 0
	for _, p := range slices.Concat(r.Call.Reads(), r.Call.Writes()) {
		hit = hit || slices.ContainsFunc(trees, func(t string) bool { return touches(p, t) })
	}
	for _, h := range r.Call.Hosts() {
		hit = hit || hostIn(h, g.deniedHosts())
	}
	if !hit {
		return miss{kind: notHit, why: "it denies other paths or hosts"}
	}
	return miss{kind: hits, why: "it denies this" + g.because(r.Untrusted)}
}

// deniedTrees are the paths that a deny is about. Programs name no paths, so
// that those of run and shell say what is mounted and never what is denied.
func (g *Grant) deniedTrees() []string {
	if abilities(g.Tool).programs {
		return nil
	}
	return slices.Concat(g.Paths.Read, g.Paths.Write)
}

func (g *Grant) deniedHosts() []string {
	if abilities(g.Tool).programs {
		return nil
	}
	return g.Net.Hosts
}

// denies yields the grants that deny calls of a tool whatever their arguments.
func (s Set) denies(name string, r Request) []*Grant {
	return slices.DeleteFunc(slices.Clone(s.Grants), func(g *Grant) bool {
		return g.Tool != name || g.Expired(r.Now) || g.ModeFor(r.Untrusted) != Deny || len(g.Args) > 0
	})
}

// hidden lists the denied trees that lie in what g mounts: a link in a granted
// folder must not lead there.
func (s Set) hidden(g *Grant, r Request) []string {
	var out []string
	for _, d := range s.denies(r.Call.Tool.Name, r) {
		for _, t := range d.deniedTrees() {
			if slices.ContainsFunc(slices.Concat(g.Paths.Read, g.Paths.Write), func(m string) bool { return Within(t, m) }) {
				out = append(out, t)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hosts lists where the call may connect. An entry that a deny overlaps gives
// way to the hosts that the call itself names: a redirect is not seen here.
func (s Set) hosts(g *Grant, r Request) (hosts, local []string) {
	denied := []string{}
	for _, d := range s.denies(r.Call.Tool.Name, r) {
		denied = append(denied, d.deniedHosts()...)
	}
	for _, h := range g.Net.Hosts {
		to := []string{h}
		if slices.ContainsFunc(denied, func(d string) bool { return overlap(d, h) }) {
			to = slices.DeleteFunc(r.Call.Hosts(), func(c string) bool { return !hostIn(c, []string{h}) })
		}
		hosts = append(hosts, to...)
		if slices.Contains(g.Net.Local, h) {
			local = append(local, to...)
		}
	}
	return hosts, local
}

// overlap reports whether some host is meant by both entries.
func overlap(a, b string) bool {
	return a == b || hostIn(a, []string{b}) || hostIn(b, []string{a}) ||
		strings.HasPrefix(a, "*.") && hostIn(a[2:], []string{b}) || strings.HasPrefix(b, "*.") && hostIn(b[2:], []string{a})
}
