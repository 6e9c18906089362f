package approve

import (
	"slices"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

const (
	me       = "botbotbotbotbotbotbotbotb1"
	owner    = "ownerownerownerownerowner1"
	stranger = "strangerstrangerstranger12"
	admin    = "adminadminadminadminadmin1"
	home     = "homehomehomehomehomehome12"
	team     = "teamteamteamteamteamteam12"
	cardID   = "cardcardcardcardcardcard12"
	otherID  = "otherotherotherotherother1"
	rootID   = "rootrootrootrootrootroot12"
	hash     = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func question() proto.Ask {
	return proto.Ask{
		Approval: "a1", Code: "K7M4PX", Digest: hash, Asked: proto.Time(noon()), Expires: proto.Time(noon().Add(15 * time.Minute)),
		Session: "mm-x", Tool: "write_file", Fields: []proto.Field{{Name: "path", Value: "/w/a"}, {Name: "content", Value: "one\n"}},
		Read: []string{}, Write: []string{"/w/a"}, Hosts: []string{}, Secrets: []string{}, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "10-w",
	}
}

// shown is a card that stands in a thread of the owner's direct channel.
func shown() *Item {
	return &Item{
		V: 1, ID: "a1", Key: "key1", Made: proto.Time(noon()), Ask: question(), Text: "the card", Channel: home, Root: rootID,
		Tried: true, Post: cardID, At: 1000, Marked: true,
	}
}

func intact() mattermost.Post {
	return mattermost.Post{ID: cardID, User: me, Channel: home, Root: rootID, Message: "the card", CreateAt: 1000, UpdateAt: 1005, Props: mattermost.Props{Key: "key1", FromBot: true}}
}

func by(user, emoji string) mattermost.Reaction {
	return mattermost.Reaction{User: user, Post: cardID, Emoji: emoji, CreateAt: 2000}
}

// P56: whoever presses is not the owner unless the server says so, for this very
// post, before the end, once.
func TestCaseP56Reactions(t *testing.T) {
	yes := []mattermost.Reaction{by(me, EmojiYes), by(me, EmojiNo), by(owner, EmojiYes)}
	for _, tc := range []struct {
		name  string
		item  func(*Item)
		post  func(*mattermost.Post)
		rs    []mattermost.Reaction
		late  time.Duration
		want  proto.Verdict
		spoil bool
	}{
		{name: "the owner's yes", rs: yes, want: proto.VerdictApproved},
		{name: "the owner's no", rs: []mattermost.Reaction{by(owner, EmojiNo)}, want: proto.VerdictDenied},
		{name: "yes and no", rs: []mattermost.Reaction{by(owner, EmojiYes), by(owner, EmojiNo)}, want: proto.VerdictDenied},
		{name: "twice the same, as a duplicate event leaves it", rs: append(slices.Clone(yes), yes...), want: proto.VerdictApproved},
		{name: "found after a gap", rs: yes, late: 14 * time.Minute, want: proto.VerdictApproved},
		{name: "none", rs: nil},
		{name: "the bot's own alone", rs: yes[:2]},
		{name: "another user", rs: []mattermost.Reaction{by(stranger, EmojiYes)}},
		{name: "an administrator", rs: []mattermost.Reaction{by(admin, EmojiYes)}},
		{name: "another user's no", rs: []mattermost.Reaction{by(stranger, EmojiNo)}},
		{name: "another user's no beside the owner's yes", rs: append(slices.Clone(yes), by(stranger, EmojiNo)), want: proto.VerdictApproved},
		{name: "plus one", rs: []mattermost.Reaction{by(owner, "+1")}},
		{name: "thumbs up", rs: []mattermost.Reaction{by(owner, "thumbsup")}},
		{name: "a skin tone", rs: []mattermost.Reaction{by(owner, "+1_medium_skin_tone"), by(owner, "white_check_mark_medium_skin_tone")}},
		{name: "names that look alike", rs: []mattermost.Reaction{by(owner, "heavy_check_mark"), by(owner, "White_check_mark"), by(owner, "white_check_mark "), by(owner, "ballot_box_with_check")}},
		{name: "taken back", rs: []mattermost.Reaction{{User: owner, Post: cardID, Emoji: EmojiYes, CreateAt: 2000, DeleteAt: 2001}}},
		{name: "on another post", rs: []mattermost.Reaction{{User: owner, Post: otherID, Emoji: EmojiYes, CreateAt: 2000}}},
		{name: "before the post was there", rs: []mattermost.Reaction{{User: owner, Post: cardID, Emoji: EmojiYes, CreateAt: 999}}},
		{name: "after the expiry", rs: yes, late: 15 * time.Minute},
		{name: "after the answer of another channel", item: func(i *Item) { i.End = End{Verdict: proto.VerdictDenied, Channel: "cli"} }, rs: yes},
		{name: "after an answer here", item: func(i *Item) { i.Answer = Answer{Verdict: proto.VerdictDenied, By: owner} }, rs: yes, want: proto.VerdictDenied},
		{name: "a card that was told as news", item: func(i *Item) { i.Mute = true }, rs: yes},
		{name: "a call that may not be answered here", item: func(i *Item) { i.Ask.Digest, i.Ask.Code = "", "" }, rs: yes},
		{name: "an anchor", item: func(i *Item) { i.Anchor = "note" }, rs: yes},
		{name: "a card that is not known to be posted", item: func(i *Item) { i.Post = "" }, rs: yes},
		{name: "the card was edited by an administrator", post: func(p *mattermost.Post) { p.Message, p.EditAt = "harmless", 1500 }, rs: yes, spoil: true},
		{name: "the card was edited and edited back", post: func(p *mattermost.Post) { p.EditAt = 1500 }, rs: yes, spoil: true},
		{name: "the card's text differs without an edit", post: func(p *mattermost.Post) { p.Message += " " }, rs: yes, spoil: true},
		{name: "the card was pinned", post: func(p *mattermost.Post) { p.UpdateAt = 9000 }, rs: yes, want: proto.VerdictApproved},
		{name: "the card was deleted", post: func(p *mattermost.Post) { p.DeleteAt = 1500 }, rs: yes, spoil: true},
		{name: "the card is gone", post: func(p *mattermost.Post) { *p = mattermost.Post{} }, rs: yes, spoil: true},
		{name: "the card is another's post", post: func(p *mattermost.Post) { p.User = admin }, rs: yes, spoil: true},
		{name: "the card stands in another channel", post: func(p *mattermost.Post) { p.Channel = team }, rs: yes, spoil: true},
		{name: "the card has another key", post: func(p *mattermost.Post) { p.Props.Key = "key2" }, rs: yes, spoil: true},
		{name: "the card is a system message", post: func(p *mattermost.Post) { p.Type = "system_generic" }, rs: yes, spoil: true},
		{name: "an old text of the card", post: func(p *mattermost.Post) { p.Original = otherID }, rs: yes, spoil: true},
		{name: "a word of the owner, and no reaction", item: func(i *Item) { i.Said = Answer{proto.VerdictApproved, owner, 2000} }, want: proto.VerdictApproved},
		{name: "a word to a card that was edited", item: func(i *Item) { i.Said = Answer{proto.VerdictApproved, owner, 2000} }, post: func(p *mattermost.Post) { p.EditAt = 1 }, spoil: true},
		{name: "a yes by word and a no by reaction", item: func(i *Item) { i.Said = Answer{proto.VerdictApproved, owner, 2000} }, rs: []mattermost.Reaction{by(owner, EmojiNo)}, want: proto.VerdictDenied},
		{name: "a no by word and a yes by reaction", item: func(i *Item) { i.Said = Answer{proto.VerdictDenied, owner, 2000} }, rs: yes, want: proto.VerdictDenied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i, p := shown(), intact()
			if tc.item != nil {
				tc.item(i)
			}
			if tc.post != nil {
				tc.post(&p)
			}
			i.Seen(p, tc.rs, me, []string{owner}, noon().Add(tc.late))
			if i.Answer.Verdict != tc.want || i.Spoiled != tc.spoil || tc.want != "" && i.Answer.By != owner {
				t.Errorf("%+v spoiled %v", i.Answer, i.Spoiled)
			}
		})
	}
}

func TestCaseP56Replies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		text   string
		post   func(*mattermost.Post)
		item   func(*Item)
		direct bool
		late   time.Duration
		want   proto.Verdict
	}{
		{name: "approve in the thread", text: "approve K7M4PX", want: proto.VerdictApproved},
		{name: "deny in the thread", text: "deny K7M4PX", want: proto.VerdictDenied},
		{name: "as a telephone writes it", text: " Approve k7m4px \n", want: proto.VerdictApproved},
		{name: "top level in the direct channel", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Root = "" }, direct: true, want: proto.VerdictApproved},
		{name: "top level elsewhere", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Root = "" }},
		{name: "another thread elsewhere", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Root = otherID }},
		{name: "in reply to the card itself", text: "approve K7M4PX", item: func(i *Item) { i.Root = "" }, post: func(p *mattermost.Post) { p.Root = cardID }, want: proto.VerdictApproved},
		{name: "another code", text: "approve K7M4PY"},
		{name: "another channel", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Channel = team }, direct: true},
		{name: "a stranger", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.User = stranger }, direct: true},
		{name: "an administrator", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.User = admin }, direct: true},
		{name: "another bot", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.User = stranger; p.Props.FromBot = true }, direct: true},
		{name: "the bot itself", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.User = me }, direct: true},
		{name: "a webhook with the owner's id", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Props.FromWebhook = true }, direct: true},
		{name: "a plug-in with the owner's id", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Props.FromPlugin = true }},
		{name: "an app with the owner's id", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Props.FromOAuth = true }},
		{name: "a message with boxes", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Props.Attachments = true }},
		{name: "a system message", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Type = "system_me" }},
		{name: "an edited message of the owner", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.EditAt = 2100 }},
		{name: "a deleted message", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.DeleteAt = 2100 }},
		{name: "the old text of an edit", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.Original = otherID }},
		{name: "older than the card", text: "approve K7M4PX", post: func(p *mattermost.Post) { p.CreateAt = 999 }},
		{name: "quoted", text: "> approve K7M4PX"},
		{name: "in code", text: "`approve K7M4PX`"},
		{name: "a copy of the card", text: "🔏 **shell** wants your approval · code `K7M4PX`\nreply `approve K7M4PX`"},
		{name: "forwarded with a link", text: "approve K7M4PX https://chat.example/team/pl/" + cardID},
		{name: "a sentence", text: "please approve K7M4PX"},
		{name: "with more behind it", text: "approve K7M4PX and all others"},
		{name: "two lines", text: "approve K7M4PX\ndeny K7M4PX"},
		{name: "a slash command", text: "/approve K7M4PX"},
		{name: "letters that look alike", text: "approve К7M4PX"}, // a Cyrillic К
		{name: "the code alone", text: "K7M4PX"},
		{name: "approve alone", text: "approve"},
		{name: "yes", text: "yes"},
		{name: "the approval's id", text: "approve a1"},
		{name: "after the expiry", text: "approve K7M4PX", late: 15 * time.Minute},
		{name: "after a first word", text: "approve K7M4PX", item: func(i *Item) { i.Said = Answer{proto.VerdictDenied, owner, 2000} }, want: proto.VerdictDenied},
		{name: "after an answer", text: "approve K7M4PX", item: func(i *Item) { i.Answer = Answer{proto.VerdictDenied, owner, 2000} }},
		{name: "after the end", text: "approve K7M4PX", item: func(i *Item) { i.End = End{Verdict: proto.VerdictExpired} }},
		{name: "to a card that was changed", text: "approve K7M4PX", item: func(i *Item) { i.Spoiled = true }},
		{name: "to news", text: "approve K7M4PX", item: func(i *Item) { i.Mute = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := shown()
			p := mattermost.Post{ID: otherID, User: owner, Channel: home, Root: rootID, Message: tc.text, CreateAt: 2000, UpdateAt: 2000}
			if tc.post != nil {
				tc.post(&p)
			}
			if tc.item != nil {
				tc.item(i)
			}
			if w, ok := ParseWord(p.Message); ok {
				i.Hear(p, w, tc.direct, []string{owner}, noon().Add(tc.late))
			}
			if i.Said.Verdict != tc.want {
				t.Errorf("%+v", i.Said)
			}
		})
	}
}

