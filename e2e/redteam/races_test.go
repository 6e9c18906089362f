package redteam

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Texts of a file at a granted path, as it is and as somebody swapped it.
const (
	rightText = "the right one"
	otherText = "the other one"
)

// races: somebody who may write above a granted folder, or in it, swaps what
// stands at a path as fast as the machine can, before and while calls use it.
// They see what was granted, or are refused; they never see what is outside.
func races() family {
	return family{
		name: "time-of-check races",
		stage: func(r *rig) {
			dir := r.folder("race/spot")
			r.file(filepath.Join(dir, "canary.txt"), rightText)
			r.file(filepath.Join(r.folder("race/twin"), "canary.txt"), otherText)
			r.folder("race/elsewhere")
			r.own(filepath.Join(r.Home, "red", "race"), 0o777)
			r.file(filepath.Join(r.granted, "in", "canary.txt"), rightText)
			r.file(filepath.Join(r.granted, "file.txt"), rightText)
			for _, d := range []string{dir, r.granted} {
				name := filepath.Base(d)
				for i, tool := range []string{"read_file", "search_files", "list_files"} {
					r.grant(fmt.Sprintf("1%d-%s-%s", i, name, strings.ReplaceAll(tool, "_", "-")), strings.Replace(readGrant(d), "read_file", tool, 1))
				}
				r.grant("20-"+name+"-write", writeGrant(d))
				r.grant("21-"+name+"-edit", strings.Replace(writeGrant(d), "write_file", "edit_file", 1))
			}
			r.file(r.alone(), rightText)
			r.grant("05-alone", readGrant(r.alone()))
			r.grant("06-alone-search", strings.Replace(readGrant(r.alone()), "read_file", "search_files", 1))
			r.grant("30-shell", strings.Replace(shellGrant(r.granted), "write = [", fmt.Sprintf("write = [%q, ", dir), 1))
		},
		tries: func(r *rig) []attempt {
			race := filepath.Join(r.Home, "red", "race")
			spot, in := filepath.Join(race, "spot"), filepath.Join(r.granted, "in")
			link := func(to, at string) string {
				if err := os.Symlink(to, at); err != nil {
					r.t.Fatal(err)
				}
				return at
			}
			return append(aloneRaces(r), []attempt{
				{name: "control: nobody swaps", run: func(r *rig) { r.raced(0, "", "", spot) }},
				{name: "the granted folder and a link to what is outside", run: func(r *rig) { r.raced(3, spot, link(r.outside, filepath.Join(race, "out")), spot) }},
				{name: "the granted folder and a link to the root", run: func(r *rig) { r.raced(2, spot, link("/", filepath.Join(race, "root")), spot) }},
				{name: "the granted folder and another one", run: func(r *rig) { r.raced(2, spot, filepath.Join(race, "twin"), spot) }},
				{name: "the folder above and a link", run: func(r *rig) {
					r.raced(2, race, link(filepath.Join(r.outside, "deep"), filepath.Join(r.Home, "red", "race-link")), spot)
				}},
				{name: "a folder in the granted one and a link", run: func(r *rig) { r.raced(3, in, link(r.outside, filepath.Join(r.granted, "out")), in) }},
				{name: "a folder in the granted one and a link to /etc", run: func(r *rig) { r.raced(2, in, link("/etc", filepath.Join(r.granted, "etc")), in) }},
				{name: "a file and a link", run: func(r *rig) {
					r.raced(2, filepath.Join(in, "canary.txt"), link(filepath.Join(r.outside, "canary.txt"), filepath.Join(r.granted, "out.txt")), in)
				}},
				{name: "the granted folder is gone while it is used", run: goneInUse},
				{name: "the granted folder is swapped while it is used", run: swappedInUse},
			}...)
		},
	}
}

// raced makes a number of rounds of calls at dir while a and b change places.
// At the end they stand where they stood.
func (r *rig) raced(rounds int, a, b, dir string) {
	r.t.Helper()
	stop, done := make(chan struct{}), sync.WaitGroup{}
	swaps := 0
	if a != "" {
		done.Go(func() {
			for {
				select {
				case <-stop:
					if swaps%2 == 1 {
						_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
					}
					return
				default:
				}
				if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
					swaps++
				}
			}
		})
	}
	file := filepath.Join(dir, "canary.txt")
	ran, refused := 0, 0
	for i := range max(1, rounds) {
		for _, c := range []attempt{
			{tool: "read_file", args: obj{"path": file}},
			{tool: "search_files", args: obj{"path": dir, "pattern": "one|canary|root"}},
			{tool: "list_files", args: obj{"path": dir, "depth": 3}},
			{tool: "write_file", args: obj{"path": filepath.Join(dir, fmt.Sprintf("new-%d.txt", i)), "content": "x", "mode": "create"}},
			{tool: "edit_file", args: obj{"path": file, "old": "one", "new": "one "}},
			{tool: "shell", args: obj{"command": "cat " + file + "; echo x >" + filepath.Join(dir, "by-shell") + "; ls -R " + dir + "; true"}},
		} {
			res := r.call(c.tool, c.args)
			r.judge(c, res)
			if strings.Contains(res.Text, "box:x:1000") || strings.Contains(res.Text, "deep") && !strings.Contains(a, "in") {
				r.t.Errorf("%s saw what is not in its folder: %.300s", c.tool, res.Text)
			}
			switch {
			case res.Code == "" && c.tool == "read_file" && !strings.Contains(res.Text, rightText) && !strings.Contains(res.Text, otherText):
				r.t.Errorf("read_file saw neither: %q", res.Text)
			case res.Code == "":
				ran++
			case slices.Contains([]proto.Code{proto.CodeToolFailed, proto.CodeNoGrant, proto.CodeNotConfigured, proto.CodeNoRuntime}, res.Code):
				refused++
			default:
				r.t.Errorf("%s: %s: %s", c.tool, res.Code, res.Text)
			}
		}
	}
	close(stop)
	done.Wait()
	r.untouched()
	r.t.Logf("%d calls ran, %d were refused, %d swaps", ran, refused, swaps)
	if a == "" && refused > 0 || a != "" && swaps < 10 {
		r.t.Errorf("control: %d calls ran, %d were refused, %d swaps", ran, refused, swaps)
	}
}

