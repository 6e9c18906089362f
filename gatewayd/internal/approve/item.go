package approve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
)

// An Item is one post of ours and what became of it: a card, or an anchor of the
// audit log. It is on disk before anything is done because of it.
type Item struct {
	V      int       `json:"v"`
	ID     string    `json:"id"`  // of the approval, or of the anchor
	Key    string    `json:"key"` // in the post's props; nobody can guess it
	Made   string    `json:"made"`
	Ask    proto.Ask `json:"ask"`
	Anchor string    `json:"anchor,omitzero"` // a signed note; then Ask means nothing

	Text    string `json:"text,omitzero"` // as it was posted
	Mute    bool   `json:"mute,omitzero"` // no answer counts: it was told as news, or was changed by others
	Channel string `json:"channel,omitzero"`
	Root    string `json:"root,omitzero"`
	File    string `json:"file,omitzero"`   // that was uploaded for it
	Tried   bool   `json:"tried,omitzero"`  // the post may have been made
	Post    string `json:"post,omitzero"`   // its id, once that is known
	At      int64  `json:"at,omitzero"`     // of the post, on the server's clock
	Marked  bool   `json:"marked,omitzero"` // our two reactions are on it
	Spoiled bool   `json:"spoiled,omitzero"`

	Said   Answer `json:"said"`   // in a message; counts once the card was looked at
	Answer Answer `json:"answer"` // of the owner here
	End    End    `json:"end"`    // as brokerd told it
	Closed bool   `json:"closed,omitzero"`
}

// An Answer is the owner's word in the chat. The zero value is none.
type Answer struct {
	Verdict proto.Verdict `json:"verdict,omitzero"`
	By      string        `json:"by,omitzero"`
	At      int64         `json:"at,omitzero"` // of the message, on the server's clock
}

// An End is how an approval ended. The zero value is none.
type End struct {
	Verdict proto.Verdict `json:"verdict,omitzero"`
	By      string        `json:"by,omitzero"`
	Channel string        `json:"channel,omitzero"`
}

const itemVersion = 1

// Validate checks what a file may hold.
func (i *Item) Validate() error {
	_, err := proto.ParseTime(i.Made)
	err = errors.Join(err, proto.CheckToken(i.ID), proto.CheckToken(i.Key))
	if i.V != itemVersion {
		err = errors.Join(err, fmt.Errorf("approve: a file of version %d", i.V))
	}
	if i.Anchor == "" {
		err = errors.Join(err, i.Ask.Validate())
		if i.Ask.Approval != i.ID {
			err = errors.Join(err, errors.New("approve: a file of another approval"))
		}
	}
	for _, v := range []proto.Verdict{i.Said.Verdict, i.Answer.Verdict, i.End.Verdict} {
		if v != "" {
			err = errors.Join(err, v.Validate())
		}
	}
	return err
}

// A Step is what is to be done next for an item.
type Step int

// Steps. StepWait is none: something else has to happen first.
const (
	StepWait   Step = iota
	StepUpload      // bring the file with the whole text there
	StepFind        // it may have been posted: look for it
	StepPost
	StepMark  // put our reactions on it
	StepLook  // read post and reactions
	StepClose // edit the outcome in
	StepMend  // say in a post that somebody changed it
	StepForget
)

// Next gives the next step. look says that something may have happened to the
// post since it was last read.
func (i *Item) Next(look, file bool) Step {
	over := i.End.Verdict != ""
	switch {
	case i.Closed, over && i.Post == "" && !i.Tried, i.Anchor != "" && i.Post != "":
		return StepForget
	case i.Post == "" && i.Tried:
		return StepFind
	case i.Post == "" && file && i.File == "":
		return StepUpload
	case i.Post == "":
		return StepPost
	case over:
		return StepClose
	case i.Spoiled && !i.Mute:
		return StepMend
	case i.Mute:
		return StepWait
	case !i.Marked:
		return StepMark
	case (look || i.said()) && i.Answer.Verdict == "":
		return StepLook
	}
	return StepWait
}