// The owner can see a card, and answer it, before gatewayd knows that it was posted:
// such a word counts once the card is found, unless it is older than the card.
func TestAWordBeforeTheCardIsKnown(t *testing.T) {
	for _, tc := range []struct {
		name   string
		tried  bool
		direct bool
		root   string
		at     int64 // of the card, as it is found
		want   proto.Verdict
	}{
		{"after the card", true, false, rootID, 1500, proto.VerdictApproved},
		{"in the direct channel", true, true, "", 1500, proto.VerdictApproved},
		{"before the card", true, false, rootID, 2500, ""},
		{"in another thread elsewhere", true, false, otherID, 1500, ""},
		{"of a card that was never tried", false, false, rootID, 1500, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := shown()
			i.Post, i.At, i.Tried = "", 0, tc.tried
			p := mattermost.Post{ID: otherID, User: owner, Channel: home, Root: tc.root, Message: "approve K7M4PX", CreateAt: 2000, UpdateAt: 2000}
			i.Hear(p, Word{proto.VerdictApproved, "K7M4PX"}, tc.direct, []string{owner}, noon())
			if i.Answer.Verdict != "" {
				t.Fatalf("%+v before the card was looked at", i.Answer)
			}
			i.Post, i.At = cardID, tc.at
			i.Seen(intact(), nil, me, []string{owner}, noon())
			if i.Answer.Verdict != tc.want {
				t.Errorf("%+v", i.Answer)
			}
			p.CreateAt, p.Root = 3000, rootID
			if heard := i.Hear(p, Word{proto.VerdictDenied, "K7M4PX"}, false, []string{owner}, noon()); heard != (tc.want == "") {
				t.Errorf("a second word was taken: %v", heard)
			}
		})
	}
}

