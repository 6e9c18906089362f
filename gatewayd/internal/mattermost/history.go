package mattermost

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// How much history is taken at once.
const (
	sinceFull = 1000 // a longer list the server does not give for a time
	pageSize  = 200  // the most that it gives of a page
	batchMost = 10000
)

// posts is a list as the server gives it: ids in order, and what they stand for,
// which may be more.
type posts struct {
	Order []string        `json:"order"`
	Posts map[string]Post `json:"posts"`
	More  bool            `json:"has_next"`
}

// list gives the posts of the order; an id without its post is an error.
func (l posts) list() ([]Post, error) {
	out := make([]Post, 0, len(l.Order))
	for _, id := range l.Order {
		p, ok := l.Posts[id]
		if !ok || p.ID != id || !ValidID(p.User) || !ValidID(p.Channel) {
			return nil, &Failed{Status: http.StatusOK, Text: "a list of posts that does not hold together"}
		}
		out = append(out, p)
	}
	return out, nil
}

func (c *Client) posts(ctx context.Context, path string) ([]Post, bool, error) {
	var l posts
	if err := c.do(ctx, request{path: path, limit: listLimit}, &l); err != nil {
		return nil, false, err
	}
	out, err := l.list()
	return out, l.More, err
}

// Since gives what was posted in a channel, changed or deleted after a time of the
// server's clock in milliseconds. Ask with an overlap, some seconds before what is
// known: of two posts the later one may be readable first.
//
// The server gives at most 1,000 posts for a time, and not surely the oldest. If it
// gives as many, they are read page by page, newest first.
func (c *Client) Since(ctx context.Context, channel string, after int64) (Batch, error) {
	if err := checkIDs("channel", channel); err != nil {
		return Batch{}, err
	}
	after = max(after, 1) // 0 means "the last 60" to the server
	all, _, err := c.posts(ctx, "/channels/"+channel+"/posts?since="+strconv.FormatInt(after, 10))
	b := Batch{Until: after}
	if err == nil && len(all) >= sinceFull || isTooBig(err) {
		all, b.Cut, err = c.pages(ctx, channel, after)
	}
	if err != nil {
		return Batch{}, err
	}
	for _, p := range slices.Backward(all) { // they come newest first
		b.Until = max(b.Until, p.UpdateAt)
		switch {
		case p.Live():
			b.Posts = append(b.Posts, p)
		case p.Original == "":
			b.Deleted = append(b.Deleted, p.ID)
		}
	}
	slices.SortStableFunc(b.Posts, func(a, b Post) int { return cmp.Compare(a.CreateAt, b.CreateAt) })
	return b, nil
}

// pages reads a channel backwards to a time. It reports whether it stopped before.
func (c *Client) pages(ctx context.Context, channel string, after int64) ([]Post, bool, error) {
	var all []Post
	seen := map[string]bool{}
	path := fmt.Sprintf("/channels/%s/posts?per_page=%d", channel, pageSize)
	for at := path; ; {
		page, _, err := c.posts(ctx, at)
		if err != nil {
			return nil, false, err
		}
		fresh := false
		for _, p := range page {
			if p.CreateAt > after && !seen[p.ID] {
				seen[p.ID], fresh = true, true
				all = append(all, p)
			}
		}
		switch {
		case !fresh || len(page) < pageSize:
			return all, false, nil
		case len(all) >= batchMost:
			return all, true, nil
		}
		at = path + "&before=" + anchor(page)
	}
}

// anchor is the post before which to go on. "Before" is by time alone, so that
// those of the page's oldest millisecond are asked for again: others may share it.
func anchor(page []Post) string {
	last := page[len(page)-1]
	for _, p := range slices.Backward(page) {
		if p.CreateAt > last.CreateAt {
			return p.ID
		}
	}
	return last.ID
}

// Thread gives the living posts of a thread, oldest first, the first post among
// them.
func (c *Client) Thread(ctx context.Context, root string) ([]Post, error) {
	if err := checkIDs("thread", root); err != nil {
		return nil, err
	}
	var all []Post
	seen := map[string]bool{}
	path := fmt.Sprintf("/posts/%s/thread?perPage=%d&direction=down", root, pageSize)
	for at := path; ; {
		page, more, err := c.posts(ctx, at)
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, p := range page {
			if !seen[p.ID] {
				seen[p.ID], fresh = true, true
				if p.Live() {
					all = append(all, p)
				}
			}
		}
		if !more || !fresh || len(all) >= batchMost {
			slices.SortStableFunc(all, func(a, b Post) int {
				if a.ID == root || b.ID == root { // a reply can be of the same millisecond
					return cmp.Compare(len(a.Root), len(b.Root))
				}
				return cmp.Compare(a.CreateAt, b.CreateAt)
			})
			return all, nil
		}
		last := page[len(page)-1]
		at = fmt.Sprintf("%s&fromPost=%s&fromCreateAt=%d", path, last.ID, last.CreateAt)
	}
}

// Find looks for a post of the user me that carries a draft's key. since is a time
// of the server's clock before which it cannot have been made.
func (c *Client) Find(ctx context.Context, me string, d Draft, since int64) (Post, bool, error) {
	if d.Key == "" {
		return Post{}, false, fmt.Errorf("a post without a key cannot be found")
	}
	var all []Post
	if d.Root != "" {
		ps, err := c.Thread(ctx, d.Root)
		if isGone(err) {
			return Post{}, false, nil
		}
		if err != nil {
			return Post{}, false, err
		}
		all = ps
	} else {
		b, err := c.Since(ctx, d.Channel, since)
		if err != nil {
			return Post{}, false, err
		}
		all = b.Posts
	}
	for _, p := range all {
		if p.User == me && p.Props.Key == d.Key {
			return p, true, nil
		}
	}
	return Post{}, false, nil
}
