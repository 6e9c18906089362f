package redteam

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// Limits of the grants of the family.
const (
	floodMemory = 64 // MiB
	floodPIDs   = 64
)

// floods: what a call takes is bounded, and what is not bounded here is said in
// docs/threat-model.md.
func floods() family {
	return family{
		name: "fork bombs, memory and disk filling",
		stage: func(r *rig) {
			armed(r)
			limited := func(name, more string) {
				dir := r.folder(name)
				r.grant("20-"+name, fmt.Sprintf("tool = \"run\"\nmode = \"auto\"\n[args.argv]\nfirst = [%q, %q]\n[paths]\nwrite = [%q, %q]\n[limits]\n%s\n", "/usr/bin/env", "KIND="+name, r.granted, dir, more))
			}
			limited("memory", fmt.Sprintf("time = \"20s\"\nmemory = \"%dMiB\"", floodMemory))
			limited("pids", fmt.Sprintf("time = \"20s\"\npids = %d", floodPIDs))
			limited("time", "time = \"1s\"")
		},
		tries: func(r *rig) []attempt {
			can := r.limits()
			under := func(kind, name string, check func(r *rig, res *proto.CallResult), args ...string) attempt {
				a := attempt{name: name, tool: "run", args: obj{"argv": append([]string{"/usr/bin/env", "KIND=" + kind, r.attacker()}, args...)}, check: check}
				if !can[kind] && kind != "time" { // a granted limit that cannot be enforced: nothing runs
					a.want, a.check = []proto.Code{proto.CodeLimitNotEnforceable}, lacks("attacker ran")
				}
				return a
			}
			var rows []attempt
			for _, kind := range []string{"heap", "tmpfs", "shm", "memfd"} {
				rows = append(rows, under("memory", "memory: "+kind, notAll(floodMemory), "eat", kind, "400"))
			}
			rows = append(rows,
				under("memory", "control: a little memory", all(shows("attacker ran"), says([]string{"8"}, "got")), "eat", "heap", "8"),
				under("pids", "a fork bomb", fewForks, "fork", "5000"),
				under("pids", "control: a few processes", says([]string{"10"}, "forked"), "fork", "10"),
				sh("a fork bomb with the limits of runnerd", "f() { :; }; i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); done; true", nil),
				under("time", "time", timedOut, "leave", "deaf", r.mark("time"), filepath.Join(r.granted, "time")),
				attempt{name: "time: a loop", tool: "run", args: obj{"argv": []string{"/usr/bin/env", "KIND=time", "/bin/sh", "-c", "trap '' TERM; while :; do :; done"}}, check: timedOut},
				attempt{name: "time: asleep", tool: "run", args: obj{"argv": []string{"/usr/bin/env", "KIND=time", "/bin/sleep", "1000"}}, check: timedOut},
				attempt{name: "time: stopped", tool: "run", args: obj{"argv": []string{"/usr/bin/env", "KIND=time", "/bin/sh", "-c", "kill -STOP $$; echo went on"}}, check: all(timedOut, lacks("went on"))},
				sh("/tmp is full at its size", "dd if=/dev/zero of=/tmp/full bs=1M count=400 2>&1; stat -c %s /tmp/full; df -k /tmp | tail -1", tmpBounded),
				sh("/dev/shm is full at its size", "dd if=/dev/zero of=/dev/shm/full bs=1M count=100 2>&1 | grep -c 'No space left'", shows("---\n1\n")),
				sh("/run and /dev are small", "dd if=/dev/zero of=/run/full bs=1k count=200 2>&1 | grep -cE 'No space|denied|Read-only'; dd if=/dev/zero of=/dev/full2 bs=1k count=200 2>&1 | grep -cE 'No space|denied|Read-only'", shows("---\n1\n1\n")),
				sh("names without end in /tmp", "perl -e 'mkdir q(/tmp/n); for ($i=0;$i<200000;$i++) { open(my $f, q(>), qq(/tmp/n/$i)) or last } print qq(made $i\\n)'", fewNames),
				sh("a file of more than a gibibyte", "truncate -s 1073741825 "+r.granted+"/huge; echo status $?; ls "+r.granted+"/huge; dd if=/dev/zero of="+r.granted+"/huge bs=1 count=1 seek=2000000000; echo status $?", noHuge),
				sh("a thousand descriptors", "perl -e 'my @f; for ($i=0;$i<5000;$i++) { open($f[$i], q(<), q(/dev/null)) or last } print qq(opened $i\\n)'", fewFiles),
				sh("folders without end", "perl -e 'chdir shift; for ($i=0;$i<2000;$i++) { mkdir q(d) or last; chdir q(d) or last } print qq(deep $i\\n)' "+r.granted, shows("deep 2000")),
				attempt{name: "the deep folder is listed", tool: "shell", args: obj{"command": "find " + r.granted + " | wc -l"}, want: []proto.Code{""}},
				sh("and removed", "rm -rf "+r.granted+"/d "+r.granted+"/huge; ls "+r.granted, lacks("d\n---")),
			)
			return append(rows, readFloods(r)...)
		},
	}
}

