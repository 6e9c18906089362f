package mattermost

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Most of what a message may have when the server does not say (MaxPostSize in
// its client configuration), in runes.
const DefaultPostSize = 16383

// A Post is a message as the server keeps it. Times are the server's clock, in
// milliseconds.
type Post struct {
	ID       string `json:"id"`
	User     string `json:"user_id"`
	Channel  string `json:"channel_id"`
	Root     string `json:"root_id"` // the first post of its thread; "" for a first post
	Message  string `json:"message"`
	Type     string `json:"type"`            // "" for what people write; "system_…", "slack_attachment", "custom_…"
	Original string `json:"original_id"`     // set: an old text that an edit left behind
	Pending  string `json:"pending_post_id"` // empty in what REST reads back
	CreateAt int64  `json:"create_at"`
	UpdateAt int64  `json:"update_at"` // also moves with a pin, a reaction, a reply
	EditAt   int64  `json:"edit_at"`   // the last change of the text
	DeleteAt int64  `json:"delete_at"`
	Props    Props  `json:"props"`

	Files []string `json:"file_ids"`
}

// ByHand reports that the post is a living message which nothing marks as
// written by a program. The marks of webhooks, plug-ins and bots come from the
// server; a person can forge them upon their own post, but never lose them.
func (p Post) ByHand() bool { return p.Live() && p.Type == "" && !p.Props.Program() }

// Live reports that the post is neither deleted nor an old text kept for the history.
func (p Post) Live() bool { return p.DeleteAt == 0 && p.Original == "" }

// ThreadRoot is the first post of the post's thread: itself, if it opens one.
func (p Post) ThreadRoot() string {
	if p.Root != "" {
		return p.Root
	}
	return p.ID
}

// Props are the members of a post's props that matter here. A mark counts as set
// when it is there at all, whatever its value: senders differ in how they write
// true, and whoever writes "false" there has something in mind.
type Props struct {
	FromWebhook bool
	FromBot     bool
	FromPlugin  bool
	FromOAuth   bool
	Override    bool   // shown under another name or picture
	Attachments bool   // boxes beside the message, which bots and webhooks draw
	Key         string // ours, "" if there is none; anybody can write it, so check the user as well
}

// Program reports that a mark says "not written by hand".
func (p Props) Program() bool {
	return p.FromWebhook || p.FromBot || p.FromPlugin || p.FromOAuth || p.Override || p.Attachments
}

// keyProp is the member that holds Props.Key.
const keyProp = "boxmaker_key"

// UnmarshalJSONFrom reads props, or null, and keeps nothing else of them.
func (p *Props) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*p = Props{}
	if d.PeekKind() != '{' {
		return d.SkipValue() // null; nothing else is ever there
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := p.member(name.String(), d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (p *Props) member(name string, d *jsontext.Decoder) error {
	switch name {
	case "from_webhook":
		p.FromWebhook = true
	case "from_bot":
		p.FromBot = true
	case "from_plugin":
		p.FromPlugin = true
	case "from_oauth_app":
		p.FromOAuth = true
	case "override_username", "override_icon_url", "override_icon_emoji", "webhook_display_name":
		p.Override = true
	case "attachments":
		p.Attachments = true
	case keyProp:
		if d.PeekKind() == '"' {
			return json.UnmarshalDecode(d, &p.Key)
		}
	}
	return d.SkipValue()
}

// A User is an account. Names can be changed and taken over by others; ids cannot.
type User struct {
	ID       string `json:"id"`
	Name     string `json:"username"`
	Bot      bool   `json:"is_bot"`
	Roles    string `json:"roles"`
	DeleteAt int64  `json:"delete_at"` // not 0: deactivated
}

// A ChannelType says who can be in a channel.
type ChannelType string

// The types of channels. A direct channel has two members, yet every system
// admin can read it, post there and edit what stands there.
const (
	Direct  ChannelType = "D"
	Group   ChannelType = "G"
	Public  ChannelType = "O"
	Private ChannelType = "P"
)

// A Channel is a place for posts.
type Channel struct {
	ID         string      `json:"id"`
	Type       ChannelType `json:"type"`
	Name       string      `json:"name"` // of a direct channel: both user ids, sorted, with "__" between
	Team       string      `json:"team_id"`
	DeleteAt   int64       `json:"delete_at"` // not 0: archived
	LastPostAt int64       `json:"last_post_at"`
}

// A Reaction is an emoji that a user put on a post. Emoji are names as the server
// knows them: "+1" and "thumbsup" are two, and "+1_medium_skin_tone" a third.
type Reaction struct {
	User     string `json:"user_id"`
	Post     string `json:"post_id"`
	Channel  string `json:"channel_id"`
	Emoji    string `json:"emoji_name"`
	CreateAt int64  `json:"create_at"`
	DeleteAt int64  `json:"delete_at"`
}

// ServerConfig is what the server tells its clients of itself.
type ServerConfig struct {
	Version  string
	PostSize int   // most runes of a message
	FileSize int64 // most bytes of a file
}

// A Draft is a post to be made. Key goes into its props and comes back in every
// reading of it: give each an id that nobody can guess, and a post whose fate is
// unknown can be found again. Pending makes the server refuse a second copy for
// some 30 seconds, from whichever user, so that it too must be unguessable.
type Draft struct {
	Channel string
	Root    string
	Message string
	Key     string
	Pending string
	Files   []string
}

// A Batch is what happened in a channel since a time.
type Batch struct {
	Posts   []Post   // living ones, oldest first; also old ones that were edited, pinned, reacted or replied to
	Deleted []string // ids of posts that were deleted; not complete if there was very much
	Until   int64    // the latest change that it holds
	Cut     bool     // there was more than is held at once: the oldest are missing
}

// ValidID reports whether s can be an id of the server's.
func ValidID(s string) bool {
	if len(s) != 26 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func checkIDs(what string, ids ...string) error {
	for _, id := range ids {
		if !ValidID(id) {
			return fmt.Errorf("%s: %q is no id of a Mattermost server", what, id)
		}
	}
	return nil
}
