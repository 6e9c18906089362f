package mattermost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Me asks who we are. It is the cheapest way to learn whether the token counts.
func (c *Client) Me(ctx context.Context) (User, error) { return c.user(ctx, "/users/me") }

// User reads an account.
func (c *Client) User(ctx context.Context, id string) (User, error) {
	if err := checkIDs("user", id); err != nil {
		return User{}, err
	}
	return c.user(ctx, "/users/"+id)
}

// UserByName finds the account that has a name now.
func (c *Client) UserByName(ctx context.Context, name string) (User, error) {
	name = strings.ToLower(strings.TrimPrefix(name, "@"))
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) || strings.Trim(name, ".") == "" {
		return User{}, fmt.Errorf("%q is no user name: those have letters, digits, dots, dashes and underscores", name)
	}
	return c.user(ctx, "/users/username/"+name)
}

func (c *Client) user(ctx context.Context, path string) (u User, err error) {
	err = c.do(ctx, request{path: path}, &u)
	return u, errors.Join(err, want(err, u.ID))
}

// want checks that an answer without an error holds what it must.
func want(err error, ids ...string) error {
	if err != nil {
		return nil
	}
	for _, id := range ids {
		if !ValidID(id) {
			return &Failed{Status: http.StatusOK, Text: "an answer without an id: is this a Mattermost server?"}
		}
	}
	return nil
}

// Config reads the server's version and limits.
func (c *Client) Config(ctx context.Context) (ServerConfig, error) {
	var raw struct{ Version, MaxPostSize, MaxFileSize string }
	if err := c.do(ctx, request{path: "/config/client?format=old"}, &raw); err != nil {
		return ServerConfig{}, err
	}
	out := ServerConfig{Version: c.words(raw.Version), PostSize: DefaultPostSize}
	if n, err := strconv.Atoi(raw.MaxPostSize); err == nil && n > 0 {
		out.PostSize = n
	}
	if n, err := strconv.ParseInt(raw.MaxFileSize, 10, 64); err == nil && n > 0 {
		out.FileSize = n
	}
	return out, nil
}

// Direct opens the direct channel of two users, or finds it.
func (c *Client) Direct(ctx context.Context, a, b string) (ch Channel, err error) {
	if err := checkIDs("direct channel", a, b); err != nil {
		return Channel{}, err
	}
	err = c.do(ctx, request{method: http.MethodPost, path: "/channels/direct", in: []string{a, b}, safe: true}, &ch)
	return ch, errors.Join(err, want(err, ch.ID))
}

// Channel reads a channel.
func (c *Client) Channel(ctx context.Context, id string) (ch Channel, err error) {
	if err := checkIDs("channel", id); err != nil {
		return Channel{}, err
	}
	err = c.do(ctx, request{path: "/channels/" + id}, &ch)
	return ch, errors.Join(err, want(err, ch.ID))
}

// Channels lists the channels that we are in, of all teams.
func (c *Client) Channels(ctx context.Context) (chs []Channel, err error) {
	err = c.do(ctx, request{path: "/users/me/channels", limit: 16 * answerLimit}, &chs)
	return chs, err
}

// Create makes a post. After an *Unsure look for it with Find before trying again;
// after any other error it is not there.
func (c *Client) Create(ctx context.Context, d Draft) (p Post, err error) {
	if err := checkIDs("channel of a post", d.Channel); err != nil {
		return Post{}, err
	}
	if d.Root != "" {
		if err := checkIDs("root of a post", d.Root); err != nil {
			return Post{}, err
		}
	}
	type out struct {
		Channel string            `json:"channel_id"`
		Root    string            `json:"root_id,omitzero"`
		Message string            `json:"message"`
		Pending string            `json:"pending_post_id,omitzero"`
		Files   []string          `json:"file_ids,omitempty"`
		Props   map[string]string `json:"props,omitempty"`
	}
	in := out{Channel: d.Channel, Root: d.Root, Message: d.Message, Pending: d.Pending, Files: d.Files}
	if d.Key != "" {
		in.Props = map[string]string{keyProp: d.Key}
	}
	err = c.do(ctx, request{method: http.MethodPost, path: "/posts", in: in}, &p)
	return p, errors.Join(err, unsure(want(err, p.ID)))
}