// readFloods are files that a reader may not take into memory as a whole.
func readFloods(r *rig) []attempt {
	path := filepath.Join(r.granted, "sparse")
	f, err := os.Create(path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 40); err != nil { // which takes no room
		r.t.Fatal(err)
	}
	r.own(path, 0o666)
	r.t.Cleanup(func() { os.Remove(path) })
	return []attempt{
		{name: "a sparse file of a tebibyte is printed", tool: "run", args: obj{"argv": []string{"/usr/bin/env", "KIND=time", "/bin/cat", path}}, want: []proto.Code{proto.CodeToolTimeout, proto.CodeTooLarge}, check: short},
		{name: "a sparse file is copied", tool: "shell", args: obj{"command": "cp --sparse=never " + path + " /tmp/copy; cp --sparse=never " + path + " " + r.granted + "/copy; stat -c %s " + r.granted + "/copy /tmp/copy; rm " + r.granted + "/copy"}, check: all(short, noCopy)},
	}
}

func noCopy(r *rig, res *proto.CallResult) {
	r.t.Helper()
	for line := range strings.Lines(res.Text) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && n > 1<<30 {
			r.t.Errorf("a file of %d bytes", n)
		}
	}
	_ = os.Remove(filepath.Join(r.granted, "copy"))
}

func short(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if len(res.Text) > 1<<20 {
		r.t.Errorf("a result of %d bytes", len(res.Text))
	}
}

// limits says which can be enforced here.
func (r *rig) limits() map[string]bool {
	r.t.Helper()
	can := map[string]bool{}
	for _, c := range r.WaitTools().Checks {
		for _, kind := range []string{"memory", "pids"} {
			if strings.HasSuffix(c.Name, kind+" limit") && c.State == "ok" {
				can[kind] = true
			}
		}
	}
	return can
}

// mark is a word by which a process of this installation is found.
func (r *rig) mark(name string) string { return name + "-" + filepath.Base(r.Home) }

// notAll: it got less than its limit, and the call says that it was ended, or
// the attacker was told that there is no more.
func notAll(limit int) func(r *rig, res *proto.CallResult) {
	return func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		if word, ok := said(res, "got"); ok {
			if n, err := strconv.Atoi(word); err != nil || n > limit {
				r.t.Errorf("it got %s MiB of %d", word, limit)
			}
			return
		}
		if res.Code != proto.CodeTooLarge && res.Code != proto.CodeToolFailed && !strings.Contains(res.Text, "killed") {
			r.t.Errorf("%q: %s", res.Code, res.Text)
		}
	}
}

func fewForks(r *rig, res *proto.CallResult) {
	r.t.Helper()
	word, _ := said(res, "forked")
	if n, err := strconv.Atoi(word); err != nil || n > floodPIDs+16 || n < 8 {
		r.t.Errorf("%q processes: %s", word, res.Text)
	}
	if n := alive(r.attacker() + "\x00fork"); n != 0 {
		r.t.Errorf("%d live on", n)
	}
}

func timedOut(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if res.Code != proto.CodeToolTimeout && !strings.Contains(res.Text, "attacker ran") {
		r.t.Errorf("%q: %s", res.Code, res.Text)
	}
	if n := alive("KIND=time"); n != 0 {
		r.t.Errorf("%d live on", n)
	}
}

func tmpBounded(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if !strings.Contains(res.Text, "No space left") && !strings.Contains(res.Text, "Killed") && res.Code == "" {
		r.t.Errorf("nothing ended it: %s", res.Text)
	}
	for line := range strings.Lines(res.Text) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && n > 256<<20 {
			r.t.Errorf("%d bytes in /tmp", n)
		}
	}
}

func fewNames(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if n := after(res, "made "); n < 1000 || n > 70_000 {
		r.t.Errorf("%d names: %s", n, res.Text)
	}
}

func fewFiles(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if n := after(res, "opened "); n < 100 || n > 1024 {
		r.t.Errorf("%d descriptors: %s", n, res.Text)
	}
}

// after gives the number behind a word, or -1.
func after(res *proto.CallResult, word string) int {
	_, rest, ok := strings.Cut(res.Text, word)
	f := strings.Fields(rest)
	if !ok || len(f) == 0 {
		return -1
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return -1
	}
	return n
}

func noHuge(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if strings.Contains(res.Text, "status 0") {
		r.t.Errorf("the file could grow: %s", res.Text)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(r.granted, "huge"), &st); err == nil && st.Size > 1<<30 {
		r.t.Errorf("%d bytes", st.Size)
	}
	if !slices.Contains([]proto.Code{""}, res.Code) {
		r.t.Error(res.Code)
	}
}
