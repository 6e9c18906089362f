package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// Search is what is looked for in all sessions.
type Search struct {
	Text         string    // without regard to case
	Since, Until time.Time // zero: no bound
	Limit        int
}

// A Hit is a message that holds the text.
type Hit struct {
	Session string `json:"session"`
	Time    string `json:"time"`
	Role    string `json:"role"` // user, assistant, tool
	Epoch   int    `json:"epoch"`
	Record  int64  `json:"record"`
	Text    string `json:"text"` // around the first place
}

// around is how many characters of a hit are kept before and behind its text.
const around = 60

// Found is what a search gives.
type Found struct {
	Hits   []Hit    `json:"hits"`
	More   bool     `json:"more"` // than the limit
	Unread []Unread `json:"unread,omitzero"`
}

// Search finds messages, in the newest session first, oldest message first
// within one. A log that can't be read is told of, and the others are gone on
// with.
func (f Files) Search(ctx context.Context, s Search) (*Found, error) {
	list, err := f.Sessions(ctx, "", 0)
	if err != nil {
		return nil, err
	}
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found := &Found{Hits: []Hit{}, Unread: hidden(root)}
	text := strings.ToLower(s.Text)
	for _, info := range list.Sessions {
		if changed, err := proto.ParseTime(info.Modified); err == nil && changed.Before(s.Since) {
			break // they are sorted by this time
		}
		bad, err := f.Records(ctx, info.Session, func(epoch int, h proto.Header, r proto.Record) error {
			if h.Time.Before(s.Since) || !s.Until.IsZero() && !h.Time.Before(s.Until) {
				return nil
			}
			role := map[string]string{"user": "user", "assistant": "assistant", "tool": "tool"}[r.Kind()]
			if role == "" {
				return nil
			}
			part, ok := find(parse(proto.MessageOf(r)).Content, text)
			if !ok {
				return nil
			}
			if len(found.Hits) == s.Limit {
				found.More = true
				return errEnough
			}
			found.Hits = append(found.Hits, Hit{info.Session, proto.Time(h.Time), role, epoch, h.N, part})
			return nil
		})
		found.Unread = append(found.Unread, bad...)
		switch {
		case errors.Is(err, errEnough):
			return found, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // it went away meanwhile
			found.Unread = append(found.Unread, unread(info.Session, err))
		}
	}
	return found, nil
}

// find gives what stands around the first place of lower in s.
func find(s, lower string) (string, bool) {
	low := strings.ToLower(s)
	i := strings.Index(low, lower)
	if i < 0 {
		return "", false
	}
	if len(low) != len(s) { // letters of which only one case has this length
		i = min(i, len(s))
	}
	from, to := i, min(i+len(lower), len(s))
	for n := 0; n < around && from > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(s[:from])
		from -= size
	}
	for n := 0; n < around && to < len(s); n++ {
		_, size := utf8.DecodeRuneInString(s[to:])
		to += size
	}
	out := strings.ToValidUTF8(s[from:to], "")
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return strings.Join(strings.Fields(out), " "), true
}

// Hits writes what was found for people.
func Hits(sc term.Screen, found *Found, s Search, now time.Time) error {
	hits := found.Hits
	if len(hits) == 0 {
		_, err := fmt.Fprintln(sc.W, "No message holds that text.")
		return err
	}
	names := map[string]string{"user": "you", "assistant": "Boxmaker", "tool": "a tool"}
	session := ""
	for _, h := range hits {
		if h.Session != session {
			session = h.Session
			fmt.Fprintln(sc.W, sc.Bold(session)) //nolint:errcheck // the next write tells
		}
		when := h.Time
		if t, err := proto.ParseTime(h.Time); err == nil {
			when = term.When(t, now)
		}
		head := fmt.Sprintf("  %-12s %-8s ", when, names[h.Role])
		text := term.Line(h.Text)
		if sc.Terminal {
			text = term.Clip(text, max(sc.Width()-term.Columns(head)-1, 20))
		}
		if _, err := fmt.Fprintln(sc.W, sc.Dim(head)+mark(sc, text, s.Text)); err != nil {
			return err
		}
	}
	if found.More {
		_, err := fmt.Fprintln(sc.W, sc.Dim("(there are more: --limit)"))
		return err
	}
	return nil
}

// mark shows the first place of what was looked for.
func mark(sc term.Screen, text, what string) string {
	i := strings.Index(strings.ToLower(text), strings.ToLower(what))
	if i < 0 || i+len(what) > len(text) || len(strings.ToLower(text)) != len(text) {
		return text
	}
	return text[:i] + sc.Bold(text[i:i+len(what)]) + text[i+len(what):]
}
