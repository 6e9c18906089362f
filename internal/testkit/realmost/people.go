package realmost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// User is an account with a session of its own.
type User struct {
	ID, Name, Token string
	TokenID         string // of a bot
	s               *Server
}

// Call sends a request as the user, below /api/v4, and gives status and answer.
// in is sent as JSON; out, if not nil, is read from it.
func (u *User) Call(method, path string, in, out any) (int, []byte, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, u.s.URL+path, body)
	if err != nil {
		return 0, nil, err
	}
	if u.Token != "" {
		req.Header.Set("Authorization", "Bearer "+u.Token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && out != nil && res.StatusCode < 300 {
		err = json.Unmarshal(b, out)
	}
	if t := res.Header.Get("Token"); t != "" {
		u.Token = t
	}
	return res.StatusCode, b, err
}

// do is Call that must succeed.
func (u *User) do(method, path string, in, out any) error {
	status, b, err := u.Call(method, "/api/v4"+path, in, out)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%d %s", status, b)
	}
	if err != nil {
		return fmt.Errorf("%s as %s: %w", method+" "+path, u.Name, err)
	}
	return nil
}

// Must sends a request as the user that has to succeed.
func (u *User) Must(t testing.TB, method, path string, in, out any) {
	t.Helper()
	if err := u.do(method, path, in, out); err != nil {
		t.Fatal(err)
	}
}

const password = "Boxmaker-1234"

type obj = map[string]any

// people makes the admin, who is the first user there is, and a team.
func (s *Server) people() error {
	admin, err := s.person("admin")
	if err != nil {
		return err
	}
	s.Admin = admin
	var team struct{ ID string }
	if err := admin.do("POST", "/teams", obj{"name": "boxmaker", "display_name": "Boxmaker", "type": "O"}, &team); err != nil {
		return err
	}
	s.team = team.ID
	return nil
}

func (s *Server) person(name string) (*User, error) {
	u := &User{Name: name, s: s}
	if err := u.do("POST", "/users", obj{"email": name + "@example.test", "username": name, "password": password}, u); err != nil {
		return nil, err
	}
	return u, u.do("POST", "/users/login", obj{"login_id": name, "password": password}, nil)
}

// Person makes a user in the team, under a name that nobody had.
func (s *Server) Person(t testing.TB, name string) *User {
	t.Helper()
	s.n++
	u, err := s.person(fmt.Sprintf("%s%d", name, s.n))
	if err == nil {
		err = s.Join(u)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Join puts a user, or a bot, into the team.
func (s *Server) Join(u *User) error {
	return s.Admin.do("POST", "/teams/"+s.team+"/members", obj{"team_id": s.team, "user_id": u.ID}, nil)
}

// Bot makes a bot with a token.
func (s *Server) Bot(t testing.TB, name string) *User {
	t.Helper()
	s.n++
	u := &User{Name: fmt.Sprintf("%s%d", name, s.n), s: s}
	var bot struct {
		ID string `json:"user_id"`
	}
	s.Admin.Must(t, "POST", "/bots", obj{"username": u.Name, "display_name": "Boxmaker"}, &bot)
	var token struct{ ID, Token string }
	s.Admin.Must(t, "POST", "/users/"+bot.ID+"/tokens", obj{"description": "test"}, &token)
	u.ID, u.Token, u.TokenID = bot.ID, token.Token, token.ID
	return u
}

// Direct opens the direct channel of two users.
func (s *Server) Direct(t testing.TB, a, b *User) string {
	t.Helper()
	var c struct{ ID string }
	a.Must(t, "POST", "/channels/direct", []string{a.ID, b.ID}, &c)
	return c.ID
}

// Channel makes a public channel of the team with members.
func (s *Server) Channel(t testing.TB, name string, members ...*User) string {
	t.Helper()
	s.n++
	var c struct{ ID string }
	s.Admin.Must(t, "POST", "/channels", obj{"team_id": s.team, "name": fmt.Sprintf("%s%d", name, s.n), "display_name": name, "type": "O"}, &c)
	for _, m := range members {
		s.Admin.Must(t, "POST", "/channels/"+c.ID+"/members", obj{"user_id": m.ID}, nil)
	}
	return c.ID
}

// Hook makes an incoming webhook that posts as a user, and gives its path.
func (s *Server) Hook(t testing.TB, of *User, channel string) string {
	t.Helper()
	var h struct{ ID string }
	s.Admin.Must(t, "POST", "/hooks/incoming", obj{"channel_id": channel, "user_id": of.ID, "display_name": "h"}, &h)
	return "/hooks/" + h.ID
}

// Post posts and gives the id.
func (u *User) Post(t testing.TB, channel, root, message string) string {
	t.Helper()
	var p struct{ ID string }
	u.Must(t, "POST", "/posts", obj{"channel_id": channel, "root_id": root, "message": message}, &p)
	return p.ID
}
