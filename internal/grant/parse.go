package grant

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"boxmaker/internal/config"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// MaxFile is the largest grant file, in bytes.
const MaxFile = 64 << 10

// Parse reads the text of the grant file name. own are Boxmaker's own folders,
// which nothing may be granted in. If there are problems that are no warnings,
// there is no grant.
func Parse(name string, data []byte, own []string) (*Grant, []Problem) {
	if len(data) > MaxFile {
		return nil, []Problem{{File: name, What: "the file is larger than 64 KiB", Do: "a grant needs a few lines; check that it is the file you mean", Runbook: "grant-file"}}
	}
	f := &file{Untrusted: true, ResultClass: proto.ClassPrivate, own: own}
	lines, err := config.Decode(name, data, f)
	if err != nil {
		return nil, problems(name, err)
	}
	for i := range f.warnings {
		w := &f.warnings[i]
		w.File, w.Warning, w.Line = name, true, lines[w.key]
	}
	sum := sha256.Sum256(data)
	return f.grant(name, hex.EncodeToString(sum[:])), f.warnings
}

// problems takes an error of package config apart.
func problems(name string, err error) []Problem {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the shape of the error itself matters
		var all []Problem
		for _, e := range many.Unwrap() {
			all = append(all, problems(name, e)...)
		}
		return all
	}
	var e *config.Error
	if errors.As(err, &e) {
		return []Problem{{File: name, Line: e.Line, What: e.What, Do: e.Do, Runbook: e.Runbook}}
	}
	return []Problem{{File: name, What: err.Error(), Runbook: "grant-file"}}
}

