package mattermost

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A frame is what the server sends over the WebSocket: an event, or the answer to
// an action of ours.
type frame struct {
	Event string         `json:"event"`
	Data  jsontext.Value `json:"data"`
	Seq   int64          `json:"seq"`

	Status string `json:"status"`
	Error  struct {
		ID   string `json:"id"`
		Code int    `json:"status_code"`
	} `json:"error"`
}

func decodeFrame(b []byte) (f frame, err error) {
	if err := json.Unmarshal(b, &f, lax()); err != nil {
		return frame{}, err
	}
	if f.Event == "" && f.Status == "" {
		return frame{}, errors.New("neither an event nor an answer")
	}
	if f.Seq < 0 {
		return frame{}, errors.New("a number below 0")
	}
	return f, nil
}

// lost reports an answer which says that the token does not count any more.
func (f frame) lost() bool { return f.Error.Code == http.StatusUnauthorized }

// hello gives the id of the connection, "" if it cannot be taken up again, and the
// version of the server.
func (f frame) hello() (id, server string, err error) {
	var d struct {
		ID      string `json:"connection_id"`
		Version string `json:"server_version"`
	}
	if err := json.Unmarshal(f.Data, &d, lax()); err != nil {
		return "", "", err
	}
	if !ValidID(d.ID) {
		d.ID = ""
	}
	// "11.1.0..<build>.false"
	server, _, _ = strings.Cut(d.Version, "..")
	if len(server) > 32 || strings.ContainsFunc(server, func(r rune) bool { return r <= ' ' || r > '~' }) {
		server = ""
	}
	return d.ID, server, nil
}

// decode gives the event, nil for one that nobody here needs.
func (f frame) decode(me string) (Event, error) {
	var d struct {
		Post        string      `json:"post"`
		Reaction    string      `json:"reaction"`
		Mentions    string      `json:"mentions"`
		ChannelType ChannelType `json:"channel_type"`
	}
	switch f.Event {
	case "posted", "post_edited", "post_deleted", "reaction_added":
	default: // typing, statuses, what a newer server invents
		return nil, nil
	}
	if err := json.Unmarshal(f.Data, &d, lax()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Event, err)
	}
	if f.Event == "reaction_added" {
		var r Reaction
		if err := json.Unmarshal([]byte(d.Reaction), &r, lax()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Event, err)
		}
		return Reacted{r}, checkIDs(f.Event, r.User, r.Post)
	}
	var p Post
	if err := json.Unmarshal([]byte(d.Post), &p, lax()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Event, err)
	}
	if err := checkIDs(f.Event, p.ID, p.User, p.Channel); err != nil {
		return nil, err
	}
	switch f.Event {
	case "post_edited":
		return Edited{p}, nil
	case "post_deleted":
		return Deleted{p}, nil
	}
	mentions, err := mentioned(d.Mentions)
	return Posted{Post: p, ChannelType: d.ChannelType, Mentioned: slices.Contains(mentions, me)}, err
}

// mentioned reads the list of ids, which is a text and often missing.
func mentioned(s string) (ids []string, err error) {
	if s == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(s), &ids, lax())
	return ids, err
}
