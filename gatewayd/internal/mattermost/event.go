package mattermost

import "time"

// An Event is something that Run tells. The set is closed.
type Event interface{ event() }

// Posted is a new post: anybody's, also our own, also a system message.
type Posted struct {
	Post        Post
	ChannelType ChannelType
	Mentioned   bool // the server counts us among those mentioned; in a direct channel always
}

// Edited is a post as it is now, after a change that may be of the text, a pin, or
// none. It names the author of the post, not who edited it: it never proves a will.
type Edited struct{ Post Post }

// Deleted is a post that is gone, and with a first post silently its whole thread.
type Deleted struct{ Post Post }

// Reacted is a reaction that was put on a post. It may come twice.
type Reacted struct{ Reaction Reaction }

// Up says that events arrive from here on. After a Fresh one some may have been
// lost before: catch up over REST. It also comes, Fresh, when events were skipped
// while the connection stood.
type Up struct {
	Fresh  bool
	Server string // the server's version, if it said so
}

// Down says that no events arrive, why, and when the next attempt is.
type Down struct {
	Err   error
	Retry time.Duration
}

func (Posted) event()  {}
func (Edited) event()  {}
func (Deleted) event() {}
func (Reacted) event() {}
func (Up) event()      {}
func (Down) event()    {}