// grant gives what a checked file says.
func (f *file) grant(id, hash string) *Grant {
	g := &Grant{
		ID: id, Hash: hash, Tool: f.Tool, Mode: f.Mode, ModeUntrusted: f.ModeUntrusted, Expires: f.Expires, Reason: f.Reason,
		MaxTaint: f.MaxTaint, ResultClass: f.ResultClass, Untrusted: f.Untrusted,
		Paths:    Paths{Read: trees(f.Paths.Read), Write: trees(f.Paths.Write)},
		Net:      Net{Hosts: unique(f.Net.Hosts), Local: unique(f.Net.Local)},
		Secrets:  Secrets{Names: unique(f.Secrets.Names)},
		Userland: Userland{Kind: f.Userland.Kind, Root: f.Userland.Root},
	}
	if g.ModeUntrusted == "" {
		g.ModeUntrusted = g.Mode
	}
	if g.MaxTaint == "" {
		g.MaxTaint = proto.ClassPrivate
	}
	for _, in := range f.Secrets.Inject {
		g.Secrets.Inject = append(g.Secrets.Inject, Inject(in))
	}
	if g.Userland.Kind == "" {
		g.Userland.Kind = proto.UserlandNone
		if abilities(f.Tool).programs {
			g.Userland.Kind = proto.UserlandUsr
		}
	}
	for _, name := range sortedKeys(f.Args) {
		g.Args = append(g.Args, *f.Args[name].made(name))
	}
	l := &f.Limits
	g.Limits = Limits{
		CallsPerHour: int(value(l.CallsPerHour)), Time: time.Duration(value(l.Time)),
		Memory: int64(value(l.Memory)), Output: int64(value(l.Output)), PIDs: value(l.PIDs),
	}
	return g
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// made gives the constraint; of a checked file it has compiled before.
func (c *constraint) made(name string) *Constraint {
	out := &Constraint{Arg: name, First: c.First, OneOf: c.OneOf, Pattern: value(c.Pattern), MaxBytes: -1, MaxItems: -1}
	if c.MaxBytes != nil {
		out.MaxBytes = *c.MaxBytes
	}
	if c.MaxItems != nil {
		out.MaxItems = *c.MaxItems
	}
	if err := out.compile(); err != nil {
		out.OneOf = []string{} // nothing fits
	}
	return out
}

// trees cleans paths and drops those that lie in another of the list.
func trees(paths []string) []string {
	var out []string
	for _, p := range unique(paths) {
		c := path.Clean(p)
		if !slices.ContainsFunc(out, func(t string) bool { return Within(c, t) }) {
			out = append(slices.DeleteFunc(out, func(t string) bool { return Within(t, c) }), c)
		}
	}
	slices.Sort(out)
	return out
}

// Validate checks everything that the types do not say.
func (f *file) Validate() error {
	if f.Tool == "" {
		return bad("tool", `there is no key "tool"`, "a grant is for one tool: add tool = \"read_file\", or another of "+toolNames(), "grant-tool")
	}
	t := tool.Find(f.Tool)
	if t == nil || abilities(f.Tool) == (ability{}) {
		return bad("tool", fmt.Sprintf("there is no tool %q", f.Tool), "the tools are "+toolNames(), "grant-tool")
	}
	return errors.Join(f.checkModes(), f.checkTexts(), f.checkPaths(), f.checkNet(), f.checkArgs(t), f.checkLimits(), f.checkSecrets(), f.checkUserland())
}

func toolNames() string {
	var names []string
	for _, t := range tool.All() {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// bad is a fault of a key, whose line is named.
func bad(key, what, do, runbook string) error {
	return &config.Error{Key: key, What: what, Do: do, Runbook: runbook}
}

func (f *file) warn(key, what, do, runbook string) {
	f.warnings = append(f.warnings, Problem{key: key, What: what, Do: do, Runbook: runbook})
}

func (f *file) denies() bool { return f.Mode == Deny }

func (f *file) checkModes() error {
	const runbook = "grant-mode"
	const modes = `mode = "ask" (you are asked each time), "auto" (it runs at once) or "deny"`
	switch {
	case f.Mode == "":
		return bad("tool", `there is no key "mode"`, "add "+modes, runbook)
	case !f.Mode.known():
		return bad("mode", fmt.Sprintf("%.40q is no mode", f.Mode), "write "+modes, runbook)
	case f.ModeUntrusted != "" && !f.ModeUntrusted.known():
		return bad("mode_untrusted", fmt.Sprintf("%.40q is no mode", f.ModeUntrusted), "write "+modes, runbook)
	case f.ModeUntrusted != "" && f.ModeUntrusted.rank() < f.Mode.rank():
		return bad("mode_untrusted", fmt.Sprintf("mode_untrusted = %q gives more than mode = %q", f.ModeUntrusted, f.Mode), "a session that has seen untrusted text can only have less; swap the two, or remove the line", runbook)
	case f.denies() && f.MaxTaint != "":
		return bad("max_taint", "a deny holds whatever the session has seen, so max_taint has no meaning", "remove the line", runbook)
	}
	return nil
}

func (f *file) checkTexts() error {
	var errs []error
	noClass := func(key string, c proto.Class) error {
		return bad(key, fmt.Sprintf("%.40q is no class", c), `write "public", "private" or "secret"`, "grant-value")
	}
	if f.MaxTaint != "" && f.MaxTaint.Validate() != nil {
		errs = append(errs, noClass("max_taint", f.MaxTaint))
	}
	if f.ResultClass.Validate() != nil {
		errs = append(errs, noClass("result_class", f.ResultClass))
	}
	if len(f.Reason) > 200 || strings.IndexFunc(f.Reason, unicode.IsControl) >= 0 {
		errs = append(errs, bad("reason", "the reason is not one line of at most 200 bytes", "shorten it; a comment (# …) can be longer", "grant-value"))
	}
	if !f.Expires.IsZero() && f.Expires.Location() == time.Local { //nolint:gosmopolitan // go-toml gives it to a time without a zone
		errs = append(errs, bad("expires", "expires has no time zone, so that it would end at another time on another machine", "write it with one, such as 2027-06-30T00:00:00Z or 2027-06-30T00:00:00+02:00", "grant-value"))
	}
	return errors.Join(errs...)
}
