package fakemost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// shape is JSON without its values: members in their order, and kinds. Of a list
// of ids or posts it is that of the first. Text that is JSON is looked into.
func shape(t *testing.T, b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	var out strings.Builder
	var value func(name string)
	value = func(name string) {
		tok, err := d.Token()
		if err != nil {
			t.Fatalf("%v: %.200q", err, b)
		}
		switch tok := tok.(type) {
		case json.Delim:
			out.WriteString(tok.String())
			first := true
			for d.More() {
				if tok == '{' {
					key, _ := d.Token()
					// posts by their ids, notification settings: one stands for all
					if name == "posts" || name == "notify_props" {
						if !first {
							var skip json.RawMessage
							_ = d.Decode(&skip)
							continue
						}
						key = "*"
					}
					fmt.Fprintf(&out, " %v:", key)
					first = false
					value(fmt.Sprint(key))
					continue
				}
				if !first {
					var skip json.RawMessage
					_ = d.Decode(&skip)
					continue
				}
				first = false
				value("")
			}
			_, _ = d.Token()
			out.WriteString("end")
		case string:
			if strings.HasPrefix(tok, `{"`) {
				out.WriteString("text of " + shape(t, []byte(tok)))
			} else {
				out.WriteString("text")
			}
		case nil:
			out.WriteString("null")
		default:
			fmt.Fprintf(&out, "%T", tok)
		}
	}
	value("")
	return out.String()
}

// ask sends a request as a user.
func ask(t *testing.T, s *Server, u *User, method, path, body string) (status int, mime string, answer []byte) {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+"/api/v4"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), b
}

func id(b []byte) string {
	var v struct{ ID string }
	_ = json.Unmarshal(b, &v)
	return v.ID
}

// The answers have the shape of a real server's.
func TestShapesOfAnswers(t *testing.T) {
	s := New(t)
	owner, stranger, bot := s.AddUser("owner"), s.AddUser("stranger"), s.AddBot("boxmaker")
	bad := &User{Token: "bad"}
	check := func(name string, u *User, method, path, body string) []byte {
		t.Helper()
		status, mime, got := ask(t, s, u, method, path, body)
		b, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		head, want, _ := strings.Cut(string(b), "\n")
		if g := fmt.Sprint(status, " ", mime); g != head {
			t.Errorf("%s: %s, want %s: %.300s", name, g, head, got)
			return got
		}
		if g, w := shape(t, got), shape(t, []byte(want)); g != w {
			t.Errorf("%s:\n got %s\nwant %s", name, g, w)
		}
		var no, wantNo apiError
		if status >= 400 {
			_ = json.Unmarshal(got, &no)
			_ = json.Unmarshal([]byte(want), &wantNo)
			if no.ID != wantNo.ID || no.Message != wantNo.Message || no.Status != wantNo.Status {
				t.Errorf("%s: %+v, want %+v", name, no, wantNo)
			}
		}
		return got
	}
	post := func(u *User, channel, root, text string) string {
		return fmt.Sprintf(`{"channel_id":%q,"root_id":%q,"message":%q}`, channel, root, text)
	}
	check("bot-me", bot, "GET", "/users/me", "")
	check("bot-get-owner", bot, "GET", "/users/"+owner.ID, "")
	dm := id(check("create-dm", owner, "POST", "/channels/direct", fmt.Sprintf(`[%q,%q]`, owner.ID, bot.ID)))
	check("err-bad-token", bad, "GET", "/users/me", "")
	check("err-403-other-dm-posts", stranger, "GET", "/channels/"+dm+"/posts", "")
	check("err-404-post", bot, "GET", "/posts/zzzzzzzzzzzzzzzzzzzzzzzzzz", "")
	check("err-400-post", bot, "GET", "/posts/xx", "")
	root := id(check("owner-post", owner, "POST", "/posts", post(owner, dm, "", "hello")))
	reply := id(check("bot-placeholder", bot, "POST", "/posts", fmt.Sprintf(`{"channel_id":%q,"message":"w","props":{"boxmaker":{"task":"t1"}},"root_id":%q}`, dm, root)))
	check("bot-patch-placeholder", bot, "PUT", "/posts/"+reply+"/patch", `{"message":"w 50%"}`)
	check("owner-react", owner, "POST", "/reactions", fmt.Sprintf(`{"user_id":%q,"post_id":%q,"emoji_name":"white_check_mark"}`, owner.ID, reply))
	check("bot-get-reactions", bot, "GET", "/posts/"+reply+"/reactions", "")
	s.Unreact(owner, reply, "white_check_mark")
	check("bot-get-reactions-empty", bot, "GET", "/posts/"+reply+"/reactions", "")
	check("bot-typing", bot, "POST", "/users/me/typing", fmt.Sprintf(`{"channel_id":%q,"parent_id":%q}`, dm, root))
	check("reply-to-reply", owner, "POST", "/posts", post(owner, dm, reply, "x"))
	check("bot-get-thread-paged", bot, "GET", "/posts/"+root+"/thread?perPage=1&direction=down", "")
	check("owner-delete-root", owner, "DELETE", "/posts/"+root, "")
	check("bot-reply-deleted-root", bot, "POST", "/posts", post(bot, dm, root, "late"))
	check("bot-patch-under-deleted-root", bot, "PUT", "/posts/"+reply+"/patch", `{"message":"late"}`)
	check("size-ascii-16384", bot, "POST", "/posts", post(bot, dm, "", strings.Repeat("a", 16384)))
	check("since-equal-boundary", bot, "GET", fmt.Sprintf("/channels/%s/posts?since=%d", dm, s.last), "")
	check("err-since-bad", bot, "GET", "/channels/"+dm+"/posts?since=abc", "")
	first := s.Post(owner, dm, "", "since A")
	s.Skew(10e6) // another millisecond
	s.Post(owner, dm, "", "since B")
	check("posts-after", bot, "GET", "/channels/"+dm+"/posts?after="+first.ID+"&per_page=5", "")
	check("posts-page", bot, "GET", "/channels/"+dm+"/posts?page=0&per_page=3", "")
	check("pending-1", bot, "POST", "/posts", fmt.Sprintf(`{"channel_id":%q,"message":"once","pending_post_id":"x1"}`, dm))
	check("dm-channel", bot, "GET", "/channels/"+dm, "")
	s.Delete(owner, first.ID)
	check("patch-deleted", bot, "PUT", "/posts/"+first.ID+"/patch", `{"message":"x"}`)
	check("react-deleted", bot, "POST", "/reactions", fmt.Sprintf(`{"user_id":%q,"post_id":%q,"emoji_name":"+1"}`, bot.ID, first.ID))
}