// waits reports whether an answer of the chat can count as soon as the card's post is
// known.
func (i *Item) waits(now time.Time) bool {
	t, err := proto.ParseTime(i.Ask.Expires)
	return err == nil && now.Before(t) && i.Anchor == "" && !i.Ask.Elsewhere() && !i.Mute && !i.Spoiled &&
		i.Answer.Verdict == "" && i.End.Verdict == ""
}

// open reports whether an answer of the chat can count now.
func (i *Item) open(now time.Time) bool { return i.waits(now) && i.Post != "" }

// said reports whether a message of the owner is an answer to the card: one that is
// older than it is none.
func (i *Item) said() bool { return i.Said.Verdict != "" && i.Post != "" && i.Said.At >= i.At }

// Seen takes what the server says of the post, and who reacted how. It is the
// only way in which a reaction counts: an event is a mere hint to look, since
// events come twice, late, or not at all. A post that is not to the letter what
// was posted is spoiled: whoever runs the server can edit it, and the owner then
// answered something else.
func (i *Item) Seen(p mattermost.Post, rs []mattermost.Reaction, me string, owners []string, now time.Time) {
	if !i.open(now) {
		return
	}
	if p.ID != i.Post || p.User != me || p.Channel != i.Channel || !p.Live() || p.Message != i.Text || p.EditAt != 0 || p.Type != "" || p.Props.Key != i.Key {
		i.Spoiled = true
		return
	}
	if i.said() {
		i.Answer = i.Said
	}
	if i.Answer.Verdict == proto.VerdictDenied {
		return
	}
	for _, r := range rs {
		if r.Post != i.Post || r.DeleteAt != 0 || r.User == me || !slices.Contains(owners, r.User) || r.CreateAt < i.At {
			continue
		}
		switch {
		case r.Emoji == EmojiNo: // of both, the no
			i.Answer = Answer{Verdict: proto.VerdictDenied, By: r.User}
			return
		case r.Emoji == EmojiYes && i.Answer.Verdict == "":
			i.Answer = Answer{Verdict: proto.VerdictApproved, By: r.User}
		}
	}
}

// codeLength is that of brokerd's codes.
const codeLength = 6

// A Word is an answer by text.
type Word struct {
	Verdict proto.Verdict
	Code    string
}

// ParseWord reads "approve CODE" or "deny CODE", alone in a message. Any other
// text, and any more of it, is no answer.
func ParseWord(s string) (Word, bool) {
	verb, code, _ := strings.Cut(strings.Trim(s, " \n"), " ")
	code = strings.Trim(code, " ")
	if len(code) != codeLength || strings.ContainsFunc(code, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return Word{}, false
	}
	switch strings.ToLower(verb) {
	case "approve":
		return Word{proto.VerdictApproved, code}, true
	case "deny":
		return Word{proto.VerdictDenied, code}, true
	}
	return Word{}, false
}

// Hear takes a message of the owner as an answer, for [Item.Seen] to find that the
// card is still what was posted. Its code alone is worth nothing: it has to stand
// where the card stands, be written by hand after it, and never have been edited, for
// an administrator can edit the owner's posts. The owner may have seen the card before
// we know that it was posted, as after a restart; then its time is looked at later.
func (i *Item) Hear(p mattermost.Post, w Word, direct bool, owners []string, now time.Time) bool {
	known := i.Post != ""
	if !i.waits(now) || !known && (!i.Tried || i.Said.Verdict != "") || i.said() {
		return false
	}
	if !strings.EqualFold(w.Code, i.Ask.Code) || !slices.Contains(owners, p.User) || !p.ByHand() || p.EditAt != 0 || p.Channel != i.Channel || p.CreateAt < i.At {
		return false
	}
	if root := p.ThreadRoot(); !direct && root != i.Post && (i.Root == "" || root != i.Root) {
		return false
	}
	i.Said = Answer{Verdict: w.Verdict, By: p.User, At: p.CreateAt}
	return true
}