// However posts, reactions and words come: nothing but the owner approves, an
// answer never changes, and a card that was not to the letter ours never gives one.
func TestOnlyTheOwnerEverAnswers(t *testing.T) {
	users := []string{me, owner, stranger, admin}
	emoji := []string{EmojiYes, EmojiNo, "+1", "white_check_mark_dark_skin_tone"}
	rapid.Check(t, func(t *rapid.T) {
		i, could := shown(), false
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := i.Answer
			late := time.Duration(rapid.IntRange(0, 16).Draw(t, "minutes")) * time.Minute
			if rapid.Bool().Draw(t, "word") {
				p := mattermost.Post{ID: otherID, User: rapid.SampledFrom(users).Draw(t, "author"), Channel: home, Root: rootID, CreateAt: 2000, EditAt: int64(rapid.IntRange(0, 1).Draw(t, "edited"))}
				p.Props.FromWebhook = rapid.Bool().Draw(t, "hook")
				i.Hear(p, Word{proto.VerdictApproved, "K7M4PX"}, false, []string{owner}, noon().Add(late))
				could = could || p.User == owner && p.EditAt == 0 && !p.Props.FromWebhook
				continue
			}
			p, bad := intact(), rapid.Bool().Draw(t, "edited card")
			if bad {
				p.EditAt = 5
			}
			var rs []mattermost.Reaction
			for range rapid.IntRange(0, 3).Draw(t, "reactions") {
				r := by(rapid.SampledFrom(users).Draw(t, "user"), rapid.SampledFrom(emoji).Draw(t, "emoji"))
				rs = append(rs, r)
				could = could || r.User == owner && (r.Emoji == EmojiYes || r.Emoji == EmojiNo)
			}
			i.Seen(p, rs, me, []string{owner}, noon().Add(late))
			switch {
			case before.Verdict != "" && i.Answer != before:
				t.Fatalf("%+v became %+v", before, i.Answer)
			case before.Verdict == "" && i.Answer.Verdict != "" && (bad || late >= 15*time.Minute || !could || i.Answer.By != owner):
				t.Fatalf("%+v", i.Answer)
			}
		}
	})
}

