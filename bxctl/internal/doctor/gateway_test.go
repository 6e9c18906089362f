package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/mattermost"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
)

// setChat makes a healthy chat of the rig.
func (r *rig) setChat() {
	r.t.Helper()
	g := setup.DefaultGateway()
	g.URL, g.Owners = "https://chat.example.com", []string{"kq3w9tn8ztdgzbuh1jr4xe7mfo"}
	c, err := setup.ChangeGateway(r.l, g)
	r.must(err)
	_, err = setup.WriteGateway(r.l, c, at())
	r.must(err)
	r.must(mattermost.Keep(g.Secret(r.l, false, setup.DefaultSettings()), secret.NewText("a-token-of-a-bot")))
	r.file("bin/gatewayd", "abc", 0o755)
	if r.broker != nil { // it runs
		r.rows(proto.Check{Name: "gateway", State: "ok", Detail: "gatewayd v1"}, proto.Check{Name: "gateway: mattermost", State: "ok", Detail: "connected as @box"})
	}
}

func (r *rig) rows(rows ...proto.Check) {
	r.broker.SetStatus(func(st *proto.BrokerStatus) { st.Checks = rows })
}

func brokenChat() []broken {
	store := func(r *rig) string { return filepath.Join(r.l.Secrets, setup.GatewayStore) }
	with := func(f func(*rig)) func(*rig) { return func(r *rig) { r.setChat(); f(r) } }
	state := func(name, state, detail, key string) func(*rig) {
		return with(func(r *rig) {
			r.rows(proto.Check{Name: "gateway", State: "ok"}, proto.Check{Name: name, State: state, Detail: detail, Runbook: key})
		})
	}
	return []broken{
		{"chat without an owner", false, with(func(r *rig) { r.toml("gatewayd.toml", `owners = ["kq3w9tn8ztdgzbuh1jr4xe7mfo"]`, "owners = []") }), "chat", Fail, "line 13: \"owners\": nobody would be heard", "bxctl mattermost setup", false},
		{"chat with a misspelt key", false, with(func(r *rig) { r.toml("gatewayd.toml", "channels =", "chanels =") }), "chat", Fail, "chanels", "mend that line", false},
		{"chat in the clear", false, with(func(r *rig) { r.toml("gatewayd.toml", "plain = false", "plain = true") }), "chat", Warn, "in the clear", "https://", false},
		{"no token", false, with(func(r *rig) { r.must(os.Remove(store(r))) }), "chat", Fail, "token is not there", "bxctl mattermost setup", false},
		{"no key of the token", false, with(func(r *rig) { r.must(os.Remove(filepath.Join(r.l.Keys, setup.GatewayKey))) }), "chat", Fail, "not there", "bxctl mattermost setup", false},
		{"a damaged token", false, with(func(r *rig) { r.must(os.WriteFile(store(r), []byte("x"), 0o600)) }), "chat", Fail, "damaged", "bxctl mattermost setup", false},
		{"a token that others read", false, with(func(r *rig) { r.must(os.Chmod(store(r), 0o640)) }), "rights", Fail, "gatewayd.age", "chmod", true},
		{"the key beside the token", false, with(func(r *rig) {
			r.must(os.Rename(filepath.Join(r.l.Keys, setup.GatewayKey), filepath.Join(r.l.Secrets, "k")))
			r.toml("gatewayd.toml", `key = ""`, `key = "`+filepath.Join(r.l.Secrets, "k")+`"`)
		}), "chat", Warn, "beside the store", "move the key", false},
		{"no gatewayd", false, with(func(r *rig) { r.must(os.Remove(filepath.Join(r.dir, "bin/gatewayd"))) }), "programs", Fail, "the program gatewayd is not there", "make build", false},
		{"a token that is refused", true, state("gateway: mattermost", "failed", "the server refuses the token", "mattermost-token"), "chat", Fail, "refuses the token", "bxctl mattermost check", false},
		{"gatewayd away", true, with(func(r *rig) {
			r.rows(proto.Check{Name: "gateway", State: "failed", Detail: "nobody answers", Runbook: "gatewayd-away"})
		}), "chat", Fail, "nobody answers", "bxctl logs gatewayd", false},
		{"set up since the start", true, with(func(r *rig) { r.rows() }), "chat", Fail, "since it was started", "bxctl up", false},
	}
}

// A chat that is well has no finding but good ones, and no row shows the token.
func TestAChatThatIsWell(t *testing.T) {
	r := newRig(t)
	r.setChat()
	if rep := r.examine(); rep.Verdict != OK {
		t.Errorf("at rest:\n%s", bads(rep))
	}
	r.run()
	r.up.Roles = append(r.up.Roles, report.Role{Name: "gatewayd"})
	r.setChat()
	rep := r.examine()
	for _, f := range rep.Findings {
		if f.Check == "chat" && f.Verdict != OK {
			t.Errorf("%+v", f)
		}
		if strings.Contains(f.Detail+f.Mend, "a-token-of-a-bot") {
			t.Errorf("the token is shown: %+v", f)
		}
	}
}

// gatewayd is looked at where its file is, and nowhere else.
func TestAChatIsLookedAtWhereThereIsOne(t *testing.T) {
	find := func(rep Report, check, detail string) bool {
		return slices.ContainsFunc(rep.Findings, func(f Finding) bool {
			return f.Check == check && f.Verdict == Fail && (strings.Contains(f.Detail, detail) || strings.Contains(f.Looked, detail))
		})
	}
	r := newRig(t)
	if rep := r.examine(); find(rep, "programs", "gatewayd") || find(rep, "chat", "gatewayd.toml") {
		t.Error("asked for without a chat")
	}
	r.must(os.WriteFile(filepath.Join(r.l.Config, "gatewayd.toml"), []byte("url = \n"), 0o600))
	_ = os.Remove(filepath.Join(r.dir, "bin/gatewayd"))
	if rep := r.examine(); !find(rep, "programs", "the program gatewayd is not there") || !find(rep, "chat", "TOML") {
		t.Errorf("%s", bads(rep))
	}
}
