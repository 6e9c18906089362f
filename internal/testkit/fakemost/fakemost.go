// Package fakemost is a small Mattermost server for tests, on loopback: REST and
// WebSocket as a bot meets them, with everything kept in memory. Its answers have
// the members, order, errors and quirks of recordings of a real server 11.1
// (testdata), which a test compares. A test acts as the people around the bot by
// calling methods, and makes the server misbehave by Inject and the like.
//
// It does not check what the bot never does, and knows no passwords, teams, roles
// or search.
package fakemost

import (
	"crypto/rand"
	"encoding/base32"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running server.
type Server struct {
	URL string

	t    testing.TB
	web  *httptest.Server
	gone chan struct{} // closed at the end of the test

	mu        sync.Mutex // guards all that follows
	version   string
	newer     bool // members that no recording has
	older     bool // no connection can be taken up again
	postSize  int
	users     map[string]*User
	tokens    map[string]*User
	channels  map[string]*channel
	posts     map[string]*Post
	made      []*Post // all, ghosts as well, in the order of their making
	edits     map[string]int
	reactions map[string][]Reaction
	files     map[string]*fileInfo
	pending   map[string]pending
	conns     map[string]*conn
	live      map[*conn]bool
	faults    []*fault
	seen      []Request
	lose      int
	twice     bool
	slowPost  time.Duration
	skew      time.Duration
	last      int64
}

// User is an account.
type User struct {
	ID, Name, Token string

	bot, admin, disabled bool
	createAt             int64
}

// A channel and who is in it.
type channel struct {
	Channel
	members map[string]bool
}

// pending is a pending_post_id in use: the post is empty while it is being made.
type pending struct {
	post string
	at   time.Time
}

// Request is one that the server got.
type Request struct {
	Method, Path string // Path with its query, below /api/v4
	Token        bool   // it had a token in the Authorization header
	Body         string // at most 1,000 bytes
}

// New starts a server with an admin, until the test ends.
func New(t testing.TB) *Server {
	s := &Server{
		t: t, gone: make(chan struct{}), version: "11.1.0", postSize: 16383,
		users: map[string]*User{}, tokens: map[string]*User{}, channels: map[string]*channel{},
		posts: map[string]*Post{}, edits: map[string]int{}, reactions: map[string][]Reaction{},
		files: map[string]*fileInfo{}, pending: map[string]pending{}, conns: map[string]*conn{}, live: map[*conn]bool{},
	}
	s.web = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.web.URL
	t.Cleanup(func() {
		close(s.gone)
		s.CutAll()
		s.web.CloseClientConnections()
		s.web.Close()
	})
	return s
}

// NewID makes an id as the server does.
func NewID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return base32.NewEncoding("ybndrfg8ejkmcpqxot1uwisza345h769").WithPadding(base32.NoPadding).EncodeToString(b)[:26]
}

// now is the server's clock in milliseconds. It may give the same twice.
func (s *Server) now() int64 {
	s.last = max(s.last, time.Now().Add(s.skew).UnixMilli())
	return s.last
}

// AddUser makes a person's account.
func (s *Server) AddUser(name string) *User { return s.add(&User{Name: name}) }

// AddAdmin makes a system admin, who may do everything everywhere.
func (s *Server) AddAdmin(name string) *User { return s.add(&User{Name: name, admin: true}) }

// AddBot makes a bot's account.
func (s *Server) AddBot(name string) *User { return s.add(&User{Name: name, bot: true}) }

func (s *Server) add(u *User) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.ID, u.Token, u.createAt = NewID(), NewID(), s.now()
	s.users[u.ID], s.tokens[u.Token] = u, u
	return u
}

// Direct opens the direct channel of two users and gives its id.
func (s *Server) Direct(a, b *User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.direct(a, b).ID
}

