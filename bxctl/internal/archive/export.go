package archive

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Export writes one session. The forms are Markdown and JSON; both hold all
// messages, the thinking and the tool calls.
type Export struct {
	Source Source
	Screen term.Screen
	Now    time.Time
}

// document is the JSON form.
type document struct {
	Session  *proto.SessionDetail `json:"session"`
	Messages []*proto.Past        `json:"messages"`
}

// JSON writes {"session":{…},"messages":[…]}.
func (e Export) JSON(ctx context.Context, id string) error {
	doc := document{Messages: []*proto.Past{}}
	var err error
	doc.Session, err = e.Source.Past(ctx, id, func(p *proto.Past) error {
		doc.Messages = append(doc.Messages, p)
		return nil
	})
	if err != nil {
		return err
	}
	return WriteJSON(e.Screen, doc, jsontext.WithIndent("  "))
}

// WriteJSON writes v in one line, or as the options say, as a terminal can
// take it.
func WriteJSON(s term.Screen, v any, opts ...json.Options) error {
	b, err := json.Marshal(v, append(opts, json.Deterministic(true))...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.W, "%s\n", term.JSON(b))
	return err
}

func (e Export) sums(d *proto.SessionDetail) string {
	s := fmt.Sprintf("%s, %s, %s tokens read (%s of them from the cache), %s written; model %s; log %s in epoch %d",
		many(d.Turns, "turn"), many(d.Usage.Completions, "completion"), term.Count(d.Usage.Prompt+d.Usage.Cached), term.Count(d.Usage.Cached), term.Count(d.Usage.Generated),
		d.Model, term.Bytes(d.Info.Bytes), d.Info.Epoch)
	if d.Queued > 0 {
		s += "; " + many(d.Queued, "message") + " waiting"
	}
	return s + "."
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Show writes the session for the terminal.
func (e Export) Show(ctx context.Context, id string) error {
	sc := e.Screen
	d, err := e.Source.Past(ctx, id, func(p *proto.Past) error {
		_, err := io.WriteString(sc.W, e.shown(p))
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(sc.W, sc.Dim(term.Line(e.sums(d))))
	return err
}

func (e Export) shown(p *proto.Past) string {
	sc := e.Screen
	var b strings.Builder
	switch p.Role {
	case "user":
		b.WriteString(sc.Bold("> "+strings.ReplaceAll(term.Safe(strings.TrimRight(p.Text, "\n")), "\n", "\n> ")) + sc.Dim("  "+e.when(p.Time)) + "\n")
	case "assistant":
		if p.Thinking != "" {
			b.WriteString(sc.Dim("(thought: "+term.Clip(term.Line(p.Thinking), sc.Width()-12)+")") + "\n")
		}
		if text := strings.Trim(p.Text, "\n"); text != "" {
			b.WriteString(term.Theirs(term.Safe(text)) + "\n")
		}
		if p.Tool != "" {
			b.WriteString(sc.Dim(term.Clip("· "+term.Line(p.Tool)+" "+term.Line(p.Args), sc.Width()-1)) + "\n")
		}
	case "tool":
		b.WriteString(sc.Dim(term.Clip("  → "+term.Line(p.Text), sc.Width()-1)) + "\n")
	default:
		if p.Text != string(proto.TurnAnswered) {
			b.WriteString(sc.Warn("(the turn ended: "+term.Line(p.Text)+")") + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (e Export) when(s string) string {
	t, err := proto.ParseTime(s)
	if err != nil {
		return ""
	}
	return term.When(t, e.Now)
}

// Table writes the list of sessions for people.
func Table(sc term.Screen, list *proto.SessionList, now time.Time) error {
	if len(list.Sessions) == 0 {
		_, err := fmt.Fprintln(sc.W, "There are no sessions yet. Begin one with: bxctl chat")
		return err
	}
	wide := len("SESSION")
	for _, s := range list.Sessions {
		wide = max(wide, len(s.Session))
	}
	fmt.Fprintln(sc.W, sc.Dim(fmt.Sprintf("%-*s  %-12s  %8s  %7s  %s", wide, "SESSION", "CHANGED", "SIZE", "RECORDS", "FIRST MESSAGE"))) //nolint:errcheck // the next write tells
	for _, s := range list.Sessions {
		when := s.Modified
		if t, err := proto.ParseTime(s.Modified); err == nil {
			when = term.When(t, now)
		}
		open := ""
		if s.Open {
			open = sc.Good("* ")
		}
		line := fmt.Sprintf("%-*s  %-12s  %8s  %7d  %s", wide, s.Session, when, term.Bytes(s.Bytes), s.Records, open)
		text := term.Line(s.Title)
		if sc.Terminal {
			text = term.Clip(text, max(sc.Width()-wide-37, 20))
		}
		if _, err := fmt.Fprintln(sc.W, strings.TrimRight(line+text, " ")); err != nil {
			return err
		}
	}
	if list.More {
		_, err := fmt.Fprintln(sc.W, sc.Dim("(there are more: --limit)"))
		return err
	}
	return nil
}
