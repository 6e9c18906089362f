package probe

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/testkit/fakemost"

	"pgregory.net/rapid"
)

// place is a server with the people of a setup.
type place struct {
	*fakemost.Server
	bot, ann, other *fakemost.User
	town            string
}

func newPlace(t *testing.T) *place {
	s := fakemost.New(t)
	p := &place{Server: s, bot: s.AddBot("box"), ann: s.AddUser("ann"), other: s.AddUser("other")}
	p.town = s.Channel("O", "town", p.bot, p.ann)
	return p
}

func (p *place) run(t *testing.T, ask proto.Probe) *proto.Probed {
	t.Helper()
	if ask.URL == "" {
		ask.URL = p.URL
	}
	out := Run(t.Context(), Config{Timeout: 5 * time.Second}, &ask, secret.NewText(p.bot.Token))
	if err := out.Validate(); err != nil {
		t.Error(err)
	}
	return out
}

// last gives the name of the last step, its state and its words.
func last(m *proto.Probed) (name, state, words string) {
	s := m.Steps[len(m.Steps)-1]
	return s.Name, s.State, s.Detail + "; " + s.Do + " " + s.Runbook
}

func TestAllIsWell(t *testing.T) {
	p := newPlace(t)
	out := p.run(t, proto.Probe{Owners: []string{"@Ann", p.other.ID}, Channels: []string{"~town"}, Greet: true})
	if s, failed := out.Failed(); failed {
		t.Fatal(s)
	}
	var names []string
	for _, s := range out.Steps {
		names = append(names, s.Name)
		if s.State != "ok" || s.Do != "" {
			t.Errorf("%+v", s)
		}
	}
	if got := strings.Join(names, " "); got != "server server token owner owner channel direct message" {
		t.Errorf("steps: %s", got)
	}
	if out.Bot != (proto.Named{ID: p.bot.ID, Name: "box"}) || out.Owners[0] != (proto.Named{ID: p.ann.ID, Name: "ann"}) || out.Owners[1].ID != p.other.ID || out.Channels[0] != (proto.Named{ID: p.town, Name: "town"}) || out.Version != "11.1.0" {
		t.Errorf("%+v", out)
	}
	posts := p.Posts(p.Direct(p.bot, p.ann))
	if len(posts) != 1 || posts[0].Message != greeting || posts[0].ID != out.Post || len(p.Posts(p.town)) != 0 {
		t.Errorf("posts: %+v", posts)
	}
	p.run(t, proto.Probe{Owners: []string{"ann"}})
	if n := len(p.Posts(p.Direct(p.bot, p.ann))); n != 1 {
		t.Errorf("%d messages: one was not asked for", n)
	}
}

// Only as many steps as there is what they need.
func TestStepByStep(t *testing.T) {
	p := newPlace(t)
	out := Run(t.Context(), Config{}, &proto.Probe{URL: p.URL, Owners: []string{"ann"}, Greet: true}, secret.Text{})
	if len(out.Steps) != 1 || out.Steps[0].Name != "server" {
		t.Errorf("without a token: %+v", out)
	}
	for _, r := range p.Requests("", "") {
		if r.Token {
			t.Errorf("a token: %+v", r)
		}
	}
	if out = p.run(t, proto.Probe{}); len(out.Steps) != 3 || out.Bot.Name != "box" {
		t.Errorf("without an owner: %+v", out)
	}
}

func TestWhatAnOwnerGetsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(p *place, ask *proto.Probe)
		step  string
		words string
	}{
		{"no address", func(_ *place, a *proto.Probe) { a.URL = "chat" }, "server", "mattermost-url"},
		{"http to elsewhere", func(_ *place, a *proto.Probe) { a.URL = "http://chat.example.com" }, "server", "--plain"},
		{"a password in the address", func(_ *place, a *proto.Probe) { a.URL = "https://me:hunter22@chat.example.com" }, "server", "no user"},
		{"https at http", func(p *place, a *proto.Probe) { a.URL = strings.Replace(p.URL, "http:", "https:", 1) }, "server", "speaks http, not https"},
		{"a path that is not there", func(p *place, _ *proto.Probe) {
			p.Inject(fakemost.Fault{Kind: fakemost.Garbage, Path: "/system"})
		}, "server", "mattermost-not-one"},
		{"elsewhere", func(p *place, _ *proto.Probe) {
			p.Inject(fakemost.Fault{Kind: fakemost.Redirect, Path: "/system", To: "https://127.0.0.1/"})
		}, "server", "give the address with https://"},
		{"away", func(p *place, _ *proto.Probe) {
			p.Inject(fakemost.Fault{Kind: fakemost.BadGateway, Path: "/system"})
		}, "server", "mattermost-unreachable"},
		{"busy", func(p *place, _ *proto.Probe) { p.Inject(fakemost.Fault{Kind: fakemost.Busy, Path: "/system"}) }, "server", "fewer requests"},
		{"cut", func(p *place, _ *proto.Probe) { p.Inject(fakemost.Fault{Kind: fakemost.CutBefore, Path: "/system"}) }, "server", "mattermost-unreachable"},
		{"nobody there", func(_ *place, a *proto.Probe) { a.URL = "http://" + closedPort() }, "server", "nobody listens at 127.0.0.1:"},
		{"wrong token", func(p *place, _ *proto.Probe) { p.bot = &fakemost.User{Token: fakemost.NewID()} }, "token", "does not take the token"},
		{"no token at all", func(p *place, _ *proto.Probe) { p.bot = &fakemost.User{Token: "short"} }, "token", "mattermost-token"},
		{"two lines", func(p *place, _ *proto.Probe) { p.bot = &fakemost.User{Token: p.bot.Token + "\nmore"} }, "token", "mattermost-token"},
		{"revoked", func(p *place, _ *proto.Probe) { p.Revoke(p.bot) }, "token", "was revoked"},
		{"bot disabled", func(p *place, _ *proto.Probe) { p.Disable(p.bot) }, "token", "disabled"},
		{"a person's token", func(p *place, _ *proto.Probe) { p.bot = p.other }, "token", "a person's account"},
		{"the server fails", func(p *place, _ *proto.Probe) { p.Inject(fakemost.Fault{Kind: fakemost.FailBefore, Path: "/config"}) }, "token", "mattermost-unreachable"},
		{"no such owner", func(_ *place, a *proto.Probe) { a.Owners = []string{"anne"} }, "owner", `no account "anne"`},
		{"no such id", func(_ *place, a *proto.Probe) { a.Owners = []string{fakemost.NewID()} }, "owner", "no account"},
		{"an e-mail address", func(_ *place, a *proto.Probe) { a.Owners = []string{"ann@example.com"} }, "owner", "no user name"},
		{"a name with a slash", func(_ *place, a *proto.Probe) { a.Owners = []string{"../me"} }, "owner", "mattermost-owner"},
		{"the bot", func(_ *place, a *proto.Probe) { a.Owners = []string{"box"} }, "owner", "the bot itself"},
		{"another bot", func(p *place, a *proto.Probe) { p.AddBot("robot"); a.Owners = []string{"robot"} }, "owner", "is a bot"},
		{"deactivated", func(p *place, _ *proto.Probe) { p.Disable(p.ann) }, "owner", "deactivated"},
		{"twice", func(p *place, a *proto.Probe) { a.Owners = []string{"ann", p.ann.ID} }, "owner", "named twice"},
		{"not in the channel", func(p *place, a *proto.Probe) { a.Channels = []string{p.Channel("P", "den", p.ann)} }, "channel", "invite it"},
		{"two of a name", func(p *place, a *proto.Probe) { p.Channel("P", "town", p.bot); a.Channels = []string{"town"} }, "channel", "2 channels"},
		{"a group of people", func(p *place, a *proto.Probe) {
			a.Channels = []string{p.Channel("G", "x", p.bot, p.ann, p.other)}
		}, "channel", "not a channel"},
		{"archived", func(p *place, a *proto.Probe) { p.Archive(p.town); a.Channels = []string{p.town} }, "channel", "archived"},
		{"a channel twice", func(p *place, a *proto.Probe) { a.Channels = []string{"town", p.town} }, "channel", "named twice"},
		{"no direct channel", func(p *place, _ *proto.Probe) {
			p.Inject(fakemost.Fault{Kind: fakemost.Echo, Path: "/channels/direct"})
		}, "direct", "mattermost-direct"},
		{"no message", func(p *place, _ *proto.Probe) {
			p.Inject(fakemost.Fault{Kind: fakemost.Echo, Method: "POST", Path: "/posts"})
		}, "message", "mattermost-direct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			ask := proto.Probe{URL: p.URL, Owners: []string{"ann"}, Greet: true}
			c.do(p, &ask)
			out := p.run(t, ask)
			step, state, words := last(out)
			if step != c.step || state != "failed" || !strings.Contains(words, c.words) || !strings.Contains(words, "mattermost-") {
				t.Errorf("%s %s: %s", step, state, words)
			}
			if s := clean(out, p.bot.Token); strings.Contains(words, p.bot.Token) || strings.Contains(words, "hunter22") {
				t.Errorf("a secret in %+v", s)
			}
			if out.Post != "" || len(p.Requests("POST", "/posts")) != 0 && step != "message" {
				t.Error("a message was posted")
			}
		})
	}
}

