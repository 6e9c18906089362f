package redteam

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"boxmaker/internal/proto"
)

// codes that are right for a path that no grant covers, and for one that is
// covered by its name and leads elsewhere.
var (
	noGrant   = []proto.Code{proto.CodeNoGrant}
	refusedIn = []proto.Code{proto.CodeToolFailed, proto.CodeInvalidArguments}
	denied    = []proto.Code{proto.CodeNoGrant, proto.CodeInvalidArguments}
)

// fileGrants let every file tool work in the granted folder.
func fileGrants(r *rig) {
	for i, t := range []string{"list_files", "read_file", "search_files"} {
		r.grant(fmt.Sprintf("1%d-%s", i, strings.ReplaceAll(t, "_", "-")), fmt.Sprintf("tool = %q\nmode = \"auto\"\n[paths]\nread = [%q]\n", t, r.granted))
	}
	for i, t := range []string{"write_file", "edit_file"} {
		r.grant(fmt.Sprintf("2%d-%s", i, strings.ReplaceAll(t, "_", "-")), fmt.Sprintf("tool = %q\nmode = \"auto\"\n[paths]\nwrite = [%q]\n", t, r.granted))
	}
}

// onEach makes an attempt of every file tool at a path.
func onEach(rows []attempt, name, path string, want []proto.Code) []attempt {
	return append(rows,
		attempt{name: name + ", read", tool: "read_file", args: obj{"path": path}, want: want},
		attempt{name: name + ", list", tool: "list_files", args: obj{"path": path, "depth": 5}, want: want},
		attempt{name: name + ", search", tool: "search_files", args: obj{"path": path, "pattern": "canary"}, want: want},
		attempt{name: name + ", write", tool: "write_file", args: obj{"path": path, "content": "owned", "mode": "overwrite"}, want: want},
		attempt{name: name + ", edit", tool: "edit_file", args: obj{"path": path, "old": "canary", "new": "owned"}, want: want},
	)
}

func pathTraversal() family {
	return family{
		name: "path traversal", stage: fileGrants,
		tries: func(r *rig) []attempt {
			var rows []attempt
			for name, path := range map[string]string{
				"straight":                    filepath.Join(r.outside, "canary.txt"),
				"up and over":                 r.granted + "/../outside/canary.txt",
				"up from a file":              r.granted + "/note.txt/../../outside/canary.txt",
				"up from what is not there":   r.granted + "/none/../../outside/canary.txt",
				"many ups":                    r.granted + strings.Repeat("/..", 40) + r.outside + "/canary.txt",
				"dots and slashes":            r.granted + "/.//..///./outside/canary.txt",
				"two slashes first":           "/" + r.outside + "/canary.txt",
				"a name that begins the same": r.granted + "-not/canary.txt",
				"the folder above":            filepath.Dir(r.granted),
			} {
				rows = onEach(rows, name, path, noGrant)
			}
			for name, path := range map[string]string{
				"relative": "outside/canary.txt", "relative and up": "../outside/canary.txt", "home": "~/canary.txt",
				"a variable": "$HOME/canary.txt", "a file address": "file://" + r.outside + "/canary.txt",
				"percent signs": "%2e%2e/outside/canary.txt", "backslashes": `..\outside\canary.txt`, "a drive": `C:\canary.txt`,
			} {
				rows = append(rows, attempt{name: name, tool: "read_file", args: obj{"path": path}, want: denied})
			}
			rows = onEach(rows, "the root", "/", denied)
			rows = append(rows,
				attempt{name: "percent signs in the middle", tool: "read_file", args: obj{"path": r.granted + "/%2e%2e/outside/canary.txt"}, want: refusedIn},
				attempt{name: "backslashes in the middle", tool: "read_file", args: obj{"path": r.granted + `\..\outside\canary.txt`}, want: denied},
				attempt{name: "a pattern in the path", tool: "read_file", args: obj{"path": r.granted + "/../*/canary.txt"}, want: noGrant},
				attempt{name: "a pattern for names that goes up", tool: "search_files", args: obj{"path": r.granted, "pattern": "canary", "name": "../outside/*"}},
			)
			return rows
		},
	}
}

