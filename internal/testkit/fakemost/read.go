package fakemost

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
)

// text is JSON as the server writes it.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of a type of this package
	}
	return string(b)
}

// listOf makes a list of posts in their order.
func listOf(ps []*Post) postList {
	l := postList{Order: []string{}, Posts: map[string]Post{}}
	for _, p := range ps {
		l.Order = append(l.Order, p.ID)
		l.Posts[p.ID] = *p
	}
	return l
}

func (s *Server) channelPosts(u *User, id string, q url.Values) (postList, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	if c == nil || !c.members[u.ID] && !u.admin {
		return postList{}, errRight()
	}
	var since int64
	if q.Has("since") {
		var err error
		if since, err = strconv.ParseInt(q.Get("since"), 10, 64); err != nil {
			return postList{}, errBody("since")
		}
	}
	if since > 0 {
		return s.since(id, since, q.Get("collapsedThreads") == "true"), nil
	}
	return s.page(id, q), nil
}

// since gives the first 1,000 posts that the database finds, ghosts and deleted
// ones among them, newest first, and the roots of their threads beside them.
func (s *Server) since(channel string, since int64, collapsed bool) postList {
	var ps, roots []*Post
	for _, p := range s.made {
		if p.ChannelID == channel && p.UpdateAt > since && len(ps) < 1000 && (!collapsed || p.RootID == "") {
			ps = append(ps, p)
			if root := s.posts[p.RootID]; root != nil {
				roots = append(roots, root)
			}
		}
	}
	for _, r := range roots {
		if r.UpdateAt > since && !slices.Contains(ps, r) {
			ps = append(ps, r)
		}
	}
	newestFirst(ps)
	l := listOf(ps)
	for _, r := range roots {
		l.Posts[r.ID] = *r
	}
	return l
}

func newestFirst(ps []*Post) {
	slices.Reverse(ps)
	slices.SortStableFunc(ps, func(a, b *Post) int { return cmp.Compare(b.CreateAt, a.CreateAt) })
}

// page gives living posts by page, or beside a post, which is a matter of
// milliseconds and strict.
func (s *Server) page(channel string, q url.Values) postList {
	per := number(q, "per_page", 60)
	per = min(per, 200)
	before, after := s.posts[q.Get("before")], s.posts[q.Get("after")]
	var ps []*Post
	for _, p := range s.made {
		if p.ChannelID != channel || p.DeleteAt != 0 || p.OriginalID != "" ||
			before != nil && p.CreateAt >= before.CreateAt || after != nil && p.CreateAt <= after.CreateAt {
			continue
		}
		ps = append(ps, p)
	}
	newestFirst(ps)
	var l postList
	if after != nil {
		l = listOf(ps[max(0, len(ps)-per):])
		l.Prev = after.ID
		return l
	}
	from := min(per*number(q, "page", 0), len(ps))
	return listOf(ps[from:min(from+per, len(ps))])
}

func number(q url.Values, name string, otherwise int) int {
	if n, err := strconv.Atoi(q.Get(name)); err == nil && n >= 0 {
		return n
	}
	return otherwise
}

// thread gives a thread, oldest first.
func (s *Server) thread(u *User, id string, q url.Values) (postList, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.readable(u, id)
	if err != nil {
		return postList{}, err
	}
	root := cmp.Or(p.RootID, p.ID)
	from, _ := strconv.ParseInt(q.Get("fromCreateAt"), 10, 64)
	var ps []*Post
	for _, o := range s.made {
		if o.DeleteAt == 0 && (o.ID == root || o.RootID == root) {
			ps = append(ps, o)
		}
	}
	slices.SortStableFunc(ps, func(a, b *Post) int {
		return cmp.Or(cmp.Compare(a.CreateAt, b.CreateAt), cmp.Compare(a.ID, b.ID))
	})
	if after := q.Get("fromPost"); after != "" {
		ps = slices.DeleteFunc(ps, func(o *Post) bool {
			return o.ID != root && (o.CreateAt < from || o.CreateAt == from && o.ID <= after)
		})
	}
	more := false
	if per := number(q, "perPage", 0); per > 0 && len(ps) > per {
		ps, more = ps[:per], true
	}
	l := listOf(ps)
	l.More = &more
	return l, nil
}

// readable finds a living post for a user.
func (s *Server) readable(u *User, id string) (*Post, *apiError) {
	p := s.posts[id]
	switch {
	case len(id) != 26:
		return nil, errParam("post_id")
	case p == nil || p.DeleteAt != 0:
		return nil, errNoPost()
	case !s.channels[p.ChannelID].members[u.ID] && !u.admin:
		return nil, errRight()
	}
	return p, nil
}

// mine gives the channels of a user, without the archived ones.
func (s *Server) mine(u *User) []Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Channel{}
	for _, c := range s.channels {
		if c.members[u.ID] && c.DeleteAt == 0 {
			out = append(out, c.Channel)
		}
	}
	slices.SortFunc(out, func(a, b Channel) int { return cmp.Compare(a.CreateAt, b.CreateAt) })
	return out
}

// view is a user as others see it, or as it sees itself.
func (u *User) view(self bool) userView {
	v := userView{
		ID: u.ID, CreateAt: u.createAt, UpdateAt: u.createAt, Name: u.Name, Email: u.Name + "@example.test", Roles: "system_user", Locale: "en",
		Timezone: map[string]string{"automaticTimezone": "", "manualTimezone": "", "useAutomaticTimezone": "true"}, Bot: u.bot,
	}
	none := ""
	if self {
		v.NotifyProps = map[string]string{"channel": "true", "comments": "never", "desktop": "mention", "mention_keys": ""}
		v.PasswordAt = u.createAt
	} else {
		v.AuthData = &none
	}
	if u.bot {
		v.Email, v.BotDescription = u.Name+"@localhost", "personal agent"
	} else {
		v.RemoteID = &none
	}
	if u.admin {
		v.Roles = "system_admin system_user"
	}
	if u.disabled {
		v.DeleteAt = u.createAt + 1
	}
	return v
}
