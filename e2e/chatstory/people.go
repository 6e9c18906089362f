// Package chatstory is the story of an owner who talks to the agent on a Mattermost
// server: with the real programs, on the fake server and on the real one alike.
//
// It speaks to the server over REST as people's programs do, with code of its own,
// and holds what they see against the logs. It is for tests; no program links it.
package chatstory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// A Person is an account, of a human or a bot.
type Person struct{ ID, Name, Token, URL string }

// A Post is what a person can see of a post.
type Post struct {
	ID       string         `json:"id"`
	UserID   string         `json:"user_id"`
	RootID   string         `json:"root_id"`
	CreateAt int64          `json:"create_at"`
	EditAt   int64          `json:"edit_at"`
	DeleteAt int64          `json:"delete_at"`
	Message  string         `json:"message"`
	Type     string         `json:"type"`
	Props    map[string]any `json:"props"`
	FileIDs  []string       `json:"file_ids"`
}

type obj = map[string]any

// Call sends a request below /api/v4. in is sent as JSON, out, unless nil, read.
func (p *Person) Call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, p.URL+"/api/v4"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s as %s: %d %s", method, path, p.Name, res.StatusCode, b)
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = b
		return nil
	}
	return json.Unmarshal(b, out)
}

// Post posts and gives the id.
func (p *Person) Post(channel, root, text string) (string, error) {
	var made Post
	err := p.Call("POST", "/posts", obj{"channel_id": channel, "root_id": root, "message": text}, &made)
	return made.ID, err
}

// React puts an emoji on a post.
func (p *Person) React(post, emoji string) error {
	return p.Call("POST", "/reactions", obj{"user_id": p.ID, "post_id": post, "emoji_name": emoji}, nil)
}

// Edit changes a post's text.
func (p *Person) Edit(post, text string) error {
	return p.Call("PUT", "/posts/"+post+"/patch", obj{"message": text}, nil)
}

// Delete deletes a post.
func (p *Person) Delete(post string) error { return p.Call("DELETE", "/posts/"+post, nil, nil) }

// Get gives a post as it is now.
func (p *Person) Get(post string) (Post, error) {
	var out Post
	return out, p.Call("GET", "/posts/"+post, nil, &out)
}

// File gives the content of a file.
func (p *Person) File(id string) (string, error) {
	var b []byte
	err := p.Call("GET", "/files/"+id, nil, &b)
	return string(b), err
}

// Thread gives the posts of a thread, oldest first.
func (p *Person) Thread(root string) ([]Post, error) {
	return p.list("/posts/" + root + "/thread?perPage=200&direction=down")
}

// Channel gives all posts of a channel that are not deleted, oldest first.
func (p *Person) Channel(id string) ([]Post, error) {
	var all []Post
	for page := 0; ; page++ {
		some, err := p.list(fmt.Sprintf("/channels/%s/posts?per_page=200&page=%d", id, page))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < 200 {
			return inOrder(all), nil
		}
	}
}

func (p *Person) list(path string) ([]Post, error) {
	var l struct {
		Order []string
		Posts map[string]Post
	}
	if err := p.Call("GET", path, nil, &l); err != nil {
		return nil, err
	}
	var out []Post
	for _, id := range l.Order {
		out = append(out, l.Posts[id])
	}
	return inOrder(out), nil
}

func inOrder(ps []Post) []Post {
	slices.SortStableFunc(ps, func(a, b Post) int {
		if a.CreateAt != b.CreateAt {
			return int(a.CreateAt - b.CreateAt)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return ps
}