func unsure(err error) error {
	if err == nil {
		return nil
	}
	return &Unsure{Err: err}
}

// Patch changes the text of a post of ours, and nothing else: props stay. Doing it
// twice is doing it once.
func (c *Client) Patch(ctx context.Context, id, message string) (p Post, err error) {
	if err := checkIDs("post", id); err != nil {
		return Post{}, err
	}
	in := struct {
		Message string `json:"message"`
	}{message}
	err = c.do(ctx, request{method: http.MethodPut, path: "/posts/" + id + "/patch", in: in}, &p)
	return p, errors.Join(err, unsure(want(err, p.ID)))
}

// Delete takes a post of ours back.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := checkIDs("post", id); err != nil {
		return err
	}
	return c.do(ctx, request{method: http.MethodDelete, path: "/posts/" + id}, nil)
}

// Get reads a post.
func (c *Client) Get(ctx context.Context, id string) (p Post, err error) {
	if err := checkIDs("post", id); err != nil {
		return Post{}, err
	}
	err = c.do(ctx, request{path: "/posts/" + id}, &p)
	return p, errors.Join(err, want(err, p.ID, p.User, p.Channel))
}

// React puts an emoji on a post, as the user me, who must be ourselves. Doing it
// twice leaves one.
func (c *Client) React(ctx context.Context, me, post, emoji string) error {
	if err := checkIDs("reaction", me, post); err != nil {
		return err
	}
	in := struct {
		User  string `json:"user_id"`
		Post  string `json:"post_id"`
		Emoji string `json:"emoji_name"`
	}{me, post, emoji}
	return c.do(ctx, request{method: http.MethodPost, path: "/reactions", in: in}, nil)
}

// Unreact takes our emoji off a post.
func (c *Client) Unreact(ctx context.Context, me, post, emoji string) error {
	if err := checkIDs("reaction", me, post); err != nil {
		return err
	}
	return c.do(ctx, request{method: http.MethodDelete, path: "/users/" + me + "/posts/" + post + "/reactions/" + url.PathEscape(emoji)}, nil)
}

// Reactions lists the emoji on a post.
func (c *Client) Reactions(ctx context.Context, post string) (rs []Reaction, err error) {
	if err := checkIDs("post", post); err != nil {
		return nil, err
	}
	err = c.do(ctx, request{path: "/posts/" + post + "/reactions"}, &rs)
	return rs, err
}

// Typing shows that we are writing, for some seconds, in a thread or, with an
// empty root, in the channel.
func (c *Client) Typing(ctx context.Context, channel, root string) error {
	if err := checkIDs("typing", channel); err != nil {
		return err
	}
	in := struct {
		Channel string `json:"channel_id"`
		Root    string `json:"parent_id"`
	}{channel, root}
	return c.do(ctx, request{method: http.MethodPost, path: "/users/me/typing", in: in, safe: true}, nil)
}

// Upload brings a file to a channel, for a post to be made there, and gives its
// id. A file that no post names is seen by nobody, so that an upload of unknown
// fate can be made again.
func (c *Client) Upload(ctx context.Context, channel, name string, content io.Reader) (string, error) {
	if err := checkIDs("channel of a file", channel); err != nil {
		return "", err
	}
	pr, pw := io.Pipe()
	form := multipart.NewWriter(pw)
	written := make(chan struct{})
	go func() {
		defer close(written)
		err := form.WriteField("channel_id", channel)
		if err == nil {
			var part io.Writer
			if part, err = form.CreateFormFile("files", name); err == nil {
				_, err = io.Copy(part, content)
			}
		}
		pw.CloseWithError(errors.Join(err, form.Close()))
	}()
	var out struct {
		Files []struct {
			ID string `json:"id"`
		} `json:"file_infos"`
	}
	err := c.do(ctx, request{
		method: http.MethodPost, path: "/files", raw: pr, mime: form.FormDataContentType(), time: c.cfg.Upload, safe: true,
	}, &out)
	pr.CloseWithError(io.ErrClosedPipe)
	<-written
	switch {
	case err != nil:
		return "", err
	case len(out.Files) != 1:
		return "", &Failed{Status: http.StatusOK, Text: "an upload that gave no file"}
	}
	return out.Files[0].ID, want(nil, out.Files[0].ID)
}