// links are made by the owner, or by another program of the owner: they lie in
// the granted folder and lead out of it.
func symbolicLinks() family {
	return family{
		name: "symbolic links",
		stage: func(r *rig) {
			fileGrants(r)
			link := func(to, name string) {
				if err := os.Symlink(to, filepath.Join(r.granted, name)); err != nil {
					r.t.Fatal(err)
				}
			}
			link(filepath.Join(r.outside, "canary.txt"), "to-file")
			link("../outside/canary.txt", "to-file-relative")
			link(r.outside, "to-folder")
			link("../outside", "to-folder-relative")
			link(filepath.Join(r.outside, "new.txt"), "dangling")
			link("../outside/new-2.txt", "dangling-relative")
			link("to-file", "to-link")
			link("loop", "loop")
			link("/proc/self/root"+r.outside, "by-proc")
			link("/", "to-root")
			if err := os.Symlink(r.outside, filepath.Join(r.Home, "red", "granted-link")); err != nil {
				r.t.Fatal(err)
			}
			r.grant("30-link", readGrant(filepath.Join(r.Home, "red", "granted-link")))
		},
		tries: func(r *rig) []attempt {
			var rows []attempt
			for _, name := range []string{
				"to-file", "to-file-relative", "to-link", "loop", "by-proc" + "/canary.txt", "to-folder/canary.txt", "to-folder-relative/canary.txt",
				"to-folder/deep/canary.txt", "to-root" + r.outside + "/canary.txt",
			} {
				rows = onEach(rows, name, filepath.Join(r.granted, name), refusedIn)
			}
			for _, name := range []string{"dangling", "dangling-relative", "to-folder/new.txt"} {
				for _, mode := range []string{"create", "overwrite"} {
					rows = append(rows, attempt{name: name + " " + mode, tool: "write_file", args: obj{"path": filepath.Join(r.granted, name), "content": "owned", "mode": mode}, want: refusedIn})
				}
			}
			for _, name := range []string{"to-folder", "to-root", "to-folder-relative"} {
				rows = append(rows,
					attempt{name: name + " listed", tool: "list_files", args: obj{"path": filepath.Join(r.granted, name)}, want: refusedIn},
					attempt{name: name + " searched", tool: "search_files", args: obj{"path": filepath.Join(r.granted, name), "pattern": "canary"}, want: refusedIn},
				)
			}
			return append(rows,
				attempt{name: "a search of all", tool: "search_files", args: obj{"path": r.granted, "pattern": "canary"}},
				attempt{name: "a list of all", tool: "list_files", args: obj{"path": r.granted, "depth": 20}},
				attempt{name: "a granted path that is itself a link", tool: "read_file", args: obj{"path": filepath.Join(r.Home, "red", "granted-link", "canary.txt")}, want: []proto.Code{proto.CodeToolFailed, proto.CodeNoGrant}},
			)
		},
	}
}

