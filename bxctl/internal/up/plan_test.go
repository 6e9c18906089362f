package up

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
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

func input(kind setup.Kind) Input {
	in := Input{
		Layout: config.Layout{
			Home: "/h", Config: "/h/config", Grants: "/h/grants", Sessions: "/h/sessions", Run: "/h/run", Log: "/h/log",
			Audit: "/h/audit", Broker: "/h/broker", Secrets: "/h/secrets", Keys: "/k", Anchors: "/h/anchors", Workspace: "/h/workspace",
		},
		Settings: setup.DefaultSettings(), Proxy: setup.DefaultProxy(), Self: "/bin/bxctl", Llama: "/opt/llama-server", Owner: 1000,
		Environ: []string{"PATH=/usr/bin", "TZ=Europe/Berlin", "API_KEY=hunter2", "CUDA_VISIBLE_DEVICES=0", "LLAMA_ARG_HOST=0.0.0.0", "HOME=/home/me"},
	}
	in.Settings.Model.Kind = kind
	in.Settings.Model.File = "/m/q.gguf"
	in.Settings.Model.Args = []string{"-ngl", "99"}
	in.Proxy.Upstream = "http://box.lan:8080"
	return in
}

func describe(roles []Role) string {
	var b strings.Builder
	for _, r := range roles {
		fmt.Fprintf(&b, "%s: %s\n", r.Name, r.Path)
		for _, a := range r.Args {
			fmt.Fprintf(&b, "    %s\n", a)
		}
		fmt.Fprintf(&b, "  env %q\n  sockets %+v, makes %q, folders %+v\n  uid %d, isolate %v, loud %v, grace %v\n",
			r.Env, r.Sockets, r.Makes, r.Folders, r.UID, r.Isolate, r.Loud, r.Grace)
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		in   func() Input
	}{
		{"practice", func() Input { return input(setup.Practice) }},
		{"practice-root", func() Input { in := input(setup.Practice); in.Root, in.Owner = true, 0; return in }},
		{"llama-root", func() Input { in := input(setup.Llama); in.Root, in.Owner = true, 0; return in }},
		{"no-tools", func() Input { in := input(setup.Practice); in.Settings.Tools.Enabled = false; return in }},
		{"gateway", func() Input { in := input(setup.Practice); in.Gateway = true; return in }},
		{"gateway-root", func() Input { in := input(setup.Practice); in.Gateway, in.Root, in.Owner = true, true, 0; return in }},
		{"gateway-no-tools", func() Input {
			in := input(setup.Practice)
			in.Gateway, in.Settings.Tools.Enabled = true, false
			return in
		}},
		{"upstream-name", func() Input { return input(setup.Upstream) }},
		{"upstream-address", func() Input { in := input(setup.Upstream); in.Proxy.Upstream = "http://[::1]:9931"; return in }},
		{"upstream-socket", func() Input { in := input(setup.Upstream); in.Proxy.Upstream = "unix:/run/l/l.sock"; return in }},
	} {
		t.Run(c.name, func(t *testing.T) {
			roles, err := Plan(c.in())
			if err != nil {
				t.Fatal(err)
			}
			text := describe(roles)
			if strings.Contains(text, "hunter2") || strings.Contains(text, "0.0.0.0") {
				t.Errorf("up's environment leaks into a role:\n%s", text)
			}
			golden(t, "plan-"+c.name+".txt", text)
		})
	}
}

func TestPlanWithoutUpstream(t *testing.T) {
	in := input(setup.Upstream)
	in.Proxy.Upstream = ""
	if _, err := Plan(in); fault.Code(err) != fault.Usage || !strings.Contains(err.Error(), "--upstream") {
		t.Errorf("%v", err)
	}
}

// The serving settings of this repository.
func TestLlamaFlags(t *testing.T) {
	m := setup.DefaultSettings().Model
	m.File, m.KV, m.Slots, m.Context = "/m.gguf", "q8_0", 3, 10000
	got := LlamaFlags(m, "s.sock")
	for _, pair := range [][]string{{"-np", "3"}, {"-c", "30000"}, {"--cache-type-k", "q8_0"}, {"--cache-type-v", "q8_0"}, {"--sse-ping-interval", "10"}, {"--host", "s.sock"}} {
		if i := slices.Index(got, pair[0]); i < 0 || got[i+1] != pair[1] {
			t.Errorf("no %v in %q", pair, got)
		}
	}
	if !slices.Contains(got, "--jinja") || strings.Contains(strings.Join(got, " "), "draft") {
		t.Errorf("%q", got)
	}
}

func TestJournalCommand(t *testing.T) {
	user := " --user"
	if os.Geteuid() == 0 {
		user = ""
	}
	for _, c := range []struct {
		name  string
		roles []string
		flags []string
		want  string
	}{
		{"all", nil, nil, " -u 'boxmaker-*' -o cat"},
		{"two roles, newest lines, on and on", []string{"loopd", "inferproxy"}, []string{"-n 5", "-f"}, " -u boxmaker-loopd -u boxmaker-inferproxy -o cat -n 5 -f"},
	} {
		if got := JournalCommand(c.roles, c.flags...); got != "journalctl"+user+c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