// A message whose fate is not known is looked for, and not posted twice.
func TestMessageOfUnknownFate(t *testing.T) {
	p := newPlace(t)
	p.Inject(fakemost.Fault{Kind: fakemost.CutAfter, Method: "POST", Path: "/posts", Times: 1})
	out := p.run(t, proto.Probe{Owners: []string{"ann"}, Greet: true})
	posts := p.Posts(p.Direct(p.bot, p.ann))
	if len(posts) != 1 || out.Post != posts[0].ID {
		t.Errorf("%d posts, %+v", len(posts), out)
	}
	p.Inject(fakemost.Fault{Kind: fakemost.CutBefore, Method: "POST", Path: "/posts"})
	if step, state, words := last(p.run(t, proto.Probe{Owners: []string{"ann"}, Greet: true})); step != "message" || state != "failed" || !strings.Contains(words, "mattermost-unreachable") {
		t.Errorf("%s %s %s", step, state, words)
	}
}

func TestOtherVersions(t *testing.T) {
	for _, c := range []struct {
		do    func(*place)
		state string
	}{
		{func(p *place) { p.Age("7.8.2") }, "warn"},
		{func(p *place) { p.Renew("23.0.0") }, "warn"},
		{func(p *place) { p.Renew("11.9.1") }, "ok"},
	} {
		p := newPlace(t)
		c.do(p)
		out := p.run(t, proto.Probe{Owners: []string{"ann"}, Greet: true})
		if s := out.Steps[1]; s.Name != "server" || s.State != c.state || !strings.Contains(s.Detail, out.Version) {
			t.Errorf("%+v", s)
		}
		if s, failed := out.Failed(); failed {
			t.Error(s)
		}
	}
}

func closedPort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// certify makes a certificate for 127.0.0.1 or another name.
func certify(t *testing.T, host string, from, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(host); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, pool
}

func TestCertificates(t *testing.T) {
	now := time.Now()
	const day = 24 * time.Hour
	for _, c := range []struct {
		name        string
		host        string
		from, until time.Time
		trusted     bool
		state       string
		words       string
	}{
		{"good", "127.0.0.1", now.Add(-day), now.Add(90 * day), true, "ok", "good until"},
		{"soon over", "127.0.0.1", now.Add(-day), now.Add(3 * day), true, "warn", "mattermost-certificate"},
		{"expired", "127.0.0.1", now.Add(-9 * day), now.Add(-day), true, "failed", "not good now"},
		{"not yet good", "127.0.0.1", now.Add(day), now.Add(9 * day), true, "failed", "clock"},
		{"another name", "chat.example.com", now.Add(-day), now.Add(90 * day), true, "failed", "another name than 127.0.0.1"},
		{"nobody's", "127.0.0.1", now.Add(-day), now.Add(90 * day), false, "failed", "update-ca-certificates"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tokens int
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					tokens++
				}
				_, _ = w.Write([]byte(`{"AndroidLatestVersion":"","status":"OK"}`))
			}))
			cert, pool := certify(t, c.host, c.from, c.until)
			if !c.trusted {
				pool = x509.NewCertPool()
			}
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			srv.Config.ErrorLog = nil
			srv.StartTLS()
			defer srv.Close()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
			out := Run(t.Context(), Config{HTTP: client}, &proto.Probe{URL: srv.URL}, secret.NewText("a-token-of-a-bot"))
			s := out.Steps[0]
			if s.State != c.state || !strings.Contains(s.Detail+s.Do+s.Runbook, c.words) {
				t.Errorf("%+v", s)
			}
			if (tokens > 0) != (c.state != "failed") {
				t.Errorf("%d requests with the token", tokens)
			}
		})
	}
}

