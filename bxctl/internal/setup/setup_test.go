package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/internal/config"
)

func layout(t *testing.T) config.Layout {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // as root, the roles pass through
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "box")
	l, err := config.Locate(func(name string) string {
		if name == "BOXMAKER_HOME" {
			return home
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func run(t *testing.T, j Job) Report {
	t.Helper()
	j.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r, err := j.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, l config.Layout, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(l.Config, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseUpstream(t *testing.T) {
	for _, c := range []struct{ name, in, want, key string }{
		{"name and port", "http://box.lan:8080", "tcp:box.lan:8080", ""},
		{"slash", "http://127.0.0.1:8080/", "tcp:127.0.0.1:8080", ""},
		{"IPv6", "http://[::1]:9931", "tcp:[::1]:9931", ""},
		{"socket", "unix:/run/llama.sock", "unix:/run/llama.sock", ""},
		{"socket as a URL", "unix:///run/llama.sock", "unix:/run/llama.sock", ""},
		{"https", "https://example.com:8080", "", "upstream-https"},
		{"password", "http://me:hunter2@host:80", "", "upstream-credentials"},
		{"password over https", "https://me:hunter2@host", "", "upstream-credentials"},
		{"user", "http://token@host:80", "", "upstream-credentials"},
		{"no port", "http://host", "", "upstream-address"},
		{"port 0", "http://host:0", "", "upstream-address"},
		{"large port", "http://host:70000", "", "upstream-address"},
		{"a path", "http://host:80/v1", "", "upstream-address"},
		{"a key in the query", "http://host:80?key=hunter2", "", "upstream-address"},
		{"no scheme", "host:8080", "", "upstream-address"},
		{"other scheme", "ftp://host:80", "", "upstream-address"},
		{"empty", "", "", "upstream-address"},
		{"relative socket", "unix:llama.sock", "", "upstream-address"},
		{"dots in socket", "unix:/run/../llama.sock", "", "upstream-address"},
		{"space in host", "http://a b:80", "", "upstream-address"},
		{"no host", "http://:80", "", "upstream-address"},
		{"control character", "http://a\x1b:80", "", "upstream-address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ParseUpstream(c.in)
			if c.key == "" {
				if err != nil || a.String() != c.want {
					t.Errorf("got %v, %v", a, err)
				}
				return
			}
			f, ok := err.(*fault.Fault)
			if !ok || f.Key != c.key || f.Code != fault.Usage {
				t.Fatalf("got %v, %#v", a, err)
			}
			if strings.Contains(fault.Text(err), "hunter2") {
				t.Errorf("the error repeats the password: %s", fault.Text(err))
			}
		})
	}
}

func FuzzParseUpstream(f *testing.F) {
	f.Add("http://[::1]:80")
	f.Add("unix:/a")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseUpstream(s)
		if err == nil && (a.Path == "") == (a.Host == "") {
			t.Errorf("ParseUpstream(%q) = %#v", s, a)
		}
	})
}

func TestSetKey(t *testing.T) {
	const text = "a = 1\n\n[x]\nk = \"v # no\" # why\n# k = 3\n[y]\nk = 2\n"
	for _, c := range []struct{ name, section, key, want, was string }{
		{"top", "", "a", "a = 9\n\n[x]\nk = \"v # no\" # why\n# k = 3\n[y]\nk = 2\n", "1"},
		{"with a comment", "x", "k", "a = 1\n\n[x]\nk = 9 # why\n# k = 3\n[y]\nk = 2\n", `"v # no"`},
		{"same key elsewhere", "y", "k", "a = 1\n\n[x]\nk = \"v # no\" # why\n# k = 3\n[y]\nk = 9\n", "2"},
		{"missing key", "x", "n", "a = 1\n\n[x]\nn = 9\nk = \"v # no\" # why\n# k = 3\n[y]\nk = 2\n", ""},
		{"missing at the top", "", "n", "n = 9\n" + text, ""},
		{"missing section", "z", "n", text + "\n[z]\nn = 9\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, was := setKey(text, c.section, c.key, "9")
			if got != c.want || was != c.was {
				t.Errorf("got %q, was %q", got, was)
			}
		})
	}
}

func TestFreshInstallation(t *testing.T) {
	l := layout(t)
	r := run(t, Job{Layout: l})
	if !r.Fresh || r.Kind != Practice || len(r.Changes) != 6 || len(r.Made) != 3 {
		t.Errorf("report %+v", r)
	}
	for _, dir := range append([]string{l.Home, l.Workspace, l.Grants}, Folders(l)...) {
		want := os.FileMode(0o700)
		switch {
		case os.Geteuid() != 0:
		case dir == l.Home:
			want = 0o711
		case dir == l.Grants:
			want = 0o750
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", dir, st.Mode(), err)
		}
	}
	for _, name := range []string{FileBxctl, FileProxy, FileLoopd, FileBroker, FileRunner, FileEgress} {
		if st, err := os.Stat(filepath.Join(l.Config, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	s, p, err := Load(l)
	if err != nil {
		t.Fatal(err)
	}
	if want := DefaultSettings(); s.Model.Kind != want.Model.Kind || s.Model.Slots != want.Model.Slots || s.Model.Context != want.Model.Context ||
		s.Model.KV != want.Model.KV || s.Practice.Slots != want.Practice.Slots || s.Practice.Context != want.Practice.Context || p != DefaultProxy() || s.Tools != want.Tools {
		t.Errorf("the files say something else than the defaults: %+v %+v", s, p)
	}
	if s.UID("loopd") != 62102 || s.UID("llama") != 62104 {
		t.Errorf("uids: %d, %d", s.UID("loopd"), s.UID("llama"))
	}
}

func TestSecondInitChangesNothing(t *testing.T) {
	l := layout(t)
	run(t, Job{Layout: l, Choice: Choice{Kind: Upstream, Upstream: "http://h:1"}})
	before := read(t, l, FileBxctl) + read(t, l, FileProxy) + read(t, l, FileLoopd)
	r := run(t, Job{Layout: l})
	if r.Fresh || len(r.Changes) != 0 || r.Kind != Upstream || r.Target != "http://h:1" {
		t.Errorf("report %+v", r)
	}
	if after := read(t, l, FileBxctl) + read(t, l, FileProxy) + read(t, l, FileLoopd); after != before {
		t.Error("a file changed")
	}
}

func TestOtherUpstreamChangesOnlyThat(t *testing.T) {
	l := layout(t)
	run(t, Job{Layout: l})
	mine := strings.Replace(read(t, l, FileProxy), "conns = 64", "conns = 7 # mine", 1)
	if err := os.WriteFile(filepath.Join(l.Config, FileProxy), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, Job{Layout: l, Choice: Choice{Kind: Upstream, Upstream: "unix:/run/l.sock"}})
	want := []string{
		`bxctl.toml: model.kind: "practice" -> "upstream"`,
		`inferproxy.toml: upstream: "" -> "unix:/run/l.sock"`,
	}
	if !slices.Equal(r.Changes, want) {
		t.Errorf("changes %q", r.Changes)
	}
	if got := read(t, l, FileProxy); got != strings.Replace(mine, `upstream = ""`, `upstream = "unix:/run/l.sock"`, 1) {
		t.Errorf("the file is now:\n%s", got)
	}
}

func TestForceKeepsTheOld(t *testing.T) {
	l := layout(t)
	run(t, Job{Layout: l})
	if err := os.WriteFile(filepath.Join(l.Config, FileBxctl), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Job{Layout: l}).Run(); fault.Code(err) != fault.Failed || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a broken file: %v", err)
	}
	run(t, Job{Layout: l, Force: true})
	if got := read(t, l, FileBxctl+".old-20260102T030405Z"); got != "nonsense" {
		t.Errorf("kept %q", got)
	}
	if read(t, l, FileBxctl) != bxctlFile {
		t.Error("not written anew")
	}
}

func TestModelFile(t *testing.T) {
	l := layout(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "m \"x\".gguf"), filepath.Join(dir, "bad.gguf")
	if err := os.WriteFile(good, []byte("GGUF...."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte("PK"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{bad, filepath.Join(dir, "none"), dir, ""} {
		if _, err := (Job{Layout: l, Choice: Choice{Kind: Llama, File: path}}).Run(); fault.Code(err) != fault.Usage {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := os.Stat(l.Home); err == nil {
		t.Error("a refused choice left something behind")
	}
	if r := run(t, Job{Layout: l, Choice: Choice{Kind: Llama, File: good}}); r.Target != good {
		t.Errorf("report %+v", r)
	}
}

func TestPrompt(t *testing.T) {
	l := layout(t)
	run(t, Job{Layout: l, Prompt: true})
	path := filepath.Join(l.Home, "prompts", "system.md")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, Job{Layout: l, Prompt: true}); len(r.Changes) != 0 {
		t.Errorf("second time: %q", r.Changes)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("the owner's prompt became %q", b)
	}
	if !strings.Contains(read(t, l, FileLoopd), "system = "+literal(path)) {
		t.Error("loopd.toml does not name it")
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"kind", FileBxctl, "[model]\nkind = \"cloud\"\n", "practice"},
		{"unknown key", FileBxctl, "[model]\nknd = \"practice\"\n", "knd"},
		{"other case", FileBxctl, "[model]\nKind = \"practice\"\n", "Kind"},
		{"wrong type", FileBxctl, "[model]\nslots = \"two\"\n", "slots"},
		{"one slot", FileBxctl, "[model]\nslots = 1\n", "model.slots"},
		{"KV type", FileBxctl, "[model]\nkv = \"q4_0\"\n", "model.kv"},
		{"no file", FileBxctl, "[model]\nkind = \"llama\"\n", "model.file"},
		{"API key", FileBxctl, "[model]\nargs = [\"--api-key=x\"]\n", "credentials"},
		{"draft model", FileBxctl, "[model]\nargs = [\"-md\", \"x\"]\n", "speculative"},
		{"drafts from n-grams", FileBxctl, "[model]\nargs = [\"--spec-type=ngram\"]\n", "speculative"},
		{"host", FileBxctl, "[model]\nargs = [\"--host\", \"0.0.0.0\"]\n", "--host"},
		{"root uid", FileBxctl, "[uids]\nloopd = 0\n", "unprivileged"},
		{"same uid", FileBxctl, "[uids]\nloopd = 4000\npractice = 4000\n", "one of its own"},
		{"no such role", FileBxctl, "[uids]\nfoo = 4000\n", "no such role"},
		{"https", FileProxy, "upstream = \"https://h:1\"\n", "https"},
		{"rate", FileProxy, "rate = 0\n", "rate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := layout(t)
			run(t, Job{Layout: l})
			if err := os.WriteFile(filepath.Join(l.Config, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Load(l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := layout(t)
	l.Config = filepath.Join(file, "config")
	_, err := (Job{Layout: l}).Run()
	if f, ok := err.(*fault.Fault); !ok || f.Key != "home-unwritable" {
		t.Errorf("got %v", err)
	}
}

// The copy that init --prompt writes is the built-in prompt of loopd, which
// bxctl can't import.
func TestPromptIsTheBuiltIn(t *testing.T) {
	want, err := os.ReadFile("../../../loopd/internal/toolset/prompts/system.md")
	if err != nil {
		t.Fatal(err)
	}
	if promptFile != string(want) {
		t.Error("files/system.md differs from loopd's prompts/system.md: copy it again")
	}
}
