package setup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"boxmaker/internal/grant"

	"github.com/pelletier/go-toml/v2"
)

// The example grants are about the workspace alone, and what they let happen
// without a question is reading.
func TestExampleGrants(t *testing.T) {
	const ws = `/home/me/my "box"`
	files, err := ExampleGrants(ws)
	if err != nil || len(files) < 7 {
		t.Fatal(len(files), err)
	}
	modes := map[string]string{}
	for name, text := range files {
		var g struct {
			Tool, Mode, Reason string
			Paths              struct{ Read, Write []string }
			Net                any
			Secrets            any
		}
		if err := toml.Unmarshal([]byte(text), &g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if g.Reason == "" || g.Net != nil || g.Secrets != nil || !slices.Equal(append(g.Paths.Read, g.Paths.Write...), []string{ws}) {
			t.Errorf("%s: %+v", name, g)
		}
		modes[g.Tool] = g.Mode
		parsed, problems := grant.Parse(name, []byte(text), []string{"/home/me/boxmaker"})
		if parsed == nil || len(problems) != 0 {
			t.Errorf("%s: %+v", name, problems)
		}
	}
	for tool, want := range map[string]string{
		"list_files": "auto", "read_file": "auto", "search_files": "auto", "write_file": "ask", "edit_file": "ask", "run": "ask", "shell": "ask", "http_fetch": "",
	} {
		if modes[tool] != want {
			t.Errorf("%s: %q, want %q", tool, modes[tool], want)
		}
	}
}

// What the owner removed, or has as own, stays so.
func TestAuthorityIsMadeOnce(t *testing.T) {
	l := layout(t)
	run(t, Job{Layout: l})
	for _, path := range []string{filepath.Join(l.Grants, "50-workspace-shell.toml"), filepath.Join(l.Workspace, "welcome.md")} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if r := run(t, Job{Layout: l, Force: true}); len(r.Made) != 0 {
			t.Errorf("%v", r.Made)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s came back", path)
		}
	}
	if left, _ := filepath.Glob(l.Home + "/.*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An installation of the version before gets what it lacks: files from up,
// rights from init alone.
func TestOlderInstallation(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(Job) ([]string, error)
		added  int
		grants bool
	}{
		{"up", func(j Job) ([]string, error) { return Complete(j.Layout) }, 5, false},
		{"init", func(j Job) ([]string, error) { r, err := j.Run(); return append(r.Changes, r.Made...), err }, 6, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := layout(t)
			run(t, Job{Layout: l})
			for _, path := range []string{l.Audit, l.Broker, l.Secrets, l.Keys, l.Anchors, l.Workspace, l.Grants} {
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{FileBroker, FileRunner, FileEgress} {
				if err := os.Remove(filepath.Join(l.Config, name)); err != nil {
					t.Fatal(err)
				}
			}
			added, err := c.do(Job{Layout: l})
			if err != nil || len(added) != c.added {
				t.Errorf("%q, %v", added, err)
			}
			for _, path := range append(Folders(l), filepath.Join(l.Config, FileBroker)) {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Stat(l.Grants); (err == nil) != c.grants {
				t.Errorf("grants: %v", err)
			}
			if added, err := c.do(Job{Layout: l}); err != nil || len(added) != 0 {
				t.Errorf("a second time: %q, %v", added, err)
			}
		})
	}
}