// http:// at a server that wants TLS.
func TestPlainAtTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	out := Run(t.Context(), Config{}, &proto.Probe{URL: strings.Replace(srv.URL, "https:", "http:", 1)}, secret.Text{})
	if _, state, words := last(out); state != "failed" || !strings.Contains(words, "speaks https, not http") {
		t.Error(words)
	}
}

// Over the pipe: one question, one answer, and the token in neither.
func TestServe(t *testing.T) {
	p := newPlace(t)
	q, err := proto.Encode(&proto.Probe{URL: p.URL, Owners: []string{"ann"}})
	if err != nil {
		t.Fatal(err)
	}
	var in, out bytes.Buffer
	if err := frame.Write(&in, q); err != nil {
		t.Fatal(err)
	}
	in.WriteString(p.bot.Token)
	confined := 0
	if err := serve(t.Context(), &in, &out, func(ask *proto.Probe) {
		confined++
		if len(p.Requests("", "")) != 0 || ask.URL != p.URL {
			t.Error("asked before it was confined")
		}
	}); err != nil || confined != 1 {
		t.Fatal(err, confined)
	}
	if strings.Contains(out.String(), p.bot.Token) {
		t.Error("the token is in the answer")
	}
	b, err := frame.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	m, err := proto.ProbeEvents.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := m.(*proto.Probed); !ok || a.Bot.Name != "box" || a.Owners[0].Name != "ann" {
		t.Errorf("%+v", m)
	}
	for name, in := range map[string]string{"nothing": "", "half": "\x00\x00\x00\x09abc", "no question": "\x00\x00\x00\x02{}"} {
		if err := serve(t.Context(), strings.NewReader(in), &out, func(*proto.Probe) { t.Error("confined") }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if code := Main([]string{"-token", p.bot.Token}, strings.NewReader(""), &out, &out); code != 2 {
		t.Errorf("an unknown flag: code %d", code)
	}
}

// The token is washed out of every word, wherever a server put it.
func TestCleanLeavesNoToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[a-z0-9]{8,30}`).Draw(t, "token")
		word := func(label string) string {
			return rapid.SampledFrom([]string{"", "a", token, token + token, "x" + token + "y"}).Draw(t, label)
		}
		m := &proto.Probed{
			Steps: []proto.ProbeStep{{Name: "token", State: "ok", Detail: word("detail"), Do: word("do")}}, Version: word("version"),
			Bot: proto.Named{Name: word("bot")}, Owners: []proto.Named{{Name: word("owner")}}, Channels: []proto.Named{{ID: word("id"), Name: word("channel")}},
		}
		b, err := proto.Encode(clean(m, token))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), token) {
			t.Fatalf("%s", b)
		}
	})
}

// Each key that a step names has a section in the runbook.
func TestKeysAreInTheRunbook(t *testing.T) {
	book, err := os.ReadFile("../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"probe.go", "explain.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		keys := regexp.MustCompile(`"(mattermost-[a-z-]+)"`).FindAllStringSubmatch(string(src), -1)
		if len(keys) < 5 {
			t.Errorf("%s: only %d keys found", file, len(keys))
		}
		for _, k := range keys {
			if !strings.Contains(string(book), "\n## "+k[1]+"\n") {
				t.Errorf("no section %s", k[1])
			}
		}
	}
}
