package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocate(t *testing.T) {
	one := func(d string) Layout {
		return Layout{
			Home: d, Config: d + "/config", Grants: d + "/grants", Sessions: d + "/sessions", Run: d + "/run", Log: d + "/log",
			Audit: d + "/audit", Broker: d + "/broker", Secrets: d + "/secrets", Keys: d + "/keys", Anchors: d + "/anchors", Workspace: d + "/workspace",
		}
	}
	user := Layout{
		Home: "/home/me/.local/share/boxmaker", Config: "/home/me/.config/boxmaker", Grants: "/home/me/.config/boxmaker/grants",
		Sessions: "/home/me/.local/share/boxmaker/sessions", Run: "/run/user/7/boxmaker", Log: "/home/me/.local/state/boxmaker/log",
		Audit: "/home/me/.local/share/boxmaker/audit", Broker: "/home/me/.local/share/boxmaker/broker", Secrets: "/home/me/.local/share/boxmaker/secrets",
		Keys: "/home/me/.config/boxmaker/keys", Anchors: "/home/me/.local/state/boxmaker/anchors", Workspace: "/home/me/Boxmaker",
	}
	noRun := user
	noRun.Run = "/home/me/.local/share/boxmaker/run"
	for _, tc := range []struct {
		name string
		env  map[string]string
		euid int
		want Layout
	}{
		{"one folder", map[string]string{"BOXMAKER_HOME": "/b", "HOME": "/home/me"}, 7, one("/b")},
		{"one folder, as root", map[string]string{"BOXMAKER_HOME": "/b/"}, 0, one("/b")},
		{"root", map[string]string{"HOME": "/root", "XDG_DATA_HOME": "/x"}, 0, one("/var/lib/boxmaker")},
		{"user", map[string]string{"HOME": "/home/me", "XDG_RUNTIME_DIR": "/run/user/7"}, 7, user},
		{"no runtime folder", map[string]string{"HOME": "/home/me"}, 7, noRun},
		{"relative folders are ignored", map[string]string{"HOME": "/home/me", "XDG_RUNTIME_DIR": "run", "XDG_DATA_HOME": "data"}, 7, noRun},
		{"no HOME, but all folders", map[string]string{"XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, 7, Layout{
			Home: "/d/boxmaker", Config: "/c/boxmaker", Grants: "/c/boxmaker/grants", Sessions: "/d/boxmaker/sessions", Run: "/d/boxmaker/run", Log: "/s/boxmaker/log",
			Audit: "/d/boxmaker/audit", Broker: "/d/boxmaker/broker", Secrets: "/d/boxmaker/secrets", Keys: "/c/boxmaker/keys",
			Anchors: "/s/boxmaker/anchors", Workspace: "/d/boxmaker/workspace",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := locate(func(k string) string { return tc.env[k] }, tc.euid)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLocateWithoutHome(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing set":   {},
		"relative HOME": {"HOME": "me"},
		"only one set":  {"XDG_DATA_HOME": "/d"},
	} {
		_, err := locate(func(k string) string { return env[k] }, 7)
		if err == nil || !strings.Contains(err.Error(), "HOME is not set; set HOME, or set BOXMAKER_HOME") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRelativeHomeCountsFromHere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	l, err := Locate(func(k string) string { return map[string]string{"BOXMAKER_HOME": "x"}[k] })
	if err != nil || l.Home != filepath.Join(dir, "x") {
		t.Errorf("%v %v", l.Home, err)
	}
}

func TestSocket(t *testing.T) {
	l := Layout{Run: "/r"}
	if got := l.Socket("inferproxy", "loopd", "infer"); got != "/r/inferproxy/loopd/infer.sock" {
		t.Error(got)
	}
}