// plantedLinks: a granted tool makes the link, and another one follows it.
func plantedLinks() family {
	return family{
		name: "links planted by a granted call",
		stage: func(r *rig) {
			fileGrants(r)
			r.grant("40-shell", shellGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			var rows []attempt
			for i, to := range []string{r.outside, r.outside + "/canary.txt", "../outside/canary.txt", "/proc/1/root" + r.outside, "/etc/passwd", "/etc", "/run", "/proc/self/fd/0", "/dev/zero"} {
				name := fmt.Sprintf("planted-%d", i)
				path := filepath.Join(r.granted, name)
				rows = append(rows, attempt{name: "plant " + to, tool: "shell", args: obj{"command": "ln -s " + to + " " + path}})
				rows = onEach(rows, "follow "+to, path, refusedIn)
			}
			return append(rows,
				attempt{name: "plant a folder's name", tool: "shell", args: obj{"command": "mkdir " + r.granted + "/a && mv " + r.granted + "/a " + r.granted + "/b && ln -s " + r.outside + " " + r.granted + "/a"}},
				attempt{name: "write through it", tool: "write_file", args: obj{"path": r.granted + "/a/new.txt", "content": "owned"}, want: refusedIn},
				attempt{name: "write with a new folder in it", tool: "write_file", args: obj{"path": r.granted + "/a/x/new.txt", "content": "owned"}, want: refusedIn},
			)
		},
	}
}

func shellGrant(dir string) string {
	return fmt.Sprintf("tool = \"shell\"\nmode = \"auto\"\n[paths]\nwrite = [%q]\n[limits]\ntime = \"20s\"\n", dir)
}

// specialFiles: hard links can't be told from the file itself, so that only the
// owner can make one into a grant; a container can't, for what is outside is on
// no mount of its own.
func specialFiles() family {
	return family{
		name: "hard links and device files",
		stage: func(r *rig) {
			fileGrants(r)
			armed(r)
			if err := unix.Mkfifo(filepath.Join(r.granted, "fifo"), 0o666); err != nil {
				r.t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				for name, dev := range map[string]uint64{"null": unix.Mkdev(1, 3), "mem": unix.Mkdev(1, 1), "zero": unix.Mkdev(1, 5)} {
					if err := unix.Mknod(filepath.Join(r.granted, name), unix.S_IFCHR|0o666, int(dev)); err != nil {
						r.t.Fatal(err)
					}
				}
			}
		},
		tries: func(r *rig) []attempt {
			in := func(name string) string { return filepath.Join(r.granted, name) }
			rows := onEach(nil, "a pipe", in("fifo"), refusedIn)
			if os.Geteuid() == 0 {
				rows = onEach(rows, "memory", in("mem"), refusedIn)
				rows = onEach(rows, "zeros", in("zero"), refusedIn)
			}
			say := func(name, command string) {
				rows = append(rows, attempt{name: name, tool: "shell", args: obj{"command": command}, check: shows("")})
			}
			say("a hard link to what is outside", "ln "+r.outside+"/canary.txt "+in("hard"))
			say("a hard link through /proc", "ln -L /proc/self/root"+r.outside+"/canary.txt "+in("hard-2"))
			say("a device node", "mknod "+in("sda")+" b 8 0 && cat "+in("sda")+" | head -c 100")
			say("a character device", "mknod "+in("kmem")+" c 1 2")
			say("a set-user-id program", "cp /usr/bin/id "+in("id")+" && chmod 6755 "+in("id")+" && "+in("id"))
			rows = append(rows, bitRows(r)...)
			say("a set-user-id program of the system", "/usr/bin/su -c id; /usr/bin/mount; /usr/bin/passwd -S")
			return rows
		},
	}
}

// bitRows: a granted folder lies outside too, and there nothing takes away the bits
// by which a program has the rights of who made it.
func bitRows(r *rig) []attempt {
	const create, mode = unix.O_CREAT | unix.O_WRONLY, 0o6755
	at := func(name string) string { return "s:" + filepath.Join(r.granted, name) }
	rows := callRows(r, append([]syscallRow{
		{name: "set-user-id by fchmodat", nr: unix.SYS_FCHMODAT, args: args(cwdFD, at("note.txt"), mode)},
		{name: "set-user-id by fchmodat2", nr: unix.SYS_FCHMODAT2, args: args(cwdFD, at("note.txt"), mode, 0)},
		{name: "set-user-id by fchmod", nr: unix.SYS_FCHMOD, args: args(1, mode)},
		{name: "set-user-id by openat", nr: unix.SYS_OPENAT, args: args(cwdFD, at("bit-1"), create, mode)},
		{name: "set-user-id by a file without a name", nr: unix.SYS_OPENAT, args: args(cwdFD, "s:"+r.granted, unix.O_TMPFILE|unix.O_WRONLY, mode)},
		{name: "set-user-id by mknodat", nr: unix.SYS_MKNODAT, args: args(cwdFD, at("bit-2"), unix.S_IFREG|mode, 0)},
		{name: "set-group-id by mkdirat", nr: unix.SYS_MKDIRAT, args: args(cwdFD, at("bit-3"), 0o2777)},
		{name: "set-user-id by openat2", nr: unix.SYS_OPENAT2, args: args(cwdFD, at("bit-4"), "z:24", 24)},
		{name: "set-user-id with bits above", nr: unix.SYS_FCHMODAT, args: args(cwdFD, at("note.txt"), uint64(1)<<40|mode)},
	}, oldBitRows(at)...))
	return append(rows, act("no file outside has such a bit", func(r *rig) {
		res := r.call("shell", obj{"command": "cd " + r.granted + "; cp /usr/bin/id own; chmod 6755 own; perl -e 'chmod 04755, q(own)'; install -m 4755 /usr/bin/id own-2; tar -cf - --mode=6755 own | tar -xpf - --transform s/own/own-3/; chmod 0755 own && echo shell-ended; ls -l"})
		shows("shell-ended")(r, res)
		entries, err := os.ReadDir(r.granted)
		if err != nil || len(entries) < 3 {
			r.t.Fatalf("%d entries, %v", len(entries), err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				r.t.Errorf("%s is %v, %v", e.Name(), info.Mode(), err)
			}
		}
	}))
}

// shows checks that a command ran in its container, as no root and with the
// text in its result.
func shows(text string) func(r *rig, res *proto.CallResult) {
	return func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		if !strings.Contains(res.Text, text) {
			r.t.Errorf("the result has no %q: %.500s", text, res.Text)
		}
		for _, bad := range []string{"uid=0", "euid=0", "root:x:0:0", "(root)"} {
			if strings.Contains(res.Text, bad) {
				r.t.Errorf("the result has %q: %.500s", bad, res.Text)
			}
		}
	}
}

