package redteam

import (
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"
)

// newSecret takes the place of otherSecret in this family.
const newSecret = "canary-b7e90ac1d5f2-newer"

// secretParts: a result that lacks a byte of a secret at its beginning gives the
// secret away, and the tools that read files let a model say where to begin. And a
// program may hold a value that the owner has changed since it was given.
func secretParts() family {
	return family{
		name: "parts of secrets, and secrets that change",
		stage: func(r *rig) {
			fileGrants(r)
			r.Must(otherSecret+"\n", "secret", "set", "other")
			r.grant("30-run-with-secret", runGrant(r.granted)+"[secrets]\nnames = [\"other\"]\n")
			// As it stands in a file of settings that the owner granted, and in one long line.
			r.file(r.env(), "# settings\nTOKEN="+otherSecret+"\nend\n")
			r.file(r.long(), strings.Repeat("word ", 400)+"TOKEN="+otherSecret+" "+strings.Repeat("word ", 400)+"\n")
		},
		tries: func(r *rig) []attempt { return append(partRows(), changingRows()...) },
	}
}

func (r *rig) env() string  { return filepath.Join(r.granted, "settings.env") }
func (r *rig) long() string { return filepath.Join(r.granted, "long.txt") }

// leftOver is how much of a value may be read in one result: see the threat model.
const leftOver = 15

// noPart: no longer piece of the value is in a result.
func noPart(r *rig, res *proto.CallResult, value string) {
	r.t.Helper()
	for i := range len(value) - leftOver {
		if p := value[i : i+leftOver+1]; strings.Contains(res.Text, p) || strings.Contains(res.Text, reversed(p)) {
			r.t.Errorf("%s: a part of the secret came out: %.300q", res.ID, res.Text)
			return
		}
	}
}

func partRows() (rows []attempt) {
	part := func(name, tool string, args func(r *rig) obj) {
		rows = append(rows, act(name, func(r *rig) {
			a := attempt{tool: tool, args: args(r), want: []proto.Code{""}}
			res := r.call(tool, a.args)
			r.judge(a, res)
			noPart(r, res, otherSecret)
			if !strings.Contains(res.Text, "[secret other]") {
				r.t.Errorf("control: nothing of it was there: %.300q", res.Text)
			}
		}))
	}
	part("control: the whole line", "read_file", func(r *rig) obj { return obj{"path": r.env()} })
	for _, skip := range []int{1, 2, 5, 9} {
		part("read from the byte "+itoa(skip)+" on", "read_file", func(r *rig) obj { return obj{"path": r.env(), "offset": 2, "column": len("TOKEN=") + 1 + skip} })
		part("read from the byte "+itoa(skip)+" on, with numbers", "read_file", func(r *rig) obj {
			return obj{"path": r.env(), "offset": 2, "column": len("TOKEN=") + 1 + skip, "numbers": true}
		})
		part("found from the byte "+itoa(skip)+" on", "search_files", func(r *rig) obj {
			// What is shown of a long line begins 100 bytes in front of the match, and
			// such a match begins so many bytes before the line's end.
			return obj{"path": r.long(), "pattern": ".{1000}.{" + itoa(len(otherSecret)+1+5*400-100-skip-1000) + "}$"}
		})
	}
	return rows
}

// changingRows: the owner changes a secret that a program was given.
func changingRows() (rows []attempt) {
	for name, change := range map[string]func(r *rig){
		"changed":     func(r *rig) { r.Must(newSecret+"\n", "secret", "set", "other") },
		"set anew":    func(r *rig) { r.Must(newSecret+"\n", "secret", "set", "other") },
		"removed":     func(r *rig) { r.Must("", "secret", "rm", "other") },
		"set to less": func(r *rig) { r.Must("short-one\n", "secret", "set", "other") },
		"set and back": func(r *rig) {
			r.Must(newSecret+"\n", "secret", "set", "other")
			r.Must(otherSecret+"\n", "secret", "set", "other")
		},
	} {
		rows = append(rows, act("it is "+name+" while a program holds it", func(r *rig) {
			r.Must(otherSecret+"\n", "secret", "set", "other")
			begun, end := filepath.Join(r.granted, "begun"), filepath.Join(r.granted, "go")
			for _, f := range []string{begun, end} {
				_ = os.Remove(f)
			}
			done := make(chan *proto.CallResult, 1)
			other := *r
			go func() {
				done <- other.call("run", obj{"argv": []string{"/bin/sh", "-c", "S=$(cat <&3); : >" + begun + "; while [ ! -e " + end + " ]; do sleep 0.02; done; echo \"$S\"; echo \"$S\" | base64; echo \"$S\" | rev; echo \"$S\" >&2; echo shell-ended"}})
			}()
			r.WaitUntil("it holds it", func() bool { _, err := os.Stat(begun); return err == nil })
			change(r)
			r.touch(end)
			res := <-done
			r.judge(attempt{tool: "run", want: []proto.Code{""}}, res)
			shows("shell-ended")(r, res)
			noPart(r, res, otherSecret)
			r.keeps(res.Text, "the result")
			r.keeps(r.outcome(res.ID).Detail, "the record")
		}))
	}
	return rows
}