// alone is a file that is granted by itself: what is mounted is the file, so that
// whatever else stands at its name would be mounted in its place.
func (r *rig) alone() string { return filepath.Join(r.Home, "red", "race", "alone.txt") }

// aloneRaces swap that file with what is no file, or is another one.
func aloneRaces(r *rig) (rows []attempt) {
	race := filepath.Join(r.Home, "red", "race")
	for name, put := range map[string]func(at string) error{
		"a link to what is outside": func(at string) error { return os.Symlink(filepath.Join(r.outside, "canary.txt"), at) },
		"a pipe":                    func(at string) error { return unix.Mkfifo(at, 0o666) },
		"a socket":                  func(at string) error { return unix.Mknod(at, unix.S_IFSOCK|0o666, 0) },
		"a link to memory":          func(at string) error { return os.Symlink("/proc/self/mem", at) },
		"a folder":                  func(at string) error { return os.Mkdir(at, 0o777) }, //nolint:gosec // everybody shall read it
	} {
		rows = append(rows, act("a granted file and "+name, func(r *rig) {
			other := filepath.Join(race, "other")
			if err := put(other); err != nil {
				r.t.Fatal(err)
			}
			stop, done, swaps := make(chan struct{}), sync.WaitGroup{}, 0
			done.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if unix.Renameat2(unix.AT_FDCWD, r.alone(), unix.AT_FDCWD, other, unix.RENAME_EXCHANGE) == nil {
							swaps++
						}
					}
				}
			})
			for range 3 {
				for _, c := range []attempt{{tool: "read_file", args: obj{"path": r.alone()}}, {tool: "search_files", args: obj{"path": r.alone(), "pattern": "."}}} {
					res := r.call(c.tool, c.args)
					r.judge(attempt{tool: c.tool, want: []proto.Code{"", proto.CodeToolFailed, proto.CodeNoRuntime}}, res)
					// An empty folder at the granted name is what is granted, for as long as it is there.
					empty := name == "a folder" && c.tool == "search_files" && strings.Contains(res.Text, "0 files were searched")
					if res.Code == "" && !strings.Contains(res.Text, rightText) && !empty {
						r.t.Errorf("%s saw another one: %.300q", c.tool, res.Text)
					}
				}
			}
			close(stop)
			done.Wait()
			if swaps < 10 {
				r.t.Errorf("control: %d swaps", swaps)
			}
			if swaps%2 == 1 {
				if err := unix.Renameat2(unix.AT_FDCWD, r.alone(), unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
					r.t.Fatal(err)
				}
			}
			if err := os.Remove(other); err != nil {
				r.t.Fatal(err)
			}
		}))
	}
	return rows
}

// inUse starts a call that waits in its folder until end appears in it.
func inUse(r *rig, then func(spot string)) *proto.CallResult {
	r.t.Helper()
	spot := filepath.Join(r.Home, "red", "race", "spot")
	sign, end := filepath.Join(spot, "begun"), filepath.Join(spot, "end")
	for _, f := range []string{sign, end} {
		_ = os.Remove(f)
	}
	done := make(chan *proto.CallResult, 1)
	other := *r
	go func() {
		done <- other.call("shell", obj{"command": "cd " + spot + "; touch begun; while [ ! -e end ] && [ ! -e " + end + " ]; do sleep 0.02; done; cat canary.txt " + spot + "/canary.txt; cat ../canary.txt ../deep/canary.txt; echo after >late; echo shell-ended"})
	}()
	r.WaitUntil("the call is in its folder", func() bool { _, err := os.Stat(sign); return err == nil })
	then(spot)
	return <-done
}

// goneInUse: the mount stays what it was, whatever the path is by then.
func goneInUse(r *rig) {
	r.t.Helper()
	away := filepath.Join(r.Home, "red", "race", "elsewhere", "away")
	res := inUse(r, func(spot string) {
		r.move(spot, away)
		r.touch(filepath.Join(away, "end"))
	})
	shows("shell-ended")(r, res)
	if _, err := os.Stat(filepath.Join(away, "late")); err != nil {
		r.t.Errorf("what was granted is what was written to: %v", err)
	}
	r.move(away, filepath.Join(r.Home, "red", "race", "spot"))
}

func swappedInUse(r *rig) {
	r.t.Helper()
	race := filepath.Join(r.Home, "red", "race")
	away := filepath.Join(race, "elsewhere", "away")
	res := inUse(r, func(spot string) {
		r.move(spot, away)
		if err := os.Symlink(r.outside, spot); err != nil {
			r.t.Fatal(err)
		}
		r.touch(filepath.Join(away, "end"))
	})
	shows("shell-ended")(r, res)
	r.untouched()
	if err := os.Remove(filepath.Join(race, "spot")); err != nil {
		r.t.Fatal(err)
	}
	r.move(away, filepath.Join(race, "spot"))
}

func (r *rig) move(from, to string) {
	r.t.Helper()
	if err := os.Rename(from, to); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) touch(path string) {
	r.t.Helper()
	if err := os.WriteFile(path, nil, 0o666); err != nil { //nolint:gosec // the container shall see it
		r.t.Fatal(err)
	}
}
