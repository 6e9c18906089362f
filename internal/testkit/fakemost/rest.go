package fakemost

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// serve is every request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	at := strings.TrimPrefix(r.URL.RequestURI(), "/api/v4")
	tok, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	var body []byte
	if r.Body != nil && !strings.HasPrefix(at, "/files") {
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 300_200)) // props of 300,000 bytes pass, 301,000 do not
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			s.fail(w, refuse(413, "api.context.request_body_too_large.app_error", "Unable to process request. Request body too large."))
			return
		}
		body = b
	}
	s.mu.Lock()
	s.seen = append(s.seen, Request{Method: r.Method, Path: at, Token: bearer, Body: string(body[:min(len(body), 1000)])})
	user := s.tokens[tok]
	if user != nil && user.disabled {
		user = nil
	}
	f := s.matching(r.Method, at)
	s.mu.Unlock()
	next := func(w http.ResponseWriter) { s.route(w, r, user, strings.TrimPrefix(r.URL.Path, "/api/v4"), body) }
	if f != nil {
		s.misbehave(w, r, f, next)
		return
	}
	next(w)
}

// route is a request that nothing disturbs.
func (s *Server) route(w http.ResponseWriter, r *http.Request, u *User, at string, body []byte) {
	if at == "/websocket" {
		s.websocket(w, r, u) // whoever it is
		return
	}
	if at == "/system/ping" {
		s.answer(w, 200, map[string]string{"ActiveSearchBackend": "database", "AndroidLatestVersion": "", "AndroidMinVersion": "", "IosLatestVersion": "", "IosMinVersion": "", "status": "OK"})
		return
	}
	if u == nil {
		s.fail(w, errSession())
		return
	}
	if id, is := strings.CutPrefix(at, "/files/"); is && r.Method == http.MethodGet {
		if _, content := s.File(id); content != nil {
			_, _ = w.Write(content)
			return
		}
	}
	status, out, err := s.call(r, u, strings.Split(strings.Trim(at, "/"), "/"), body)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.answer(w, status, out)
}

var ok = map[string]string{"status": "OK"}

// call carries out a request below /api/v4.
func (s *Server) call(r *http.Request, u *User, p []string, body []byte) (int, any, *apiError) {
	q := r.URL.Query()
	switch what := r.Method + " " + p[0]; {
	case what == "GET users" || what == "POST users":
		return s.callUsers(u, p, body)
	case what == "GET config":
		return 200, s.config(), nil
	case what == "POST channels" && len(p) == 2 && p[1] == "direct":
		return s.callDirect(u, body)
	case what == "GET channels" && len(p) == 2:
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.channels[p[1]]; c != nil && (c.members[u.ID] || u.admin) {
			return 200, c.Channel, nil
		}
		return 0, nil, errRight()
	case what == "GET channels" && len(p) == 3 && p[2] == "posts":
		out, err := s.channelPosts(u, p[1], q)
		return 200, out, err
	case strings.HasSuffix(what, " posts"):
		return s.callPosts(r, u, p, body)
	case what == "POST reactions":
		return s.callReact(u, body)
	case what == "DELETE users" && len(p) == 6 && p[4] == "reactions":
		s.Unreact(u, p[3], p[5])
		return 200, ok, nil
	case what == "POST files":
		return s.callUpload(r, u)
	}
	return 0, nil, refuse(404, "api.context.404.app_error", "Sorry, we could not find the page.")
}

