package fakemost

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// draft is a post as a client sends it; what else it claims is ignored.
type draft struct {
	ChannelID string         `json:"channel_id"`
	RootID    string         `json:"root_id"`
	Message   string         `json:"message"`
	Type      string         `json:"type"`
	Props     map[string]any `json:"props"`
	FileIDs   []string       `json:"file_ids"`
	PendingID string         `json:"pending_post_id"`
}

// Post posts as a user, who must be in the channel or an admin. It fails the test
// if the server refuses.
func (s *Server) Post(u *User, channel, root, message string) Post {
	s.t.Helper()
	return s.PostProps(u, channel, root, message, nil)
}

// PostProps posts with props, true ones or forged.
func (s *Server) PostProps(u *User, channel, root, message string, props map[string]any) Post {
	s.t.Helper()
	p, err := s.post(u, draft{ChannelID: channel, RootID: root, Message: message, Props: props})
	if err != nil {
		s.t.Fatalf("%s cannot post: %v", u.Name, err)
	}
	return p
}

// System posts what the server itself says in a user's name.
func (s *Server) System(u *User, channel, typ, message string) Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.make(u, draft{ChannelID: channel, Message: message, Type: typ})
}

// Webhook posts as an incoming webhook of a user does: with the user's own id.
func (s *Server) Webhook(of *User, channel, message string) Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.make(of, draft{ChannelID: channel, Message: message, Props: map[string]any{
		"from_webhook": "true", "override_username": of.Name, "webhook_display_name": "h",
	}})
}

// post is what POST /posts does.
func (s *Server) post(u *User, d draft) (Post, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.PendingID != "" {
		if old, ok := s.pending[d.PendingID]; ok && time.Since(old.at) < 30*time.Second {
			if old.post == "" {
				return Post{}, refuse(500, "api.post.deduplicate_create_post.pending", "Rejected post since another client is making the same request.")
			}
			return *s.posts[old.post], nil // whoever made it
		}
		s.pending[d.PendingID] = pending{at: time.Now()}
	}
	if wait := s.slowPost; wait > 0 {
		s.mu.Unlock()
		time.Sleep(wait)
		s.mu.Lock()
	}
	p, err := s.checked(u, d)
	if d.PendingID != "" {
		if err != nil {
			delete(s.pending, d.PendingID)
		} else {
			s.pending[d.PendingID] = pending{post: p.ID, at: time.Now()}
		}
	}
	p.PendingID = d.PendingID // in the answer only
	return p, err
}

func (s *Server) checked(u *User, d draft) (Post, *apiError) {
	c := s.channels[d.ChannelID]
	switch {
	case c == nil || !c.members[u.ID] && !u.admin:
		return Post{}, errRight()
	case c.DeleteAt != 0:
		return Post{}, refuse(400, "api.post.create_post.can_not_post_to_deleted.error", "Can not post to deleted channel.")
	case utf8.RuneCountInString(d.Message) > s.postSize:
		return Post{}, errLength()
	case strings.HasPrefix(d.Type, "system_"):
		return Post{}, refuse(400, "api.context.invalid_body_param.app_error", "Invalid or missing post.type in request body.")
	}
	if d.RootID != "" {
		root := s.posts[d.RootID]
		if root == nil || root.DeleteAt != 0 || root.RootID != "" || root.ChannelID != d.ChannelID {
			return Post{}, errRoot()
		}
	}
	return s.make(u, d), nil
}

// make makes a post without asking.
func (s *Server) make(u *User, d draft) Post {
	c, now := s.channels[d.ChannelID], s.now()
	p := &Post{
		ID: NewID(), CreateAt: now, UpdateAt: now, UserID: u.ID, ChannelID: c.ID, RootID: d.RootID, Message: d.Message,
		Type: d.Type, Props: maps.Clone(d.Props), FileIDs: append([]string{}, d.FileIDs...), Metadata: map[string]any{},
	}
	if p.Props == nil {
		p.Props = map[string]any{}
	}
	if u.bot {
		p.Props["from_bot"] = "true"
	}
	s.posts[p.ID] = p
	s.made = append(s.made, p)
	c.LastPostAt, c.Total = now, c.Total+1
	if p.RootID == "" {
		c.TotalRoot, c.LastRootAt = c.TotalRoot+1, now
	} else {
		root := s.posts[p.RootID]
		root.UpdateAt, root.ReplyCount = now, root.ReplyCount+1
		p.ReplyCount = root.ReplyCount
	}
	var files []*fileInfo
	for _, id := range d.FileIDs {
		if f := s.files[id]; f != nil {
			f.PostID = p.ID
			files = append(files, f)
		}
	}
	if files != nil {
		p.Metadata["files"] = files
	}
	display := c.DisplayName
	if c.Type == "D" {
		display = "@" + u.Name
	}
	data := map[string]any{
		"channel_display_name": display, "channel_name": c.Name, "channel_type": c.Type, "post": text(p),
		"sender_name": "@" + u.Name, "set_online": true, "team_id": c.TeamID,
	}
	if files != nil {
		data["otherFile"] = "true"
	}
	s.tell(c, "posted", data, s.mentions(c, u, d.Message))
	return *p
}

// mentions gives those whom a post mentions: in a direct channel the other one.
func (s *Server) mentions(c *channel, by *User, message string) (ids []string) {
	for id := range c.members {
		u := s.users[id]
		if u == by {
			continue
		}
		named, _ := regexp.MatchString(`(^|[^\w@])@`+regexp.QuoteMeta(u.Name)+`\b`, message)
		if c.Type == "D" || named {
			ids = append(ids, id)
		}
	}
	return ids
}

