package redteam

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"
)

// watchers: a program sees the machine's own /usr, and files that others use as
// well. It must not learn what others do with them, nor be able to make them wait.
func watchers() family {
	return family{
		name: "watching and holding files of others",
		stage: func(r *rig) {
			r.arm()
			read := r.folder("readable")
			r.file(filepath.Join(read, "note.txt"), "an ordinary note\n")
			r.grant("41-run", strings.Replace(runGrant(r.granted), "[paths]\n", "[paths]\nread = [\""+read+"\"]\n", 1))
		},
		tries: func(r *rig) []attempt {
			read := filepath.Join(r.Home, "red", "readable")
			rows := []attempt{
				r.attack("leases and signals of a file that may be read", all(
					says(forbidden, "lease", "signal", "lease, bits above"), says([]string{"ok"}, "a lock of a part", "a descriptor", "a pipe's size"),
				), "hold", filepath.Join(read, "note.txt"), read),
				r.attack("the same of the machine's programs", says(forbidden, "lease", "signal", "lease, bits above"), "hold", "/usr/bin/true", "/usr/bin"),
			}
			for name, w := range map[string]struct {
				path string
				use  func() error
			}{
				"which programs the machine starts":  {"/usr/bin/true", func() error { return exec.Command("/usr/bin/true").Run() }},
				"what is looked for in its programs": {"/usr/bin", func() error { _, err := os.ReadFile("/usr/bin/true"); return err }},
				"who reads a granted file":           {filepath.Join(read, "note.txt"), func() error { _, err := os.ReadFile(filepath.Join(read, "note.txt")); return err }},
			} {
				rows = append(rows, act(name, func(r *rig) { r.watched(w.path, w.use) }))
			}
			return rows
		},
	}
}

// watched uses a path while a program watches it, and looks at what that saw.
func (r *rig) watched(path string, use func() error) {
	r.t.Helper()
	mark, end := filepath.Join(r.granted, "watching"), filepath.Join(r.granted, "enough")
	for _, f := range []string{mark, end} {
		_ = os.Remove(f)
	}
	done := make(chan *proto.CallResult, 1)
	other := *r
	go func() { done <- other.call("run", obj{"argv": []string{r.attacker(), "watch", path, mark, end}}) }()
	r.WaitUntil("it watches", func() bool { _, err := os.Stat(mark); return err == nil })
	if err := use(); err != nil {
		r.t.Error(err)
	}
	r.touch(end)
	res := <-done
	r.judge(attempt{tool: "run", want: []proto.Code{""}}, res)
	shows("attacker ran")(r, res)
	says(forbidden, "inotify")(r, res)
	if strings.Contains(res.Text, "seen:") {
		r.t.Errorf("it saw what others do: %.300q", res.Text)
	}
}
