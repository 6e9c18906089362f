// Package rights shows the owner's grants: as a table, in words, with what is
// wrong with them, and as an explanation of a call; and it drafts new ones.
//
// What it says comes from package grant, by which brokerd decides. It reads
// files and never talks to brokerd, so that it works when nothing runs. It
// gives no rights itself: a draft is text until somebody writes it to a file.
package rights

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/internal/config"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// Words says in plain sentences what a grant lets happen, for its owner.
func Words(g *grant.Grant) []string {
	lines := []string{modeWords(g)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	programs := g.Tool == tool.NameRun || g.Tool == tool.NameShell
	switch {
	case g.Mode == grant.Deny && len(g.Paths.Read)+len(g.Paths.Write) > 0:
		add("about: %s", join(append(append([]string{}, g.Paths.Read...), g.Paths.Write...)))
	case g.Mode != grant.Deny:
		if len(g.Paths.Read) > 0 {
			add("it can read: %s", join(g.Paths.Read))
		}
		if len(g.Paths.Write) > 0 {
			add("it can read and change: %s", join(g.Paths.Write))
		}
		if programs && len(g.Paths.Read)+len(g.Paths.Write) == 0 {
			add("it sees none of your files")
		}
	}
	switch {
	case g.Mode == grant.Deny && len(g.Net.Hosts) > 0:
		add("about: %s", join(g.Net.Hosts))
	case len(g.Net.Hosts) > 0:
		add("it can connect to: %s", join(g.Net.Hosts))
		if len(g.Net.Local) > 0 {
			add("even at a private address: %s", join(g.Net.Local))
		}
	case programs && g.Mode != grant.Deny:
		add("it has no network")
	}
	for _, c := range g.Args {
		add("its argument %s %s", c.Arg, constraintWords(c))
	}
	if programs && g.Mode != grant.Deny {
		add("%s", map[proto.Userland]string{
			proto.UserlandNone: "there are no programs in its container", proto.UserlandUsr: "its programs are those of this machine's /usr",
			proto.UserlandRoot: "its programs are those of " + g.Userland.Root,
		}[g.Userland.Kind])
	}
	return append(lines, limitWords(g)...)
}

func modeWords(g *grant.Grant) string {
	say := map[grant.Mode]string{grant.Auto: "runs at once", grant.Ask: "asks you each time", grant.Deny: "is refused, whatever other grants say"}
	s := g.Tool + " " + say[g.Mode]
	if g.ModeUntrusted != g.Mode {
		s += "; once the session has seen untrusted text it " + say[g.ModeUntrusted]
	}
	return s
}

func constraintWords(c grant.Constraint) string {
	var parts []string
	if len(c.First) > 0 {
		parts = append(parts, fmt.Sprintf("begins with %q", c.First))
	}
	if len(c.OneOf) > 0 {
		parts = append(parts, fmt.Sprintf("is one of %q", c.OneOf))
	}
	if c.Pattern != "" {
		parts = append(parts, fmt.Sprintf("matches %s as a whole", c.Pattern))
	}
	if c.MaxBytes >= 0 {
		parts = append(parts, fmt.Sprintf("has at most %s", config.Size(c.MaxBytes)))
	}
	if c.MaxItems >= 0 {
		parts = append(parts, fmt.Sprintf("has at most %d elements", c.MaxItems))
	}
	return strings.Join(parts, ", and ")
}

// limitWords says what bounds a call, what it may use, and what its result is.
func limitWords(g *grant.Grant) (lines []string) {
	if g.Mode == grant.Deny {
		if !g.Expires.IsZero() {
			lines = append(lines, "until "+when(g.Expires))
		}
		return lines
	}
	for _, in := range g.Secrets.Inject {
		lines = append(lines, fmt.Sprintf("the secret %s is added to what it sends to %s; it never sees it", in.Name, in.Host))
	}
	if len(g.Secrets.Names) > 0 {
		lines = append(lines, "it is handed the secrets: "+join(g.Secrets.Names))
	}
	l, parts := g.Limits, []string{}
	if l.CallsPerHour > 0 {
		parts = append(parts, fmt.Sprintf("%d calls an hour", l.CallsPerHour))
	}
	if l.Time > 0 {
		parts = append(parts, l.Time.String())
	}
	if l.Memory > 0 {
		parts = append(parts, config.Size(l.Memory).String()+" of memory")
	}
	if l.Output > 0 {
		parts = append(parts, config.Size(l.Output).String()+" of output")
	}
	if l.PIDs > 0 {
		parts = append(parts, fmt.Sprintf("%d processes", l.PIDs))
	}
	if len(parts) > 0 {
		lines = append(lines, "at most: "+strings.Join(parts, ", "))
	}
	result := "what comes back counts as " + string(g.ResultClass)
	if g.Untrusted {
		result += " and as untrusted text"
	}
	lines = append(lines, result, fmt.Sprintf("it holds for sessions that have seen nothing above %s", g.MaxTaint))
	if !g.Expires.IsZero() {
		lines = append(lines, "until "+when(g.Expires))
	}
	return lines
}

func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

func join(all []string) string { return strings.Join(all, ", ") }