func strangePaths() family {
	return family{
		name: "Unicode and NUL in paths", stage: fileGrants,
		tries: func(r *rig) []attempt {
			out := "/../outside/canary.txt"
			var rows []attempt
			for name, path := range map[string]string{
				"NUL at the end":            r.granted + "/note.txt\x00",
				"NUL before an ending":      r.outside + "/canary.txt\x00.md",
				"NUL between":               r.granted + "\x00" + out,
				"a line break":              r.granted + "/note.txt\n" + r.outside + "/canary.txt",
				"a carriage return":         r.granted + "\r/note.txt",
				"an escape sequence":        r.granted + "/\x1b[2Jnote.txt",
				"a right-to-left override":  r.granted + "/\u202etxt.eton",
				"a zero-width space":        r.granted + "/no\u200bte.txt",
				"a word joiner in the dots": r.granted + "/.\u2060./outside/canary.txt",
				"wide dots":                 r.granted + "/\uff0e\uff0e/outside/canary.txt",
				"a dot leader":              r.granted + "/\u2025/outside/canary.txt",
				"a division slash":          r.granted + "/..\u2215outside\u2215canary.txt",
				"a wide slash":              r.granted + "/..\uff0foutside\uff0fcanary.txt",
				"a tag character":           r.granted + "/note\U000e0041.txt",
				"a delete":                  r.granted + "/note\x7f.txt",
				"a C1 control":              r.granted + "/note\u0085.txt",
				"a private letter":          r.granted + "/\ue000",
				"a very long name":          r.granted + "/" + strings.Repeat("n", 300),
				"a very long path":          r.granted + strings.Repeat("/n", 3000),
			} {
				rows = append(rows,
					attempt{name: name + ", read", tool: "read_file", args: obj{"path": path}, want: append(refusedIn, denied...)},
					attempt{name: name + ", write", tool: "write_file", args: obj{"path": path, "content": "x", "mode": "create"}, check: staysInside},
				)
			}
			for name, bad := range map[string]string{"an overlong encoding of a slash": "/..\xc0\xafoutside", "a byte that is no UTF-8": "/\xff"} {
				rows = append(rows, attempt{name: name, run: func(r *rig) { r.noFrame(`{"path":"` + r.granted + bad + `"}`) }})
			}
			return rows
		},
	}
}

// staysInside: whatever came of a write, nothing came up outside.
func staysInside(r *rig, _ *proto.CallResult) { r.untouched() }

// noFrame sends a call whose arguments no honest loopd can send; it is refused
// before it is a call.
func (r *rig) noFrame(args string) {
	r.t.Helper()
	id := r.id()
	m, err := r.raw([]byte(`{"type":"call","id":"`+id+`","session":"`+r.session+`","tool":"read_file","args":"`+strings.ReplaceAll(args, `"`, `\"`)+`"}`), nil)
	var no *proto.Error
	if !errors.As(err, &no) || no.Code != proto.ErrBadRequest {
		r.t.Errorf("the answer is %+v, %v; want bad-request", m, err)
	}
	if d, err := r.decision(id); err == nil {
		r.t.Errorf("a decision is on record: %+v", d)
	}
}
