package realllama

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that breaks the inference contract is refused, by the name of what it
// breaks. One model is enough: these are properties of server and template.
func TestSelfTestRefuses(t *testing.T) {
	m := firstTiny(t)
	tests := []struct {
		name   string
		flags  []string
		config string
		key    string
	}{
		{"one slot", []string{"-np", "1"}, "", "selftest-slots"},
		{"small window", []string{"-c", "6000"}, "", "selftest-context"},
		{"another template than pinned", nil, "[expect]\ntemplate = \"" + strings.Repeat("ab", 32) + "\"\n", "selftest-template"},
		{"another build than pinned", nil, "[expect]\nbuild = \"b0\"\n", "selftest-server"},
		{"a template without tools", []string{"--chat-template", "chatml"}, "", "selftest-tool-call"},
		{"no jinja", []string{"--no-jinja"}, "", "selftest-tool-call"},
		{"an API key", []string{"--api-key", "sesame"}, "", "selftest-server"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantRefused(t, startServer(t, m, tt.flags...), tt.config, tt.key) })
	}
}

// Qwen3's own template drops the reasoning of all turns but the newest, so each
// message of the owner would throw the last turn out of the cache.
func TestCase_P09_TemplateThatDropsReasoningIsRefused(t *testing.T) {
	m := firstTiny(t)
	var props struct {
		Template string `json:"chat_template"`
	}
	s := startServer(t, m)
	s.get("/props", &props)
	s.kill()
	const keeps = "{%- if message.reasoning_content %}"
	if !strings.Contains(props.Template, keeps) {
		t.Fatal("the tiny model's template has changed")
	}
	drops := "{%- set ns = namespace(last=0) %}{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}\n" +
		strings.ReplaceAll(props.Template, keeps, "{%- if message.reasoning_content and loop.index0 > ns.last %}")
	file := filepath.Join(t.TempDir(), "drops.jinja")
	if err := os.WriteFile(file, []byte(drops), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, startServer(t, m, "--chat-template-file", file), "", "selftest-extension")
}

// wantRefused checks that loopd does not start with s, and names key.
func wantRefused(t *testing.T, s *server, config, key string) {
	t.Helper()
	h := buildHouse(t, "unix:"+s.socket, config)
	h.launchLoopd()
	code, printed := h.refusal()
	if code != 78 || !strings.Contains(printed, "(see runbook: "+key+")") {
		t.Errorf("exit code %d, want 78 and %s:\n%s", code, key, printed)
	}
}
