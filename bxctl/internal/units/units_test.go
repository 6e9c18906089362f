package units

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/config"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files anew")
	flag.Parse()
	os.Exit(m.Run())
}

func input(t *testing.T, root bool, kind setup.Kind) Input { return inputWith(t, root, kind, false) }

func inputWith(t *testing.T, root bool, kind setup.Kind, gateway bool) Input {
	t.Helper()
	l := config.Layout{
		Home: "/srv/box maker", Config: "/srv/box maker/config", Grants: "/srv/box maker/grants", Sessions: "/srv/box maker/sessions", Run: "/run/b", Log: "/srv/box maker/log",
		Audit: "/srv/box maker/audit", Broker: "/srv/box maker/broker", Secrets: "/srv/box maker/secrets", Keys: "/srv/box maker/keys", Anchors: "/srv/box maker/anchors", Workspace: "/srv/box maker/workspace",
	}
	s := setup.DefaultSettings()
	s.Model.Kind, s.Model.File = kind, "/models/a $x.gguf"
	p := setup.DefaultProxy()
	p.Upstream = "http://127.0.0.1:8080"
	roles, err := up.Plan(up.Input{Gateway: gateway, Layout: l, Settings: s, Proxy: p, Self: "/opt/100%/bxctl", Llama: "/usr/bin/llama-server", Root: root, Owner: 1000, Environ: []string{"LANG=C", "PATH=/bin:/usr/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return Input{Layout: l, Settings: s, Roles: roles, Root: root}
}

// The units as a whole, for a look at each change.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		root    bool
		kind    setup.Kind
		gateway bool
	}{
		{"user-practice", false, setup.Practice, false},
		{"root-upstream", true, setup.Upstream, false},
		{"root-llama", true, setup.Llama, false},
		{"user-gateway", false, setup.Practice, true},
		{"root-gateway", true, setup.Upstream, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, err := Files(inputWith(t, c.root, c.kind, c.gateway))
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, f := range files {
				b.WriteString("-- " + f.Name + " --\n" + f.Text)
			}
			path := filepath.Join("testdata", c.name+".txt")
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != b.String() {
				t.Errorf("%v; differs from %s (look, then -update):\n%s", err, path, b.String())
			}
		})
	}
}

// What up gives to a role, its unit gives it too.
func TestSameAsUp(t *testing.T) {
	in := input(t, false, setup.Practice)
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range in.Roles {
		i := slices.IndexFunc(files, func(f File) bool { return f.Name == "boxmaker-"+r.Name+".service" })
		if i < 0 {
			t.Fatalf("no service of %s", r.Name)
		}
		for _, a := range r.Args {
			if a != "-die-with-parent" && !strings.Contains(files[i].Text, quote(a)) {
				t.Errorf("%s is not started with %q", r.Name, a)
			}
		}
		for n := range r.Sockets {
			socket := slices.IndexFunc(files, func(f File) bool { return f.Name == socketUnit(r, n) })
			if socket < 0 || !strings.Contains(files[socket].Text, "FileDescriptorName="+r.Sockets[n].Name+"\n") || strings.Count(files[socket].Text, "ListenStream=") != 1 {
				t.Errorf("%s: no unit of its own for socket %s", r.Name, r.Sockets[n].Name)
			}
			if n > 0 && !strings.Contains(files[i].Text, socketUnit(r, n)+"\n") {
				t.Errorf("%s is not given socket %s", r.Name, r.Sockets[n].Name)
			}
		}
		for _, f := range r.Folders {
			if !strings.Contains(files[i].Text, "/run/b/"+f.Path+"\n") {
				t.Errorf("%s has no folder %s", r.Name, f.Path)
			}
		}
		if r.Isolate != strings.Contains(files[i].Text, "PrivateNetwork=yes") {
			t.Errorf("%s: the network is another", r.Name)
		}
	}
}

func TestRefused(t *testing.T) {
	in := input(t, false, setup.Practice)
	in.Roles[0].Args = append(in.Roles[0].Args, "a\nExecStartPre=/bin/evil")
	if _, err := Files(in); err == nil {
		t.Error("a line break went into a unit")
	}
	in = input(t, false, setup.Practice)
	in.Layout.Run = "/" + strings.Repeat("r", 100)
	if _, err := Files(in); err == nil || !strings.Contains(err.Error(), "107") {
		t.Error(err)
	}
}

func TestQuote(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/a/b-c", "/a/b-c"},
		{"", `""`},
		{"a b", `"a b"`},
		{`a"b\c`, `"a\"b\\c"`},
		{"50%", "50%%"},
		{"$HOME;x", `"$HOME;x"`},
		{"ü\t", `"ü\t"`},
	} {
		if got := quote(c.in); got != c.want {
			t.Errorf("%q is %s, want %s", c.in, got, c.want)
		}
	}
	if got := command("a", "$b c"); got != `a "$$b c"` {
		t.Error(got)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "u")
	files := []File{{"boxmaker.target", "# " + made + "\n1"}, {"boxmaker-practice.service", "# " + made + "\n2"}}
	if removed, err := Write(dir, files); err != nil || removed != nil {
		t.Fatal(removed, err)
	}
	for name, text := range map[string]string{"boxmaker-mine.service": "[Service]\n", "notes.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := Write(dir, files[:1])
	if err != nil || !slices.Equal(removed, []string{"boxmaker-practice.service"}) {
		t.Error(removed, err)
	}
	if _, err := Write(dir, []File{{"boxmaker-mine.service", "# " + made + "\n"}}); err == nil {
		t.Error("a file of somebody else was replaced")
	}
	for name, want := range map[string]bool{"boxmaker.target": true, "boxmaker-practice.service": false, "boxmaker-mine.service": true, "notes.txt": true} {
		st, err := os.Stat(filepath.Join(dir, name))
		if (err == nil) != want || err == nil && st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
