package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"boxmaker/internal/testkit/fakemost"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptChat is the chat's server of a script. Its commands are
//
//	mattermost        starts the server; $MM_URL is its address, $MM_HOST without http://
//	posts N           so many messages are in the direct channel of ann and the bot
//	connected         waits until the bot has a connection for events
//	revoke            takes the tokens of the bots back
//
// There are ann, gone (who left), the bots box, other and robot, and the channels town
// (box is in it) and den. The tokens are in token.txt, other.txt and person.txt, and in
// $MM_TOKEN and $MM_OTHER. $MM_PAGE, $MM_TLS and $MM_NOBODY are other addresses.
type scriptChat struct {
	t *testing.T

	*fakemost.Server
	ann, box, other *fakemost.User
}

func (c *scriptChat) commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"mattermost": c.start,
		"posts": func(ts *testscript.TestScript, neg bool, args []string) {
			n, err := strconv.Atoi(strings.Join(args, ""))
			ts.Check(err)
			got := len(c.Posts(c.Direct(c.ann, c.box))) + len(c.Posts(c.Direct(c.ann, c.other)))
			if (got == n) == neg {
				ts.Fatalf("%d posts", got)
			}
		},
		"connected": func(*testscript.TestScript, bool, []string) { c.WaitConnected(c.other) },
		"revoke": func(*testscript.TestScript, bool, []string) {
			c.Revoke(c.box)
			c.Revoke(c.other)
		},
	}
}

func (c *scriptChat) start(ts *testscript.TestScript, _ bool, _ []string) {
	s := fakemost.New(c.t)
	c.Server, c.ann, c.box, c.other = s, s.AddUser("ann"), s.AddBot("box"), s.AddBot("other")
	gone := s.AddUser("gone")
	s.Disable(gone)
	s.AddBot("robot")
	s.Channel("O", "town", c.box, c.ann)
	s.Channel("P", "den", c.ann)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			c.t.Error("the token went to a stranger")
		}
		_, _ = w.Write([]byte("<html>welcome</html>"))
	}))
	c.t.Cleanup(page.Close)
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	c.t.Cleanup(tls.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	nobody := l.Addr().String()
	ts.Check(l.Close())
	for name, v := range map[string]string{
		"MM_URL": s.URL, "MM_HOST": strings.TrimPrefix(s.URL, "http://"), "MM_PAGE": page.URL, "MM_TLS": tls.URL,
		"MM_NOBODY": "http://" + nobody, "MM_TOKEN": c.box.Token, "MM_OTHER": c.other.Token,
	} {
		ts.Setenv(name, v)
	}
	for file, u := range map[string]*fakemost.User{"token.txt": c.box, "other.txt": c.other, "person.txt": c.ann} {
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(u.Token+"\n"), 0o600))
	}
}