func (s *Server) direct(a, b *User) *channel {
	name := a.ID + "__" + b.ID
	if b.ID < a.ID {
		name = b.ID + "__" + a.ID
	}
	for _, c := range s.channels {
		if c.Name == name {
			return c
		}
	}
	c := s.channel("D", name, "", a, b)
	c.TeamID, c.Shared = "", false
	return c
}

// Channel makes a channel of a type (O, P or G) with members.
func (s *Server) Channel(typ, name string, members ...*User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channel(typ, name, name, members...).ID
}

func (s *Server) channel(typ, name, display string, members ...*User) *channel {
	c := &channel{members: map[string]bool{}}
	c.ID, c.CreateAt, c.Type, c.Name, c.DisplayName = NewID(), s.now(), typ, name, display
	c.UpdateAt = c.CreateAt
	if typ == "O" || typ == "P" {
		c.TeamID = "enpyiup7cpyt9jcz56zx6eji4w"
	}
	for _, m := range members {
		c.members[m.ID] = true
	}
	if len(members) > 0 {
		c.CreatorID = members[0].ID
	}
	s.channels[c.ID] = c
	return c
}

// Archive closes a channel for new posts.
func (s *Server) Archive(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	c.DeleteAt = s.now()
	s.tell(c, "channel_deleted", map[string]any{"channel_id": id, "delete_at": c.DeleteAt}, nil)
}

// Unarchive takes that back, in the name of a user, and says so in the channel.
func (s *Server) Unarchive(u *User, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	c.DeleteAt = 0
	s.tell(c, "channel_restored", map[string]any{"channel_id": id}, nil)
	s.make(u, draft{ChannelID: id, Message: u.Name + " unarchived the channel.", Type: "system_channel_restored"})
}

// Join takes a user into a channel, and says so there.
func (s *Server) Join(id string, u *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	c.members[u.ID] = true
	s.tell(c, "user_added", map[string]any{"user_id": u.ID, "team_id": c.TeamID}, nil)
	s.make(u, draft{ChannelID: id, Message: u.Name + " joined the channel.", Type: "system_join_channel"})
}

// Leave takes a user out of a channel.
func (s *Server) Leave(id string, u *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.channels[id].members, u.ID)
}

// Rename gives an account another name; the old one is free for others.
func (s *Server) Rename(u *User, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.Name = name
}

// Revoke takes a token back. Open connections stay open and fall silent.
func (s *Server) Revoke(u *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, u.Token)
}

// Restore makes a token good again that was taken back.
func (s *Server) Restore(u *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[u.Token] = u
}

// NewToken takes a user's token back and gives a new one.
func (s *Server) NewToken(u *User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, u.Token)
	u.Token = NewID()
	s.tokens[u.Token] = u
	return u.Token
}

// Disable switches an account off and ends its connections.
func (s *Server) Disable(u *User) {
	s.mu.Lock()
	u.disabled = true
	s.mu.Unlock()
	s.cut(func(c *conn) bool { return c.user == u })
}

// Enable switches it on again.
func (s *Server) Enable(u *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.disabled = false
}

// Requests gives those whose method and path begin so.
func (s *Server) Requests(method, path string) (out []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if strings.HasPrefix(r.Method, method) && strings.HasPrefix(r.Path, path) {
			out = append(out, r)
		}
	}
	return out
}

// Posts gives the living posts of a channel, oldest first.
func (s *Server) Posts(channel string) (out []Post) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.made {
		if p.ChannelID == channel && p.DeleteAt == 0 {
			out = append(out, *p)
		}
	}
	return out
}

// Get gives a post as it is now, and how often its text was changed.
func (s *Server) Get(id string) (p Post, edits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.posts[id]; p != nil {
		return *p, s.edits[id]
	}
	return Post{}, 0
}

// Reactions gives the emoji on a post.
func (s *Server) Reactions(id string) []Reaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Reaction(nil), s.reactions[id]...)
}

// File gives a file that was uploaded.
func (s *Server) File(id string) (name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[id]; f != nil {
		return f.Name, f.content
	}
	return "", nil
}