func TestSteps(t *testing.T) {
	for _, tc := range []struct {
		name       string
		item       func(*Item)
		look, file bool
		want       Step
	}{
		{name: "new", item: func(i *Item) { *i = Item{} }, look: true, want: StepPost},
		{name: "new with a file", item: func(i *Item) { *i = Item{} }, file: true, want: StepUpload},
		{name: "its file is there", item: func(i *Item) { *i = Item{File: "f"} }, file: true, want: StepPost},
		{name: "perhaps posted", item: func(i *Item) { i.Post = "" }, file: true, want: StepFind},
		{name: "posted", item: func(i *Item) { i.Marked = false }, look: true, want: StepMark},
		{name: "shown", item: func(*Item) {}, want: StepWait},
		{name: "shown, and something happened", item: func(*Item) {}, look: true, want: StepLook},
		{name: "the owner wrote", item: func(i *Item) { i.Said = Answer{proto.VerdictDenied, owner, 2000} }, want: StepLook},
		{name: "answered", item: func(i *Item) { i.Answer.Verdict = proto.VerdictDenied }, look: true, want: StepWait},
		{name: "ended", item: func(i *Item) { i.End.Verdict = proto.VerdictExpired }, look: true, want: StepClose},
		{name: "ended before it was posted", item: func(i *Item) { *i = Item{End: End{Verdict: proto.VerdictExpired}} }, want: StepForget},
		{name: "ended, and perhaps posted", item: func(i *Item) { i.Post, i.End.Verdict = "", proto.VerdictExpired }, want: StepFind},
		{name: "outcome shown", item: func(i *Item) { i.Closed = true }, look: true, want: StepForget},
		{name: "spoiled", item: func(i *Item) { i.Spoiled = true }, look: true, want: StepMend},
		{name: "spoiled, and said so", item: func(i *Item) { i.Spoiled, i.Mute = true, true }, look: true, want: StepWait},
		{name: "news", item: func(i *Item) { i.Mute, i.Marked = true, false }, look: true, want: StepWait},
		{name: "news that ended", item: func(i *Item) { i.Mute, i.End.Verdict = true, proto.VerdictDenied }, want: StepClose},
		{name: "an anchor", item: func(i *Item) { *i = Item{Anchor: "n"} }, want: StepPost},
		{name: "an anchor that is posted", item: func(i *Item) { i.Anchor = "n" }, want: StepForget},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := shown()
			tc.item(i)
			if got := i.Next(tc.look, tc.file); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
