// Package allow decides which posts the bot hears.
//
// [Decide] is pure. It hears only what the owner wrote by hand, by user id, in the
// direct channel of owner and bot or, naming the bot, in a listed channel. All else
// gets no answer, not even a refusal: a stranger does not learn that somebody
// listens. An edit is never heard, since whoever may edit a post writes under its
// author's name. What it trusts is the server's word on who posted.
package allow

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"boxmaker/gatewayd/internal/mattermost"
)

// Rules say whom the bot hears, and where beside direct channels.
type Rules struct{ Owners, Channels []string }

// A Bot is who we are: user id, and the name that others write.
type Bot struct{ ID, Name string }

// Verdict says what becomes of a post.
type Verdict string

// Verdicts. Only Hear and Edited lead to an answer.
const (
	Hear    Verdict = "hear"
	Edited  Verdict = "edited"   // the owner's, but who wrote what stands there now is not known
	Own     Verdict = "own"      // the bot's
	Other   Verdict = "other"    // somebody's who is not the owner
	Place   Verdict = "place"    // not where the owner is heard
	Unnamed Verdict = "unnamed"  // in a listed channel, but does not name the bot
	Program Verdict = "program"  // a webhook, bot or plug-in, maybe under the owner's id
	System  Verdict = "system"   // the server's
	Gone    Verdict = "gone"     // deleted, or a text that an edit left behind
	Broken  Verdict = "nonsense" // not a post as servers make them
)

// Decide judges one post in its channel.
func Decide(r Rules, bot Bot, p mattermost.Post, ch mattermost.Channel) Verdict {
	switch {
	case !mattermost.ValidID(p.ID) || !mattermost.ValidID(p.Channel) || p.Channel != ch.ID || p.Root != "" && !mattermost.ValidID(p.Root) || p.CreateAt <= 0:
		return Broken
	case p.User == bot.ID:
		return Own
	case !slices.Contains(r.Owners, p.User) || p.User == "":
		return Other
	case !p.Live():
		return Gone
	case p.Type != "":
		return System
	case p.Props.Program():
		return Program
	}
	switch ch.Type {
	case mattermost.Direct:
		if !between(ch.Name, p.User, bot.ID) {
			return Place // an owner who is an administrator can post in other people's
		}
	case mattermost.Public, mattermost.Private:
		switch {
		case !slices.Contains(r.Channels, ch.ID):
			return Place
		case !Names(p.Message, bot.Name):
			return Unnamed
		}
	default:
		return Place
	}
	if p.EditAt != 0 {
		return Edited
	}
	return Hear
}

// between reports whether a direct channel is that of these two.
func between(name, a, b string) bool { return name == a+"__"+b || name == b+"__"+a }

// Relevant reports whether the owner can be heard in a channel at all.
func Relevant(r Rules, bot Bot, ch mattermost.Channel) bool {
	if ch.Type != mattermost.Direct {
		return slices.Contains(r.Channels, ch.ID)
	}
	return slices.ContainsFunc(r.Owners, func(o string) bool { return between(ch.Name, o, bot.ID) })
}

// Names reports whether a text names the bot. It goes by the text alone, so that an
// event and the history lead to the same; in code nobody is named.
func Names(text, name string) bool { return len(mentions(text, name)) > 0 }

// Strip takes the bot's name off the start of a text.
func Strip(text, name string) string {
	for {
		text = strings.TrimSpace(text)
		m := mentions(text, name)
		if len(m) == 0 || m[0] != 0 {
			return text
		}
		text = strings.TrimLeft(text[1+len(name):], ":, ")
	}
}

// mentions gives where "@name" stands alone, outside of code.
func mentions(text, name string) (at []int) {
	if name == "" {
		return nil
	}
	code := ""
	for i := 0; i < len(text); i++ {
		if text[i] == '`' {
			n := 1
			for i+n < len(text) && text[i+n] == '`' {
				n++
			}
			switch run := text[i : i+n]; {
			case code == run:
				code = ""
			case code == "" && strings.Contains(text[i+n:], run):
				code = run
			}
			i += n - 1
			continue
		}
		if code != "" || text[i] != '@' || len(text)-i-1 < len(name) || !strings.EqualFold(text[i+1:i+1+len(name)], name) {
			continue
		}
		before := strings.TrimRight(text[:i], ".:-_")
		after := strings.TrimLeft(text[i+1+len(name):], ".:-_")
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		if edge(last, len(before) < i) && edge(first, len(after) < len(text)-i-1-len(name)) {
			at = append(at, i)
		}
	}
	return at
}

// edge reports whether a name may end at r, or begin behind it; marked says that a
// full stop or its like stands between.
func edge(r rune, marked bool) bool {
	switch {
	case r == utf8.RuneError: // nothing
		return true
	case unicode.IsLetter(r) || unicode.IsNumber(r):
		return false
	default:
		return marked || r != '@'
	}
}
