package rights

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/grant"
	"boxmaker/internal/tool"
)

// ErrAborted reports that the owner ended the questions.
var ErrAborted = errors.New("rights: aborted")

// A Guide asks for the parts of a grant, one after the other. An answer that
// can't be used is refused at once, and why; an empty one takes the default.
type Guide struct {
	In   *bufio.Reader
	Out  io.Writer
	Own  []string
	Home string // the owner's home folder, for ~
	Work string // the workspace, the default of folders
	Now  time.Time
}

// Ask fills in a draft for a tool.
func (g *Guide) Ask(name string) (d Draft, err error) {
	d.Tool = name
	t := tool.Find(name)
	fmt.Fprintf(g.Out, "A grant for %s: %s\n\n", name, t.Line)
	err = g.one("What becomes of a call: auto (it runs at once), ask (you are asked), deny (never)", "ask", func(s string) error {
		d.Mode = grant.Mode(s)
		return oneOf(s, "auto", "ask", "deny")
	})
	if err == nil && d.Mode == grant.Auto {
		err = g.one("And once the session has seen text of others: auto, ask or deny", "ask", func(s string) error {
			d.ModeUntrusted = grant.Mode(s)
			return oneOf(s, "auto", "ask", "deny")
		})
	}
	if err == nil {
		err = g.places(&d)
	}
	if err == nil {
		err = g.one("Until when: never, a number of days (30d), or a date", "never", func(s string) (err error) {
			if s != "never" {
				d.Expires, err = ParseExpiry(s, g.Now)
			}
			return err
		})
	}
	if err == nil {
		err = g.one("What is it for, in a few words (it is shown when you are asked)", "", func(s string) error {
			if d.Reason = s; len(s) > 200 {
				return errors.New("at most 200 bytes")
			}
			return nil
		})
	}
	return d, err
}

// places asks for folders and hosts, as far as the tool uses any.
func (g *Guide) places(d *Draft) error {
	programs := d.Tool == tool.NameRun || d.Tool == tool.NameShell
	if programs && d.Mode == grant.Deny {
		return nil
	}
	none, work := "none", g.Work
	if d.Mode == grant.Deny {
		work = none // a deny without places is about every call
	}
	var err error
	switch d.Tool {
	case tool.NameListFiles, tool.NameReadFile, tool.NameSearchFiles:
		err = g.paths("Which files or folders may it read", work, &d.Read)
	case tool.NameWriteFile, tool.NameEditFile:
		err = g.paths("Which files or folders may it change", work, &d.Write)
	case tool.NameRun, tool.NameShell:
		if err = g.paths("Which folders may its programs change", work, &d.Write); err == nil {
			err = g.paths("Which others may they read", none, &d.Read)
		}
	}
	if err != nil || !programs && d.Tool != tool.NameHTTPFetch {
		return err
	}
	def := none
	if !programs && d.Mode != grant.Deny {
		def = ""
	}
	return g.one("To which hosts may it connect, such as api.example.com:443", def, func(s string) error {
		if d.Hosts = nil; s == none {
			return nil
		}
		for _, h := range words(s) {
			h = Host(h)
			if what, do := grant.CheckHost(h); what != "" {
				return errors.New(what + "; " + do)
			}
			d.Hosts = append(d.Hosts, h)
		}
		if len(d.Hosts) == 0 {
			return errors.New("without a host no call could ever fit")
		}
		return nil
	})
}

func (g *Guide) paths(question, def string, into *[]string) error {
	return g.one(question+" (several with a comma between)", def, func(s string) error {
		if *into = nil; s == "none" {
			return nil
		}
		for _, p := range words(s) {
			if p == "~" || strings.HasPrefix(p, "~/") {
				p = filepath.Join(g.Home, p[1:])
			}
			if what, do := grant.CheckPath(p, g.Own); what != "" {
				return errors.New(what + "; " + do)
			}
			*into = append(*into, p)
		}
		return nil
	})
}

// words splits at commas: a path can have spaces in it.
func words(s string) (out []string) {
	for w := range strings.SplitSeq(s, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func oneOf(s string, all ...string) error {
	for _, a := range all {
		if s == a {
			return nil
		}
	}
	return fmt.Errorf("answer with %s", strings.Join(all, ", "))
}

// one asks until the answer can be used.
func (g *Guide) one(question, def string, take func(string) error) error {
	for {
		s, err := g.line(question, def)
		if err != nil {
			return err
		}
		if err = take(s); err == nil {
			return nil
		}
		fmt.Fprintf(g.Out, "  %s\n", term.Line(err.Error()))
	}
}

func (g *Guide) line(question, def string) (string, error) {
	if def != "" {
		question += " [" + def + "]"
	}
	fmt.Fprint(g.Out, term.Line(question)+": ")
	s, err := g.In.ReadString('\n')
	if err != nil {
		fmt.Fprintln(g.Out)
		return "", ErrAborted
	}
	if s = strings.TrimSpace(s); s == "" {
		s = def
	}
	return s, nil
}

// Yes asks whether to go on; an empty answer is yes.
func (g *Guide) Yes(question string) (bool, error) {
	s, err := g.line(question, "Y/n")
	return err == nil && (s == "Y/n" || strings.EqualFold(s, "y") || strings.EqualFold(s, "yes")), err
}
