package redteam

import (
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"
)

// otherSecret is one that a grant hands to one shell, on descriptor 3.
const otherSecret = "other-7d41c9e2b8f6-secret"

func procTricks() family {
	return family{
		name: "proc and descriptor tricks",
		stage: func(r *rig) {
			armed(r)
			r.Must(otherSecret+"\n", "secret", "set", "other")
			r.grant("30-run-with-secret", runGrant(r.granted)+"[args.argv]\nfirst = [\"/bin/sh\"]\n[secrets]\nnames = [\"other\"]\n")
		},
		tries: func(r *rig) []attempt {
			closed := []string{"EACCES", "EPERM", "ENOENT", "EROFS", "ENOTDIR"}
			open := func(name, how string, paths ...string) attempt {
				return r.attack(name, says(closed, paths...), append([]string{"open", how}, paths...)...)
			}
			in := func(dir string, names ...string) (out []string) {
				for _, n := range names {
					out = append(out, dir+n)
				}
				return out
			}
			rows := []attempt{
				r.attack("control: its own are open", says([]string{"ok"}, "/proc/self/environ", "/proc/self/root", "/proc/self/exe", r.granted+"/note.txt"),
					"open", "r", "/proc/self/environ", "/proc/self/root", "/proc/self/exe", r.granted+"/note.txt"),
				r.attack("control: what is granted is written to", says([]string{"ok"}, r.granted+"/note.txt"), "open", "w", r.granted+"/note.txt"),
			}
			for _, n := range []string{"root", "cwd", "exe", "environ", "mem", "maps", "smaps", "auxv", "stack", "syscall", "io", "fd", "fdinfo", "map_files", "ns/mnt", "ns/user", "ns/pid", "ns/net", "pagemap", "timers"} {
				rows = append(rows, open("process 1: "+n, "r", "/proc/1/"+n))
			}
			rows = append(rows,
				open("process 1: its descriptors", "r", in("/proc/1/fd/", "0", "1", "2", "3", "4", "5", "6")...),
				open("process 1: written to", "w", in("/proc/1/", "mem", "fd/1", "fd/0", "clear_refs", "oom_score_adj", "coredump_filter", "uid_map", "gid_map", "setgroups", "comm", "attr/current", "attr/exec", "timens_offsets")...),
				open("threads of process 1", "r", in("/proc/1/task/1/", "mem", "environ", "root", "fd", "cwd")...),
				open("its own identity", "w", in("/proc/self/", "uid_map", "gid_map", "setgroups")...),
				open("switches of the machine", "w", in("/proc/sys/", "kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname", "kernel/sysrq", "kernel/yama/ptrace_scope", "vm/overcommit_memory", "vm/drop_caches",
					"fs/binfmt_misc/register", "fs/protected_symlinks", "net/ipv4/ip_forward", "net/ipv4/ping_group_range", "user/max_user_namespaces")...),
				open("system request", "w", "/proc/sysrq-trigger"),
				open("interrupts and buses", "w", "/proc/irq/0/smp_affinity", "/proc/irq/default_smp_affinity", "/proc/bus/pci/devices"),
				open("memory of the kernel", "r", "/proc/kcore/x", "/proc/kmsg", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kpagecount", "/proc/kpageflags", "/proc/vmallocinfo", "/proc/slabinfo"),
				open("devices", "r", "/dev/sda", "/dev/vda", "/dev/loop0", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/mapper/control", "/dev/userfaultfd", "/dev/vhost-vsock", "/dev/vsock", "/dev/autofs", "/dev/snd", "/dev/dri", "/dev/input", "/dev/kmsg", "/dev/watchdog", "/dev/uinput"),
				open("control groups", "r", "/sys/fs/cgroup", "/sys/kernel", "/sys/firmware", "/sys/class"),
				open("what is mounted read-only", "w", "/tool", "/usr/bin/id", "/bin/sh", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/usr/lib/os-release"),
				open("files of Boxmaker", "r", r.Layout.Grants, r.Layout.Audit, r.Layout.Secrets, r.Layout.Keys, r.Layout.Run, filepath.Join(r.Home, "up.out")),
				sh("the home of Boxmaker", "ls -a "+r.Home+" "+r.Home+"/red", lacks("grants", "keys", "secrets", "run\n", "outside", "up.out")),
				open("the machine's own files", "r", "/etc/shadow", "/etc/ssh", "/root", "/home", "/var", "/boot", "/opt/x", "/run/dbus", "/run/systemd", "/mnt", "/etc/machine-id"),
				sh("masked files are empty", "for f in /proc/kcore /proc/keys /proc/kallsyms /proc/timer_list /proc/modules /proc/interrupts; do head -c 100 $f | tr -d '\\0' | head -c 1 | grep -q . && echo has $f; done", lacks("has /proc")),
				sh("mounts are opened anew for writing", "exec 5</usr/bin/id 6</tool 7</etc/passwd; for n in 5 6 7; do echo x >/proc/self/fd/$n && echo wrote $n; echo x >>/dev/fd/$n && echo wrote $n; done; true", all(lacks("wrote "), shows("Read-only file system"))),
				sh("the toolkit's own program is overwritten", "cp /usr/bin/id /tool; ln -sf /tmp/x /tool; mv /tool /tmp/t; echo x >/proc/1/exe; cat /dev/null >/tool; rm /tool; ls -l /tool", all(shows("Read-only file system"), shows(" /tool"))),
				sh("the toolkit is run as a program of one's own", "/tool read_file </dev/null; /tool probe; echo '{}' | /tool -check /etc=1:1 shell; true", lacks("canary-")),
				sh("by the root of another process", "for p in /proc/[0-9]*; do cat $p/root"+r.outside+"/canary.txt; cat $p/cwd/../outside/canary.txt; done; true", nil),
				sh("up from the folder", "cd "+r.granted+"; cat ../outside/canary.txt; ls ..; cd ..; cat outside/canary.txt; ls -la /proc/self/cwd/", lacks("up.out", "outside\n")),
				sh("a granted folder moved away", "mv "+r.granted+" /tmp/g; rmdir "+r.granted+"; mv "+r.granted+"/.. /tmp; true", stillThere),
				sh("what the environment says", "env; cat /proc/self/environ | tr '\\0' '\\n'", lacks("BOXMAKER", "NOTIFY_SOCKET", "LISTEN_FDS", "XDG_", "bundles", r.Layout.Secrets)),
				r.attack("descriptors that leaked", lacks("descriptor "), "fds"),
				sh("descriptor 3 without a grant for it", "cat <&3 && echo read; cat /proc/1/fd/3 && echo read; true", all(lacks("read\n"), noSecret)),
				sh("others in the list of processes", "ls -d /proc/[0-9]* | wc -l; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", lacks("crun", "runnerd", "brokerd", "bxctl", "systemd ")),
				attempt{name: "descriptor 3 of another call", run: secretOfAnotherCall},
			)
			return rows
		},
	}
}

func noSecret(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if strings.Contains(res.Text, otherSecret) || strings.Contains(res.Text, "[secret ") {
		r.t.Errorf("a secret is in the result: %s", res.Text)
	}
}

func stillThere(r *rig, res *proto.CallResult) {
	r.t.Helper()
	if _, err := os.Stat(filepath.Join(r.granted, "note.txt")); err != nil {
		r.t.Errorf("%v; %s", err, res.Text)
	}
}

// secretOfAnotherCall: one call holds a secret and waits; another one, which is
// granted none, looks for it in every place that it can see.
func secretOfAnotherCall(r *rig) {
	r.t.Helper()
	sign, end := filepath.Join(r.granted, "holds"), filepath.Join(r.granted, "end")
	done := make(chan *proto.CallResult, 1)
	other := *r
	go func() {
		done <- other.call("run", obj{"argv": []string{"/bin/sh", "-c", "cat <&3 >/tmp/s; grep -c " + otherSecret[:8] + " /tmp/s; exec 4</tmp/s; S=$(cat /tmp/s) sh -c 'touch " + sign + "; while [ ! -e " + end + " ]; do sleep 0.02; done'"}})
	}()
	r.WaitUntil("the other call has read its secret", func() bool { _, err := os.Stat(sign); return err == nil })
	r.try(sh("", "for f in /proc/[0-9]*/environ /proc/[0-9]*/fd/[3-9] /proc/[0-9]*/root/tmp/s /tmp/s /dev/shm/* /dev/mqueue/* /run/*; do timeout 0.2 cat $f; done; ls /tmp /dev/shm; ls -d /proc/[0-9]*; true", func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		noSecret(r, res)
		if strings.Contains(res.Text, "\ns\n") {
			r.t.Errorf("two calls share /tmp: %s", res.Text)
		}
	}))
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if res := <-done; res.Code != "" || !strings.Contains(res.Text, "---\n1") || strings.Contains(res.Text, otherSecret) {
		r.t.Errorf("control: the call that is granted the secret has it: %+v", res)
	}
}