// A file, and a post that names it.
func TestShapeOfAnUpload(t *testing.T) {
	s := New(t)
	owner, bot := s.AddUser("owner"), s.AddBot("boxmaker")
	dm := s.Direct(owner, bot)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_ = form.WriteField("channel_id", dm)
	part, _ := form.CreateFormFile("files", "out.log")
	_, _ = part.Write([]byte("log"))
	_ = form.Close()
	req, _ := http.NewRequest("POST", s.URL+"/api/v4/files", &body)
	req.Header.Set("Authorization", "Bearer "+bot.Token)
	req.Header.Set("Content-Type", form.FormDataContentType())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, _ := io.ReadAll(res.Body)
	b, _ := os.ReadFile("testdata/file-upload.txt")
	_, want, _ := strings.Cut(string(b), "\n")
	if g, w := shape(t, got), shape(t, []byte(want)); g != w {
		t.Errorf("got %s\nwant %s", g, w)
	}
}

// The events have the shape of a real server's.
func TestShapesOfEvents(t *testing.T) {
	s := New(t)
	owner, bot := s.AddUser("owner"), s.AddBot("boxmaker")
	dm := s.Direct(owner, bot)
	conn, _, err := websocket.Dial(t.Context(), s.URL+"/api/v4/websocket", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + bot.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	next := func(name string) {
		t.Helper()
		_, got, err := conn.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("testdata/event-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if g, w := shape(t, got), shape(t, want); g != w {
			t.Errorf("%s:\n got %s\nwant %s", name, g, w)
		}
	}
	next("hello")
	next("status_change")
	p := s.Post(owner, dm, "", "hello")
	next("posted")
	s.Edit(owner, p.ID, "hullo")
	next("post_edited")
	s.React(owner, p.ID, "+1")
	next("reaction_added")
	p = s.Post(owner, dm, "", "hello")
	next("posted")
	s.Delete(owner, p.ID)
	next("post_deleted")
}