// Edit changes a post's text as its author or an admin; the same text again is an
// edit, too, to look at.
func (s *Server) Edit(u *User, id, message string) Post {
	s.t.Helper()
	p, err := s.edit(u, id, patch{Message: &message})
	if err != nil {
		s.t.Fatalf("%s cannot edit: %v", u.Name, err)
	}
	return p
}

// patch is what PUT /posts/{id}/patch takes.
type patch struct {
	Message *string         `json:"message"`
	Props   *map[string]any `json:"props"`
	Pinned  *bool           `json:"is_pinned"`
}

func (s *Server) edit(u *User, id string, in patch) (Post, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.posts[id]
	if p == nil || p.DeleteAt != 0 || p.UserID != u.ID && !u.admin && in.Pinned == nil {
		return Post{}, errRight()
	}
	switch c := s.channels[p.ChannelID]; {
	case !c.members[u.ID] && !u.admin:
		return Post{}, errRight()
	case c.DeleteAt != 0:
		return Post{}, refuse(400, "api.post.patch_post.can_not_update_post_in_deleted.error", "Can not update a post in a deleted channel.")
	case in.Message != nil && utf8.RuneCountInString(*in.Message) > s.postSize:
		return Post{}, errLength()
	}
	now := s.now()
	if in.Message != nil && *in.Message != p.Message {
		ghost := *p
		ghost.ID, ghost.OriginalID, ghost.DeleteAt, ghost.UpdateAt, ghost.EditAt = NewID(), p.ID, now, now, 0
		s.made = append(s.made, &ghost)
		p.Message, p.EditAt = *in.Message, now
		s.edits[id]++
	}
	if in.Props != nil {
		p.Props = *in.Props
	}
	if in.Pinned != nil {
		p.Pinned = *in.Pinned
	}
	p.UpdateAt = now
	s.tell(s.channels[p.ChannelID], "post_edited", map[string]any{"post": text(p)}, nil)
	return *p, nil
}

// Pin pins a post, which looks like an edit.
func (s *Server) Pin(u *User, id string) {
	pin := true
	_, _ = s.edit(u, id, patch{Pinned: &pin})
}

// Delete deletes a post; of a thread's first post, silently the thread.
func (s *Server) Delete(u *User, id string) {
	s.t.Helper()
	if err := s.remove(u, id); err != nil {
		s.t.Fatalf("%s cannot delete: %v", u.Name, err)
	}
}

func (s *Server) remove(u *User, id string) *apiError {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.posts[id]
	if p == nil || p.DeleteAt != 0 {
		return errNoPost()
	}
	if p.UserID != u.ID && !u.admin {
		return errRight()
	}
	shown := *p
	shown.Metadata = nil
	now := s.now()
	for _, other := range s.made {
		if (other.ID == id || other.RootID == id) && other.DeleteAt == 0 {
			other.DeleteAt, other.UpdateAt, other.Message = now, now, ""
			other.Props = map[string]any{"deleteBy": u.ID}
		}
	}
	s.tell(s.channels[p.ChannelID], "post_deleted", map[string]any{"post": text(shown)}, nil)
	return nil
}

// emoji that the server knows, of those that matter here.
var emoji = regexp.MustCompile(`^(([+-]1|thumbsup|thumbsdown)(_(light|medium_light|medium|medium_dark|dark)_skin_tone)?|white_check_mark|heavy_check_mark|ballot_box_with_check|x|no_entry|no_entry_sign|ok|eyes|hourglass|hourglass_flowing_sand|stop_sign|octagonal_sign|warning|question|lock|unlock)$`)

// React puts an emoji on a post as a user.
func (s *Server) React(u *User, post, name string) {
	s.t.Helper()
	if _, err := s.react(u, post, name); err != nil {
		s.t.Fatalf("%s cannot react: %v", u.Name, err)
	}
}

func (s *Server) react(u *User, id, name string) (Reaction, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.posts[id]
	switch {
	case p == nil || p.DeleteAt != 0:
		return Reaction{}, errNoPost()
	case !s.channels[p.ChannelID].members[u.ID] && !u.admin:
		return Reaction{}, errRight()
	case !emoji.MatchString(name):
		return Reaction{}, refuse(404, "app.emoji.get_by_name.no_result", "We couldn’t find the emoji.")
	}
	now := s.now()
	r := Reaction{UserID: u.ID, PostID: id, Emoji: name, CreateAt: now, UpdateAt: now, ChannelID: p.ChannelID}
	if !slices.ContainsFunc(s.reactions[id], func(o Reaction) bool { return o.UserID == u.ID && o.Emoji == name }) {
		s.reactions[id] = append(s.reactions[id], r)
	}
	s.reacted(p)
	s.tell(s.channels[p.ChannelID], "reaction_added", map[string]any{"reaction": text(r)}, nil)
	return r, nil
}

// reacted moves the post's update time, as a change of its text would.
func (s *Server) reacted(p *Post) {
	p.UpdateAt = s.now()
	p.HasReactions = len(s.reactions[p.ID]) > 0
	p.Metadata = maps.Clone(p.Metadata)
	delete(p.Metadata, "reactions")
	if p.HasReactions {
		p.Metadata["reactions"] = slices.Clone(s.reactions[p.ID])
	}
}

// Unreact takes an emoji off.
func (s *Server) Unreact(u *User, id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.posts[id]
	for i, r := range s.reactions[id] {
		if r.UserID == u.ID && r.Emoji == name {
			s.reactions[id] = slices.Delete(slices.Clone(s.reactions[id]), i, i+1)
			s.reacted(p)
			s.tell(s.channels[p.ChannelID], "reaction_removed", map[string]any{"reaction": text(r)}, nil)
			return
		}
	}
}
