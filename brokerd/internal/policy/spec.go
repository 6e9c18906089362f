package policy

import (
	"slices"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// specOf says what a grant gives to one call: of the granted trees only those
// that the call needs.
func specOf(id string, c *tool.Call, v grant.Verdict) Spec {
	g := v.Grant
	s := Spec{
		Call: id, Tool: c.Tool, Args: c.Canonical,
		Hosts: slices.Clone(v.Hosts), Local: slices.Clone(v.Local), Hidden: slices.Clone(v.Hidden),
		Inject: slices.Clone(g.Secrets.Inject),
		Limits: proto.Limits{MS: g.Limits.Time.Milliseconds(), Memory: g.Limits.Memory, Output: g.Limits.Output, PIDs: g.Limits.PIDs},
		Class:  g.ResultClass, Untrusted: g.Untrusted, Grant: g.ID, Userland: proto.UserlandNone,
	}
	for _, n := range g.Secrets.Names {
		injected := slices.ContainsFunc(g.Secrets.Inject, func(i grant.Inject) bool { return i.Name == n })
		if !injected { // the tool never sees what is added for it
			s.Secrets = append(s.Secrets, n)
		}
	}
	if c.Tool.Name == tool.NameRun || c.Tool.Name == tool.NameShell {
		s.Read, s.Write = slices.Clone(g.Paths.Read), slices.Clone(g.Paths.Write)
		s.Userland, s.Root = g.Userland.Kind, g.Userland.Root
		return s
	}
	named := slices.Concat(c.Reads(), c.Writes())
	s.Read, s.Write = holding(g.Paths.Read, named), holding(g.Paths.Write, named)
	return s
}

// holding gives the trees that one of the paths lies in.
func holding(trees, paths []string) []string {
	var out []string
	for _, t := range trees {
		if slices.ContainsFunc(paths, func(p string) bool { return grant.Within(p, t) }) {
			out = append(out, t)
		}
	}
	return out
}

// preview turns what a write would get into what finding out its difference
// needs: reading, and nothing else. It is false for tools that have no preview.
func (s Spec) preview() (Spec, bool) {
	if s.Tool.Name != tool.NameWriteFile && s.Tool.Name != tool.NameEditFile {
		return Spec{}, false
	}
	p := Spec{
		Call: s.Call, Tool: s.Tool, Args: s.Args, Read: slices.Concat(s.Read, s.Write), Hidden: s.Hidden,
		Limits: s.Limits, Userland: proto.UserlandNone, Class: s.Class, Untrusted: s.Untrusted, Grant: s.Grant, Preview: true,
	}
	slices.Sort(p.Read)
	p.Read = slices.Compact(p.Read)
	return p, true
}
