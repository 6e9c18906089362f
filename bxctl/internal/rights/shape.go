package rights

import (
	"time"

	"boxmaker/internal/grant"
)

// A Shape is a grant as `bxctl grants list --json` prints it: what the file says
// and, where it says nothing, the default.
type Shape struct {
	ID            string     `json:"id"`
	Tool          string     `json:"tool"`
	Mode          string     `json:"mode"`
	ModeUntrusted string     `json:"mode_untrusted"`
	Expires       string     `json:"expires,omitzero"`
	Expired       bool       `json:"expired,omitzero"`
	Reason        string     `json:"reason,omitzero"`
	MaxTaint      string     `json:"max_taint"`
	ResultClass   string     `json:"result_class"`
	Untrusted     bool       `json:"untrusted"`
	Read          []string   `json:"read,omitempty"`
	Write         []string   `json:"write,omitempty"`
	Hosts         []string   `json:"hosts,omitempty"`
	Local         []string   `json:"local,omitempty"`
	Args          []ArgShape `json:"args,omitempty"`
	CallsPerHour  int        `json:"calls_per_hour,omitzero"`
	TimeMS        int64      `json:"time_ms,omitzero"`
	Memory        int64      `json:"memory,omitzero"`
	Output        int64      `json:"output,omitzero"`
	PIDs          int64      `json:"pids,omitzero"`
	Secrets       []string   `json:"secrets,omitempty"`
	Inject        []string   `json:"inject,omitempty"` // "NAME to HOST in HEADER"
	Userland      string     `json:"userland"`
	Root          string     `json:"root,omitzero"`
	Hash          string     `json:"hash"`
}

// ArgShape is one constraint.
type ArgShape struct {
	Arg      string   `json:"arg"`
	First    []string `json:"first,omitempty"`
	OneOf    []string `json:"one_of,omitempty"`
	Pattern  string   `json:"pattern,omitzero"`
	MaxBytes int64    `json:"max_bytes,omitzero"`
	MaxItems int64    `json:"max_items,omitzero"`
}

// A ProblemShape is a problem as `--json` prints it.
type ProblemShape struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitzero"`
	Warning bool   `json:"warning,omitzero"`
	What    string `json:"what"`
	Do      string `json:"do,omitzero"`
	Runbook string `json:"runbook,omitzero"`
}

// A List is what `bxctl grants list --json` prints.
type List struct {
	Grants   []Shape        `json:"grants"`
	Problems []ProblemShape `json:"problems"`
}

// ListOf makes it.
func ListOf(grants []*grant.Grant, found []Finding, now time.Time) List {
	l := List{Grants: []Shape{}, Problems: ProblemsOf(found)}
	for _, g := range grants {
		l.Grants = append(l.Grants, shapeOf(g, now))
	}
	return l
}

// ProblemsOf is what `bxctl grants check --json` prints.
func ProblemsOf(found []Finding) []ProblemShape {
	out := []ProblemShape{}
	for _, f := range found {
		out = append(out, ProblemShape{File: f.Path, Line: f.Problem.Line, Warning: f.Warning, What: f.What, Do: f.Do, Runbook: f.Runbook})
	}
	return out
}

func shapeOf(g *grant.Grant, now time.Time) Shape {
	s := Shape{
		ID: g.ID, Tool: g.Tool, Mode: string(g.Mode), ModeUntrusted: string(g.ModeUntrusted), Expired: g.Expired(now), Reason: g.Reason,
		MaxTaint: string(g.MaxTaint), ResultClass: string(g.ResultClass), Untrusted: g.Untrusted,
		Read: g.Paths.Read, Write: g.Paths.Write, Hosts: g.Net.Hosts, Local: g.Net.Local,
		CallsPerHour: g.Limits.CallsPerHour, TimeMS: g.Limits.Time.Milliseconds(), Memory: g.Limits.Memory, Output: g.Limits.Output, PIDs: g.Limits.PIDs,
		Secrets: g.Secrets.Names, Userland: string(g.Userland.Kind), Root: g.Userland.Root, Hash: g.Hash,
	}
	if !g.Expires.IsZero() {
		s.Expires = g.Expires.UTC().Format(time.RFC3339)
	}
	for _, c := range g.Args {
		s.Args = append(s.Args, ArgShape{Arg: c.Arg, First: c.First, OneOf: c.OneOf, Pattern: c.Pattern, MaxBytes: max(c.MaxBytes, 0), MaxItems: max(c.MaxItems, 0)})
	}
	for _, in := range g.Secrets.Inject {
		s.Inject = append(s.Inject, in.Name+" to "+in.Host+" in "+in.Header)
	}
	return s
}
