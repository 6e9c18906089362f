package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

func TestTexts(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	up := &Up{PID: 100, Since: now.Add(-3 * time.Hour), Version: "v1", Model: "the practice model", State: "running", Roles: []Role{
		{Name: "practice", PID: 101, UID: 62103, Since: now.Add(-3 * time.Hour), State: "running"},
		{Name: "inferproxy", PID: 102, UID: 62101, Since: now.Add(-time.Minute), State: "running", Restarts: 2, Exit: "killed by signal 9 (killed)"},
		{Name: "loopd", UID: 62102, State: "waiting", Missing: []string{"network namespace: operation not permitted"}},
	}}
	status := &proto.Status{
		Version: "v1", State: "ready", Since: proto.Time(now), Baseline: 812,
		Server: proto.Server{Model: "m\x1b[2J", Build: "b1-\u202eabc", Context: 32768, Slots: 3, Template: strings.Repeat("ab", 32)},
		Checks: []proto.Check{
			{Name: "props", State: "ok", Detail: "n_ctx 32768"},
			{Name: "tool-call", State: "failed", Detail: "no\ncall", Runbook: "selftest-tool-call"},
			{Name: "cache", State: "skipped"},
			{Name: "cap", State: "pending"},
		},
		Slots:     []proto.SlotState{{Name: "main", ID: 0, Session: "chat-a", Waiting: 2}, {Name: "background", ID: 1}},
		OpenTurns: 3, Confinement: []proto.Check{{Name: "landlock", State: "ok", Detail: "ABI 7"}, {Name: "network", State: "failed", Detail: "eth0 is there", Runbook: "network-open"}},
	}
	waiting := &proto.Status{Version: "v1", State: "waiting", Detail: "nobody answers", Since: proto.Time(now), Server: proto.Server{Practice: true}}
	broker := &proto.BrokerStatus{
		Version: "v1", Since: proto.Time(now), Running: 1, Pending: 2, Kept: 1, Grants: 7, Broken: []string{"10-a.toml:3: unknown key \"tol\"\x1b[2J"},
		Head: proto.AuditHead{N: 1234, Hash: strings.Repeat("ab", 32)}, Checks: []proto.Check{{Name: "runner", State: "ok", Detail: "crun 1.8.1"}, {Name: "egress", State: "failed", Detail: "it does not answer", Runbook: "no-egress"}},
		Confinement: []proto.Check{{Name: "landlock", State: "ok", Detail: "ABI 7"}},
	}
	chat := &proto.BrokerStatus{Grants: 1, Head: proto.AuditHead{Hash: strings.Repeat("0", 64)}, Checks: []proto.Check{
		{Name: "runner", State: "ok", Detail: "crun 1.8.1"},
		{Name: "gateway", State: "ok", Detail: "gatewayd v1"},
		{Name: "gateway: mattermost", State: "failed", Detail: "the token is\x1b refused", Runbook: "mattermost-token"},
		{Name: "gateway: queue", State: "ok", Detail: "3 messages without an answer"},
		{Name: "grants", State: "ok", Detail: "1 grant"},
	}}
	halted := &proto.BrokerStatus{Halted: true, HaltReason: "odd things\nhappen", Grants: 1, Head: proto.AuditHead{Hash: strings.Repeat("0", 64)}}
	for _, c := range []struct {
		name string
		full Full
	}{
		{"authority.txt", Full{Home: "/home/me/box", Loopd: waiting, Broker: broker}},
		{"chat.txt", Full{Home: "/home/me/box", Loopd: waiting, Broker: chat}},
		{"chat-silent.txt", Full{Home: "/home/me/box", Up: &Up{PID: 1, Since: now, State: "running", Roles: []Role{{Name: "gatewayd", PID: 7, Since: now, State: "running"}}}, Loopd: waiting, ChatError: "gatewayd does not answer; see bxctl logs gatewayd"}},
		{"chat-asked.txt", Full{Home: "/home/me/box", Up: &Up{PID: 1, Since: now, State: "running", Roles: []Role{{Name: "gatewayd", PID: 7, Since: now, State: "running"}}}, Loopd: waiting, Chat: &proto.GatewayStatus{Version: "v1", Checks: []proto.Check{{Name: "mattermost", State: "failed", Detail: "not connected: \x1b[31mno", Runbook: "mattermost-unreachable"}}, Confinement: []proto.Check{{Name: "landlock", State: "ok", Detail: "ABI 7"}}}}},
		{"halted.txt", Full{Home: "/home/me/box", Loopd: waiting, Broker: halted}},
		{"no-authority.txt", Full{Home: "/home/me/box", Loopd: waiting, BrokerError: "brokerd does not answer"}},
		{"ready.txt", Full{Home: "/home/me/box", Up: up, Loopd: status}},
		{"waiting.txt", Full{Home: "/home/me/box", Loopd: waiting}},
		{"silent.txt", Full{Home: "/home/me/box", Up: &Up{PID: 1, Since: now, State: "failed", Reason: "loopd refused to start"}, Error: "loopd does not answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.full.Text(term.Plain(&bytes.Buffer{}), now)
			if strings.ContainsAny(got, "\x1b\u202e") {
				t.Errorf("control characters in %q", got)
			}
			golden(t, c.name, got)
		})
	}
	golden(t, "brief.txt", Brief(term.Plain(&bytes.Buffer{}), status, "chat-a")+"\n")
}

func TestModel(t *testing.T) {
	for _, c := range []struct {
		in   proto.Server
		want string
	}{
		{proto.Server{}, "model not known yet"},
		{proto.Server{Practice: true, Model: "gpt"}, "practice model (rules, not a language model)"},
		{proto.Server{Model: "q"}, "model q"},
	} {
		if got := Model(c.in); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
