package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

// A chat that cannot be had ends nothing else, and the owner is told why.
func TestGatewayFault_AtTheStart(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	hotel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>Welcome to the hotel's network!</html>"))
	}))
	defer hotel.Close()
	for _, tt := range []struct {
		name, key string
		change    func(*stack.Chat)
	}{
		{"nobody there", "mattermost-unreachable", func(c *stack.Chat) { c.URL = "http://127.0.0.1:1" }},
		{"another server", "mattermost-unreachable", func(c *stack.Chat) { c.URL = hotel.URL }},
		{"a certificate that nobody vouches for", "mattermost-certificate", func(c *stack.Chat) { c.URL = secure.URL }},
		{"https for http", "mattermost-unreachable", func(c *stack.Chat) { c.URL = strings.Replace(c.URL, "http:", "https:", 1) }},
		{"a wrong token", "mattermost-token", func(c *stack.Chat) { c.Token = "ybndrfg8ejkmcpqxot1uwisza3" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			town := chatstory.NewFakeTown(t)
			c := town.Chat()
			tt.change(&c)
			s := fresh(t)
			s.SetChat(c)
			s.Up()
			p := &chatstory.Place{Stack: s, Town: &town.Town, T: t}
			row := p.WaitConnected("failed")
			checkKey(t, row.Detail+" (see runbook: "+row.Runbook+")", tt.key)
			if strings.Contains(row.Detail, c.Token) {
				t.Errorf("the token is shown: %s", row.Detail)
			}
			answered(t, s, "chat-1", "Hello.")
			s.Down()
			for _, r := range town.Fake.Requests("", "") {
				if r.Token && tt.key != "mattermost-token" {
					t.Errorf("the token went to %s %s", r.Method, r.Path)
				}
			}
		})
	}
}

// Servers of other versions, with another clock, and what people do there.
func TestGatewayOtherServers(t *testing.T) {
	t.Parallel()
	town := chatstory.NewFakeTown(t)
	p := chatstory.Start(t, &town.Town, nil)
	say := func(words string) { t.Helper(); p.AskAs(town.Post, "", "answer with: "+words).Says(words) }
	say("as recorded")
	town.Fake.Skew(time.Hour)
	say("an hour ahead")
	town.Fake.Renew("13.0.0")
	town.Fake.Forget()
	say("newer")
	town.Fake.Age("7.8.0")
	town.Fake.Forget()
	say("older")
	for _, typ := range []string{"system_header_change", "system_join_channel", "custom_odd"} {
		town.Fake.System(town.Owner, town.DM, typ, "answer with: no person wrote it")
	}
	for _, forged := range []map[string]any{{"from_webhook": "true"}, {"from_bot": "true"}, {"from_plugin": true}, {"override_username": "owner"}} {
		town.Fake.PostProps(town.Owner, town.DM, "", "answer with: no hand wrote it", forged)
	}
	group := town.Fake.Channel("G", "three", town.Owner, town.Bot, town.Fake.AddUser("third"))
	town.Fake.Post(town.Owner, group, "", "@"+town.Bot.Name+" answer with: in a group")
	huge := town.Fake.PostProps(town.Owner, town.DM, "", "answer with: much beside it", map[string]any{"junk": strings.Repeat("x", 290_000)})
	m := p.AskAs(func(string, string) (string, error) { return huge.ID, nil }, "", "")
	m.Says("much beside it")
	say("👍🏽 e\u0301 and \U0001f468\u200d\U0001f469\u200d\U0001f467")
	town.Fake.Disable(town.Bot)
	town.Fake.Enable(town.Bot)
	say("enabled again")
	p.Exact()
	for _, o := range town.Fake.Posts(group) {
		if o.UserID == town.Bot.ID {
			t.Errorf("answered in a group: %q", o.Message)
		}
	}
	p.Down()
}

// The disk of the queue stays full for longer than a program that crashes is kept
// running. Messages are not taken, the owner of the machine is told, the terminal's
// chat goes on, and with room again each message is answered, once.
func TestGatewayFault_DiskFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a full disk of gatewayd's queue needs root, which may mount one")
	}
	town := chatstory.NewFakeTown(t)
	s := fresh(t)
	if err := os.Mkdir(s.Layout.Gateway(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", s.Layout.Gateway(), "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("NOT TESTED: no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		stack.Sweep(s.Home)
		if err := unix.Unmount(s.Layout.Gateway(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := chatstory.Open(t, s, &town.Town, func(s *stack.Stack) {
		s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "100"})
	})
	first := p.AskAs(town.Post, "", "answer with: room")
	first.Says("room")
	p.WaitUntil("the queue is empty", p.Idle)
	under := p.AskAs(town.Post, "", "count to 300") // an answer is under way
	under.Waits("")
	pid := s.PID("gatewayd")
	free := fill(t, s.Layout.Gateway(), 0)
	late := []*chatstory.Message{p.AskAs(town.Post, "", "answer with: "+strings.Repeat("much ", 2000)+"room again")}
	tries := func() int {
		b, err := os.ReadFile(filepath.Join(s.Layout.Log, "gatewayd.log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "no space left on device")
	}
	s.WaitUntil("gatewayd tries again, and again", func() bool { return tries() > 4 })
	late = append(late, p.AskAs(town.Post, first.Root, "answer with: meanwhile"))
	answered(t, s, "chat-meanwhile", "Hello.")
	p.WaitUntil("brokerd has asked how gatewayd is", func() bool {
		st, err := p.Broker()
		return err == nil && slices.ContainsFunc(st.Checks, func(c proto.Check) bool { return c.Name == "gateway: queue" && c.State == "failed" })
	})
	for _, command := range []string{"status", "doctor"} {
		r := s.Bxctl("", command)
		for _, want := range []string{"nothing is heard or posted", "no space left on device", "(see runbook: disk-full)"} {
			if !strings.Contains(strings.Join(strings.Fields(r.Stdout+r.Stderr), " "), want) {
				t.Errorf("bxctl %s does not say %q:\n%s%s", command, want, r.Stdout, r.Stderr)
			}
		}
	}
	free()
	late[0].Says("room again")
	late[1].Says("meanwhile")
	under.Says(" 299 300")
	p.AskAs(town.Post, first.Root, "answer with: more").Says("more")
	if s.PID("gatewayd") != pid {
		t.Error("gatewayd was started again")
	}
	p.WaitConnected("ok")
	p.Exact()
	p.Down()
}

// Without tools there is no brokerd that asks gatewayd: status and doctor do it.
func TestGatewayWithoutTools(t *testing.T) {
	t.Parallel()
	town := chatstory.NewFakeTown(t)
	s := fresh(t)
	s.NoTools()
	s.SetChat(town.Chat())
	s.Up()
	says := func(command string, want ...string) {
		t.Helper()
		var all string
		s.WaitUntil("bxctl "+command+" tells of the chat: "+want[0], func() bool {
			r := s.Bxctl("", command)
			all = strings.Join(strings.Fields(r.Stdout+r.Stderr), " ")
			return strings.Contains(all, want[0])
		})
		for _, w := range want[1:] {
			if !strings.Contains(all, w) {
				t.Errorf("bxctl %s does not say %q:\n%s", command, w, all)
			}
		}
	}
	says("status", "connected as @"+town.Bot.Name, "0 messages without an answer")
	says("doctor", "connected, and all of its")
	town.Fake.Revoke(town.Bot)
	town.Fake.CutAll()
	says("status", "(see runbook: mattermost-token)")
	says("doctor", "gatewayd: mattermost", "(see runbook: mattermost-token)")
	town.Fake.Restore(town.Bot)
	s.Down()
}
