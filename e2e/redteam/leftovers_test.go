package redteam

import (
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"
)

// leftovers: a call's processes end with it, and reach no process but their own.
func leftovers() family {
	return family{
		name: "signals to the parent, leftover processes",
		stage: func(r *rig) {
			r.arm()
			r.grant("30-short", strings.Replace(runGrant(r.granted), "20s", "2s", 1)+"[args.argv]\nfirst = [\"/usr/bin/env\"]\n")
			r.grant("40-shell", shellGrant(r.granted))
			r.grant("41-run", runGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			var rows []attempt
			for _, how := range []string{"orphan", "daemon", "deaf", "pipes", "many"} {
				mark, file := r.mark(how), filepath.Join(r.granted, how)
				rows = append(rows, r.attack("left: "+how, all(says([]string{"ok"}, "leave"), dead(how+mark, file)), "leave", how, mark, file))
			}
			short := filepath.Join(r.granted, "short")
			rows = append(rows,
				attempt{
					name: "left by a call that is out of time", tool: "run",
					args: obj{"argv": []string{"/usr/bin/env", "sh", "-c", "trap '' TERM; " + r.attacker() + " leave daemon " + r.mark("short") + " " + short + "; while :; do sleep 1; done"}},
					want: []proto.Code{proto.CodeToolTimeout}, check: dead("daemon"+r.mark("short"), short),
				},
				sh("by the shell", "(setsid sh -c 'while :; do echo alive >>"+r.granted+"/by-shell; sleep 0.01; done' >/dev/null 2>&1 &); nohup sh -c 'trap \"\" TERM HUP; while :; do sleep 0.01; echo alive >>"+r.granted+
					"/by-shell; done' >/dev/null 2>&1 & while [ ! -s "+r.granted+"/by-shell ]; do sleep 0.01; done", dead("/by-shell; ", filepath.Join(r.granted, "by-shell"))),
				sh("that hold its pipes", "sleep 1000 & (sleep 1000 &) ; disown 2>/dev/null", dead("sleep\x001000", "")),
				sh("that wait for a lock", "exec 9>"+r.granted+"/lock; flock 9; (sleep 1001 &)", dead("sleep\x001001", "")),
				sh("a programmed restart", "echo '* * * * * touch "+r.granted+"/late' | crontab -; echo touch "+r.granted+"/late | at now; systemd-run touch "+r.granted+"/late; true", absent(filepath.Join(r.granted, "late"))),
				r.attack("every signal to process 1", says([]string{"ok"}, "after the signals"), "signals"),
				sh("to process 1, one by one", "for s in KILL STOP INT HUP QUIT SEGV ABRT TRAP USR1 USR2 PIPE ALRM CHLD CONT TSTP TTIN TTOU URG PROF WINCH SYS; do kill -$s 1; done; sleep 0.1; echo went on", shows("went on")),
				attempt{name: "a request to end, to process 1", tool: "shell", args: obj{"command": "kill -TERM 1; sleep 1000"}, want: []proto.Code{proto.CodeToolTimeout, ""}, check: dead("sleep\x001000", "")},
				attempt{name: "all that it can reach", tool: "shell", args: obj{"command": "kill -KILL -1; echo after"}, want: []proto.Code{""}},
				sh("processes of the machine", "for p in "+pids(r)+"; do kill -KILL $p && echo hit $p; kill -STOP $p; kill -0 -$p && echo hit $p; done; true", all(lacks("hit "), lives)),
				sh("by the number that the machine gives it", "kill -KILL "+self()+" && echo hit; true", lacks("hit")),
				sh("the owner of a descriptor", "perl -e 'open(F,q(<),q(/dev/null)); fcntl(F,8,1); print fcntl(F,8,"+self()+") ? qq(hit\\n) : qq(no\\n)'", nil),
				sh("its own kind", "renice -20 -p $$; ionice -c 1 -p $$; chrt -f 99 true && echo real-time; ulimit -n 100000 && echo more; ulimit -f unlimited && echo more; true", lacks("real-time", "more")),
			)
			return append(rows, attempt{name: "control: what lives is found", run: func(r *rig) {
				if n := alive(r.Home); n == 0 {
					r.t.Error("the daemons of this home were not found")
				}
			}})
		},
	}
}

// dead: when the answer is there no such process is, and the file that it wrote
// to was written to.
func dead(word, file string) func(r *rig, res *proto.CallResult) {
	return func(r *rig, _ *proto.CallResult) {
		r.t.Helper()
		if n := alive(word); n != 0 {
			r.t.Errorf("%d processes live on after their call", n)
		}
		if file == "" {
			return
		}
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			r.t.Errorf("control: what was left behind has written: %v", err)
		}
	}
}

func absent(path string) func(r *rig, res *proto.CallResult) {
	return func(r *rig, _ *proto.CallResult) {
		r.t.Helper()
		if _, err := os.Lstat(path); err == nil {
			r.t.Errorf("%s has come up", path)
		}
	}
}

// pids are those of this installation, by the numbers of the machine.
func pids(r *rig) string {
	var out []string
	for _, program := range []string{"bxctl", "brokerd", "runnerd", "egressd", "loopd"} {
		if pid := r.PID(program); pid != 0 {
			out = append(out, itoa(pid))
		}
	}
	return strings.Join(out, " ")
}

func self() string { return itoa(os.Getpid()) }

func lives(r *rig, _ *proto.CallResult) {
	r.t.Helper()
	for _, program := range []string{"bxctl", "brokerd", "runnerd", "egressd", "loopd"} {
		if r.PID(program) == 0 {
			r.t.Errorf("%s is gone", program)
		}
	}
}
