// Package man makes the manual pages, from the texts that `bxctl --help` and
// `bxctl help TOPIC` show: one page of section 1 a command, one of section 7 a
// topic.
//
// It guarantees that the same program gives the same bytes, and that text can't
// be taken for a request of roff. It knows the layout of the help texts, and no
// more of Markdown than package topics does.
package man

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"boxmaker/bxctl/internal/topics"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Page is one file.
type Page struct {
	Name string // bxctl-ask.1
	Text []byte
}

// Pages makes all pages of a command and what is below it, and of all topics.
func Pages(root *cobra.Command, version string) []Page {
	var out []Page
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" && c.HasParent() {
			return
		}
		out = append(out, Page{name(c) + ".1", command(c, version)})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, n := range topics.Names() {
		if t, ok := topics.Get(n); ok {
			out = append(out, Page{"boxmaker-" + n + ".7", topic(t, version)})
		}
	}
	return out
}

func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// escape gives text that roff takes for nothing but text.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// page builds one page line by line.
type page struct{ bytes.Buffer }

func (p *page) request(s string) { p.WriteString(s + "\n") }
func (p *page) section(s string) { p.request(".SH " + s) }

func (p *page) text(s string) { p.WriteString(escape(s) + "\n") }

func (p *page) title(name, section, version string) {
	p.request(`.\" Made by bxctl man from the help texts; change those.`)
	p.request(fmt.Sprintf(`.TH "%s" "%s" "" "Boxmaker %s" "Boxmaker"`, escape(strings.ToUpper(name)), section, escape(version)))
	p.request(".nh")
	p.request(".ad l")
}

// plain lays out a help text: paragraphs, and lines that are indented as they
// stand.
func (p *page) plain(s string) {
	first := true
	for _, par := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if !first {
			p.request(".PP")
		}
		first = false
		kept := false
		for line := range strings.Lines(par) {
			line = strings.TrimRight(line, "\n")
			if indented := strings.HasPrefix(line, "  "); indented != kept {
				p.request(map[bool]string{true: ".nf", false: ".fi"}[indented])
				kept = indented
			}
			if kept {
				p.WriteString(`\&`)
			}
			p.text(line)
		}
		if kept {
			p.request(".fi")
		}
	}
}

func command(c *cobra.Command, version string) []byte {
	p := new(page)
	p.title(name(c), "1", version)
	p.section("NAME")
	p.WriteString(escape(name(c)) + ` \- ` + escape(c.Short) + "\n")
	p.section("SYNOPSIS")
	if c.HasAvailableSubCommands() {
		p.request(`.B ` + escape(c.CommandPath()+" COMMAND"))
	} else {
		p.request(`.B ` + escape(c.UseLine()))
	}
	p.section("DESCRIPTION")
	if c.Long != "" {
		p.plain(c.Long)
	} else {
		p.text(strings.ToUpper(c.Short[:1]) + c.Short[1:] + ".")
	}
	p.commands(c)
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		p.section("EXAMPLES")
		p.plain(c.Example)
	}
	p.see(c)
	return p.Bytes()
}

func (p *page) commands(c *cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		p.request(".TP")
		p.request(".B " + escape(sub.Name()))
		p.text(strings.ToUpper(sub.Short[:1]) + sub.Short[1:] + ".")
	}
}

func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		head := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			head = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + head
		}
		if value != "" {
			head += ` \fI` + escape(value) + `\fR`
		}
		p.request(".TP")
		p.request(head)
		usage = strings.TrimSuffix(strings.ToUpper(usage[:1])+usage[1:], ".") + "."
		switch f.DefValue {
		case "", "false", "0", "[]":
		default:
			usage += " Default: " + f.DefValue + "."
		}
		p.text(usage)
	})
}

// see lists related pages.
func (p *page) see(c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, name(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names = append(names, name(sub))
		}
	}
	sort.Strings(names)
	var refs []string
	for _, n := range names {
		refs = append(refs, `\fB`+escape(n)+`\fR(1)`)
	}
	if !c.HasParent() {
		for _, t := range topics.Names() {
			refs = append(refs, `\fB`+escape("boxmaker-"+t)+`\fR(7)`)
		}
	}
	if len(refs) > 0 {
		p.section("SEE ALSO")
		p.request(strings.Join(refs, ",\n"))
	}
}

func topic(t topics.Topic, version string) []byte {
	p := new(page)
	p.title("boxmaker-"+t.Name, "7", version)
	p.section("NAME")
	_, about, ok := strings.Cut(t.Title, ": ")
	if !ok {
		about = t.Title
	}
	p.WriteString(escape("boxmaker-"+t.Name) + ` \- ` + escape(about) + "\n")
	p.section("DESCRIPTION")
	for i, b := range t.Blocks {
		switch b.Kind {
		case topics.Code:
			p.request(".PP")
			p.request(".RS 4")
			p.request(".nf")
			for line := range strings.Lines(b.Text + "\n") {
				p.WriteString(`\&`)
				p.text(strings.TrimRight(line, "\n"))
			}
			p.request(".fi")
			p.request(".RE")
		case topics.Item:
			p.request(`.IP \(bu 2`)
			p.spans(b.Text)
		default:
			if i > 0 {
				p.request(".PP")
			}
			p.spans(b.Text)
		}
	}
	p.section("SEE ALSO")
	p.request(`\fBbxctl\fR(1)`)
	return p.Bytes()
}

func (p *page) spans(text string) {
	var b strings.Builder
	for _, s := range topics.Spans(text) {
		e := strings.TrimPrefix(escape(s.Text), `\&`)
		switch {
		case s.Code, s.Strong:
			b.WriteString(`\fB` + e + `\fR`)
		default:
			b.WriteString(e)
		}
	}
	p.WriteString(`\&` + b.String() + "\n")
}
