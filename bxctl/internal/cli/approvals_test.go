package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/fakeowner"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

func waitingCall(id, code string) proto.Approval {
	return proto.Approval{
		Approval: id, Code: code, Digest: fakeowner.Hash, Asked: "2026-01-02T03:04:00.000Z", Expires: "2026-01-02T03:19:00.000Z",
		Call: "chat-a/1/3/0", Session: "chat-a", Tool: "run", Fields: []proto.Field{{Name: "argv", Value: "[\"ls\x1b[2J\"]"}},
		Read: []string{}, Write: []string{}, Hosts: []string{}, Secrets: []string{}, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "50-run",
	}
}

func brokerAt(t *testing.T, home string) *fakeowner.Broker {
	t.Helper()
	path := filepath.Join(home, "run", "brokerd", "bxctl", "owner.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return fakeowner.At(t, path)
}

func TestApprovals(t *testing.T) {
	home := shortHome(t)
	if r := run(t, home, "", "approvals"); r.code != 3 || !strings.Contains(r.err, "brokerd-away") {
		t.Errorf("without brokerd: %+v", r)
	}
	b := brokerAt(t, home)
	if r := run(t, home, "", "approvals"); r.code != 0 || r.out != "" || !strings.Contains(r.err, "nothing waits") {
		t.Errorf("nothing waits: %+v", r)
	}
	b.Ask(waitingCall("idoneidoneidone", "k7q2"))
	b.Ask(waitingCall("idtwoidtwoidtwo", "m3xx"))
	r := run(t, home, "", "approvals")
	for _, want := range []string{"run wants your approval · code k7q2", `│ argv     ┆ ["ls␛[2J"]`, "└─ bxctl approve m3xx · bxctl deny m3xx"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in %s", want, r.out)
		}
	}
	if r = run(t, home, "", "approvals", "--json"); strings.Count(r.out, "\n") != 2 || strings.Contains(r.out, "\x1b") || !strings.HasPrefix(r.out, `{"type":"approval","approval":"idoneidoneidone"`) {
		t.Errorf("as JSON: %+v", r)
	}
	if r = run(t, home, "y\n", "approve", "k7q2"); r.code != 2 || !strings.Contains(r.err, "--yes") || len(b.Answers()) != 0 {
		t.Errorf("approved without a terminal: %+v", r)
	}
	if r = run(t, home, "", "approve", "k7q2", "--yes"); r.code != 0 || !strings.HasSuffix(r.out, "k7q2 is approved\n") || !strings.Contains(r.out, "┆ [\"ls␛[2J\"]") {
		t.Errorf("approve: %+v", r)
	}
	if r = run(t, home, "", "deny", "idtwoidtwoidtwo", "--yes", "--json"); r.code != 0 || !strings.Contains(r.out, `"verdict":"denied"`) || strings.Contains(r.out, "┆") {
		t.Errorf("deny: %+v", r)
	}
	for _, a := range b.Answers() {
		if a.Digest != fakeowner.Hash || a.Channel != "cli" {
			t.Errorf("answered with %+v", a)
		}
	}
	if r = run(t, home, "", "deny", "k7q2"); r.code != 2 || !strings.Contains(r.err, "approval-gone") {
		t.Errorf("a second answer: %+v", r)
	}
}

func TestHaltAndTools(t *testing.T) {
	home := shortHome(t)
	b := brokerAt(t, home)
	if r := run(t, home, "", "halt", "it", "went\x1b", "wrong"); r.code != 0 || !strings.HasPrefix(r.out, "everything is halted: it went␛ wrong;") {
		t.Errorf("%+v", r)
	}
	if halted, reason := b.Halted(); !halted || reason != "it went\x1b wrong" {
		t.Errorf("halted %v for %q", halted, reason)
	}
	if r := run(t, home, "", "resume"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if halted, _ := b.Halted(); halted {
		t.Error("still halted")
	}
	b.SetTools(proto.ToolRow{Name: "read_file", Line: "reads\x1b", Schema: "{}", Grants: []string{"10-a", "50-b"}}, proto.ToolRow{Name: "shell", Line: "a shell", Schema: "{}", Grants: []string{}})
	if r := run(t, home, "", "tools"); r.out != "read_file     10-a, 50-b\n  reads␛\nshell         no grant\n  a shell\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, home, "", "tools", "--json"); !strings.HasPrefix(r.out, `{"type":"tools","tools":[{"name":"read_file"`) || strings.Contains(r.out, "\x1b") {
		t.Errorf("%+v", r)
	}
}

func TestSecrets(t *testing.T) {
	home := shortHome(t)
	if r := run(t, home, "", "init", "--practice"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, dir := range []string{"secrets", "keys"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := secret.Config{Dir: filepath.Join(home, "secrets"), Key: secret.Key{File: filepath.Join(home, "keys", "brokerd.key")}}
	if _, err := secret.Create(c); err != nil && !strings.Contains(err.Error(), "belongs to") {
		t.Fatal(err)
	}
	const value = "a-value-of-it"
	for _, s := range []struct {
		name, stdin string
		args        []string
		code        int
		out, err    string
	}{
		{"none", "", []string{"list"}, 0, "", "no secrets yet"},
		{"set", value + "\n", []string{"set", "token"}, 0, "token is kept (13 B)\n", ""},
		{"set without a line end", value, []string{"set", "b"}, 0, "b is kept (13 B)\n", ""},
		{"list", "", []string{"list"}, 0, "b\ntoken\n", ""},
		{"list as JSON", "", []string{"list", "--json"}, 0, "[\"b\",\"token\"]\n", ""},
		{"rotate", "", []string{"rotate"}, 0, "the secrets have a new key; replace the copy of it that you keep\n", ""},
		{"rm", "", []string{"rm", "b"}, 0, "b is removed\n", ""},
		{"rm again", "", []string{"rm", "b"}, 2, "", "bxctl: there is no secret b\n"},
		{"as an argument", "", []string{"set", "token", value}, 2, "", "never as an argument"},
		{"nothing", "\n", []string{"set", "x"}, 2, "", "there is no value"},
		{"blank space", "       \n", []string{"set", "x"}, 2, "", "nothing but blank space"},
		{"short", "12345\n", []string{"set", "x"}, 2, "", "secret-value"},
		{"a bad name", "123456\n", []string{"set", "X"}, 2, "", "secret-name"},
		{"another key", "", []string{"list", "--key", filepath.Join(home, "keys", "none")}, 1, "", "secret-key"},
		{"no command", "", []string{"get"}, 2, "", "no command"},
	} {
		r := run(t, home, s.stdin, append([]string{"secret"}, s.args...)...)
		if r.code != s.code || r.out != s.out || !strings.Contains(r.err, s.err) || strings.Contains(r.err, value) {
			t.Errorf("%s: %+v", s.name, r)
		}
	}
}
