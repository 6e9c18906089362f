package grant

import (
	"fmt"
	"slices"
	"strings"

	"boxmaker/internal/proto"
)

// refusal says why nothing fits, for a model: what came nearest to a yes, and
// what is granted instead. It tells of grants for this tool alone.
func (s Set) refusal(r Request, misses []miss) (proto.Code, string) {
	name := r.Call.Tool.Name
	nearest := miss{kind: expired}
	for _, m := range misses {
		if m.kind > nearest.kind && m.kind != notHit {
			nearest = m
		}
	}
	none := !slices.ContainsFunc(s.Grants, func(g *Grant) bool { return g.Tool == name && g.Open(r) })
	if none && (nearest.kind == missArg || nearest.kind == missReach) { // another call would fare no better
		nearest.kind = missTaint
	}
	switch nearest.kind {
	case missTaint:
		return proto.CodeTaintTooHigh, tainted(name, r)
	case missArg:
		return proto.CodeNoGrant, nearest.arg.refusal(name)
	case missReach:
		return proto.CodeNoGrant, s.reachRefusal(r)
	default:
		return proto.CodeNoGrant, name + " is not granted; tell the owner if you need it."
	}
}

func tainted(name string, r Request) string {
	return fmt.Sprintf("%s is not granted to a conversation that has seen %s text.", name, r.Taint)
}

// refusal says what an argument may be, if that is short.
func (c *Constraint) refusal(name string) string {
	switch {
	case len(c.First) > 0:
		return fmt.Sprintf("%s is granted only with a `%s` that begins with %s.", name, c.Arg, list([]string{strings.Join(c.First, " ")}))
	case len(c.OneOf) > 0:
		return fmt.Sprintf("%s is granted only with a `%s` of %s.", name, c.Arg, list(c.OneOf))
	case c.Pattern != "":
		return fmt.Sprintf("%s is not granted with this `%s`.", name, c.Arg)
	default:
		return fmt.Sprintf("%s is not granted with so large a `%s`.", name, c.Arg)
	}
}

func (s Set) reachRefusal(r Request) string {
	name, does := r.Call.Tool.Name, abilities(r.Call.Tool.Name)
	var trees, hosts []string
	for _, g := range s.Grants {
		if g.Tool != name || !g.Open(r) {
			continue
		}
		trees = append(trees, g.Paths.Write...)
		if does.reads {
			trees = append(trees, g.Paths.Read...)
		}
		hosts = append(hosts, g.Net.Hosts...)
	}
	switch {
	case does.fetches && !does.programs:
		return fmt.Sprintf("%s is granted only for %s.", name, list(unique(hosts)))
	case does.programs && len(trees) == 0:
		return name + " is granted only without `dir`."
	case does.programs:
		return fmt.Sprintf("%s is granted only with a `dir` in %s.", name, list(unique(trees)))
	default:
		return fmt.Sprintf("%s is granted only in %s.", name, list(unique(trees)))
	}
}

func unique(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

// list joins a few texts; a small model gains nothing from a long list.
func list(all []string) string {
	const most, length = 5, 100
	var parts []string
	for i, s := range all {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		if len(s) > length {
			s = strings.ToValidUTF8(s[:length], "") + "…"
		}
		parts = append(parts, strings.Map(oneLine, s))
	}
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " or " + parts[n-1]
	}
	return strings.Join(parts, "")
}

func oneLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}