func (s *Server) callUsers(u *User, p []string, body []byte) (int, any, *apiError) {
	if len(p) == 3 && p[1] == "me" {
		switch p[2] {
		case "channels":
			return 200, s.mine(u), nil
		case "typing":
			return 200, ok, s.typing(u, body)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(p) == 2 && (p[1] == "me" || p[1] == u.ID):
		return 200, u.view(true), nil
	case len(p) == 2 && s.users[p[1]] != nil:
		return 200, s.users[p[1]].view(false), nil
	case len(p) == 3 && p[1] == "username":
		for _, o := range s.users {
			if o.Name == p[2] {
				return 200, o.view(o == u), nil
			}
		}
	}
	return 0, nil, refuse(404, "app.user.missing_account.const", "Unable to find the user.")
}

func (s *Server) callDirect(u *User, body []byte) (int, any, *apiError) {
	var ids []string
	if json.Unmarshal(body, &ids) != nil || len(ids) != 2 {
		return 0, nil, errBody("user_ids")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.users[ids[0]], s.users[ids[1]]
	if a == nil || b == nil {
		return 0, nil, errBody("user_id")
	}
	if a != u && b != u && !u.admin {
		return 0, nil, errRight()
	}
	return 201, s.direct(a, b).Channel, nil
}

func (s *Server) callPosts(r *http.Request, u *User, p []string, body []byte) (int, any, *apiError) {
	switch what := r.Method; {
	case what == "POST" && len(p) == 1:
		var d draft
		if json.Unmarshal(body, &d) != nil || d.ChannelID == "" {
			return 0, nil, errBody("post")
		}
		out, err := s.post(u, d)
		return 201, out, err
	case what == "PUT" && len(p) == 3 && p[2] == "patch":
		var in patch
		if json.Unmarshal(body, &in) != nil {
			return 0, nil, errBody("post")
		}
		out, err := s.edit(u, p[1], in)
		return 200, out, err
	case what == "DELETE" && len(p) == 2:
		return 200, ok, s.remove(u, p[1])
	case what == "GET" && len(p) == 3 && p[2] == "thread":
		out, err := s.thread(u, p[1], r.URL.Query())
		return 200, out, err
	case what == "GET" && (len(p) == 2 || p[2] == "reactions"):
		s.mu.Lock()
		defer s.mu.Unlock()
		post, err := s.readable(u, p[1])
		if err != nil {
			return 0, nil, err
		}
		if len(p) == 2 {
			return 200, *post, nil
		}
		if len(s.reactions[p[1]]) == 0 {
			return 200, nil, nil // null
		}
		return 200, append([]Reaction(nil), s.reactions[p[1]]...), nil
	}
	return 0, nil, refuse(404, "api.context.404.app_error", "Sorry, we could not find the page.")
}

func (s *Server) callReact(u *User, body []byte) (int, any, *apiError) {
	var in struct {
		User  string `json:"user_id"`
		Post  string `json:"post_id"`
		Emoji string `json:"emoji_name"`
	}
	if json.Unmarshal(body, &in) != nil {
		return 0, nil, errBody("reaction")
	}
	if in.User != u.ID {
		return 0, nil, errRight()
	}
	out, err := s.react(u, in.Post, in.Emoji)
	return 200, out, err
}

func (s *Server) callUpload(r *http.Request, u *User) (int, any, *apiError) {
	if err := r.ParseMultipartForm(8 << 20); err != nil {
		return 0, nil, errBody("files")
	}
	channel := r.FormValue("channel_id")
	if c := s.channels[channel]; c == nil || !c.members[u.ID] {
		return 0, nil, errRight()
	}
	out := struct {
		Files []*fileInfo `json:"file_infos"`
		IDs   []string    `json:"client_ids"`
	}{IDs: []string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range r.MultipartForm.File["files"] {
		f, err := h.Open()
		if err != nil {
			return 0, nil, errBody("files")
		}
		b, err := io.ReadAll(f)
		if err != nil {
			return 0, nil, errBody("files")
		}
		now := s.now()
		info := &fileInfo{
			ID: NewID(), UserID: u.ID, ChannelID: channel, CreateAt: now, UpdateAt: now, Name: h.Filename,
			Extension: strings.TrimPrefix(path.Ext(h.Filename), "."), Size: len(b), Mime: "text/plain; charset=utf-8", content: b,
		}
		s.files[info.ID] = info
		out.Files = append(out.Files, info)
	}
	return 201, out, nil
}

func (s *Server) typing(u *User, body []byte) *apiError {
	var in struct {
		Channel string `json:"channel_id"`
		Root    string `json:"parent_id"`
	}
	if json.Unmarshal(body, &in) != nil {
		return errBody("typing")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[in.Channel]
	if c == nil || !c.members[u.ID] {
		return errRight()
	}
	for id := range c.members {
		if id != u.ID {
			s.tellUser(id, "typing", map[string]any{"parent_id": in.Root, "user_id": u.ID}, in.Channel)
		}
	}
	return nil
}

// config is what the server tells its clients, a small part of it.
func (s *Server) config() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{
		"Version": s.version, "MaxPostSize": itoa(s.postSize), "MaxFileSize": "104857600", "SiteName": "Mattermost", "SiteURL": s.URL,
		"TimeBetweenUserTypingUpdatesMilliseconds": "5000", "EnableUserTypingMessages": "true", "CollapsedThreads": "always_on",
	}
	if s.older {
		delete(out, "MaxPostSize")
	}
	return out
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	version, newer := s.version, s.newer
	s.mu.Unlock()
	if newer {
		b = fromTheFuture(b)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", NewID())
	w.Header().Set("X-Version-Id", version+"..912a8ce6b428383cb07019bd47d00931476a452786c23aebd02b00519c6e10c9.false")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that is gone
}

func (s *Server) fail(w http.ResponseWriter, e *apiError) {
	e.RequestID = NewID()
	s.answer(w, e.Status, e)
}

// fromTheFuture adds members to every object that nobody has seen yet.
func fromTheFuture(b []byte) []byte {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return b
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
			if _, post := v["message"]; post {
				v["newer_member"] = map[string]any{"deep": []any{1, nil, "x"}}
			}
		}
	}
	walk(v)
	out, _ := json.Marshal(v) // it was JSON
	return out
}

// Slow makes each post take its time, in which another with the same
// pending_post_id is turned away.
func (s *Server) Slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowPost = d
}
