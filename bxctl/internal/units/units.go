// Package units writes Boxmaker as systemd units: `bxctl init --systemd`, for
// those who want systemd in the place of `bxctl up`.
//
// It guarantees that the units start the same programs with the same
// arguments, sockets and uids as `bxctl up` does, and that systemd's own
// hardening on top forbids nothing that they need. It only makes text: nothing
// is enabled, and nothing outside of the folder that was named is written.
package units

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
)

// Input is what the units are made from.
type Input struct {
	Layout   config.Layout
	Settings setup.Settings
	Roles    []up.Role
	Root     bool // system units; else units of a user's own manager
}

const maxSocket = 107 // bytes that fit into a sockaddr_un

// A File is one unit.
type File struct{ Name, Text string }

// Files gives all units: the target first, then sockets and a service a role.
func Files(in Input) ([]File, error) {
	for _, r := range in.Roles {
		for _, s := range append(append([]string{r.Path, in.Layout.Home, in.Layout.Run}, r.Args...), r.Env...) {
			if strings.ContainsAny(s, "\n\r\x00") {
				return nil, errors.New("a path or an argument holds a line break, which a unit can't express")
			}
		}
		for _, s := range r.Sockets {
			if p := in.Layout.Socket(r.Name, s.Client, s.File); len(p) > maxSocket {
				return nil, fmt.Errorf("the path of the socket %s has more than %d bytes, and systemd has no shorter name for it", p, maxSocket)
			}
		}
	}
	out := []File{{up.Target, in.target()}}
	for _, r := range in.Roles {
		for i := range r.Sockets {
			out = append(out, File{socketUnit(r, i), in.socket(r, i)})
		}
		out = append(out, File{unit(r.Name) + ".service", in.service(r)})
	}
	return out, nil
}

// socketUnit names the unit of one socket: systemd has one name of a descriptor
// for all sockets of a unit, so that each is a unit of its own.
func socketUnit(r up.Role, i int) string {
	if i == 0 {
		return unit(r.Name) + ".socket"
	}
	return unit(r.Name) + "-" + r.Sockets[i].Name + ".socket"
}

func unit(role string) string { return "boxmaker-" + role }

// section builds a unit line by line.
type section struct{ strings.Builder }

func (s *section) head(name string) {
	if s.Len() > 0 {
		s.WriteString("\n")
	}
	s.WriteString("[" + name + "]\n")
}

func (s *section) set(key, value string) { s.WriteString(key + "=" + value + "\n") }
func (s *section) note(text string)      { s.WriteString("# " + text + "\n") }
func (s *section) yes(keys ...string)    { s.each("yes", keys) }
func (s *section) each(v string, k []string) {
	for _, key := range k {
		s.set(key, v)
	}
}

const made = "Made by bxctl init --systemd; run that again after a change of bxctl.toml or inferproxy.toml."

func (in Input) target() string {
	var s section
	s.note(made)
	s.head("Unit")
	s.set("Description", "Boxmaker")
	for _, r := range in.Roles {
		for i := range r.Sockets {
			s.set("Wants", socketUnit(r, i))
		}
		s.set("Wants", unit(r.Name)+".service")
	}
	s.head("Install")
	if in.Root {
		s.set("WantedBy", "multi-user.target")
	} else {
		s.set("WantedBy", "default.target")
	}
	return s.String()
}

func (in Input) socket(r up.Role, i int) string {
	var s section
	s.note(made)
	s.head("Unit")
	s.set("Description", "Boxmaker: socket "+r.Sockets[i].Name+" of "+r.Name)
	s.set("PartOf", up.Target)
	s.head("Socket")
	path := in.Layout.Socket(r.Name, r.Sockets[i].Client, r.Sockets[i].File)
	s.set("ListenStream", whole(path))
	s.set("FileDescriptorName", r.Sockets[i].Name)
	if i > 0 {
		s.set("Service", unit(r.Name)+".service")
	}
	if in.Root { // the folder of each socket can be entered by its client alone
		client := id(in.client(r.Sockets[i].Client))
		s.set("ExecStartPre", command("install", "-d", "-m", "0711", in.Layout.Run, filepath.Join(in.Layout.Run, r.Name)))
		s.set("ExecStartPre", command("install", "-d", "-m", "0700", "-o", client, "-g", client, filepath.Dir(path)))
		s.note("Not SocketUser=: that takes no uid without an entry in the user database.")
		s.set("ExecStartPost", command("chown", client+":"+client, path))
	} else if r.Keyed() {
		s.note("All roles are one user here: who may enter the folder of a socket has its key, which is there before anybody dials.")
		s.set("ExecStartPre", command("install", "-d", "-m", "0700", in.Layout.Run, filepath.Join(in.Layout.Run, r.Name), filepath.Dir(path)))
		s.set("ExecStartPre", command("sh", "-c", makeKey, "sh", ipc.KeyOf(path)))
	}
	s.set("DirectoryMode", "0700")
	s.set("SocketMode", "0600")
	s.yes("RemoveOnStop")
	return s.String()
}

// makeKey makes the key that is its first argument, if there is none.
const makeKey = `umask 077; [ -s "$1" ] || { head -c 32 /dev/urandom >"$1.new" && mv "$1.new" "$1"; }`

// client is the uid that may use a socket.
func (in Input) client(name string) uint32 {
	if name == "bxctl" {
		return 0
	}
	return in.Settings.UID(name)
}

func id(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

func (in Input) service(r up.Role) string {
	var s section
	s.note(made)
	s.head("Unit")
	s.set("Description", "Boxmaker: "+r.Name)
	s.set("PartOf", up.Target)
	for i := range r.Sockets {
		s.set("Requires", socketUnit(r, i))
	}
	for _, other := range in.Roles { // what it will reach must be there when it shuts itself in
		for i := range other.Sockets {
			s.set("After", socketUnit(other, i))
		}
	}
	s.note("Five ends within a minute are enough: the reason is in the journal.")
	s.set("StartLimitIntervalSec", "60")
	s.set("StartLimitBurst", "5")
	s.head("Service")
	in.run(&s, r)
	in.harden(&s, r)
	return s.String()
}

func (in Input) run(s *section, r up.Role) {
	if r.Becomes == "" {
		s.set("Type", "notify")
	} else { // it becomes another program, shut in, that can't reach systemd's socket
		s.set("Type", "exec")
	}
	if r.Makes != "" {
		in.makes(s, r)
	}
	if own := in.keeps(r.Name); in.Root && len(own) > 0 { // what somebody else made; + is: not shut in
		uid := id(r.UID)
		s.set("ExecStartPre", "+"+command(append([]string{"chown", "-hR", uid + ":" + uid}, own...)...))
	}
	in.folders(s, r)
	for i := 1; i < len(r.Sockets); i++ {
		s.set("Sockets", socketUnit(r, 0)+" "+socketUnit(r, i))
	}
	args := slices.DeleteFunc(slices.Clone(r.Args), func(a string) bool { return a == "-die-with-parent" })
	s.set("ExecStart", command(append([]string{r.Path}, args...)...))
	if r.Makes == "" {
		s.set("WorkingDirectory", whole(in.Layout.Run))
	} else { // no socket unit has made it: the first command does, where it can't be yet
		s.set("WorkingDirectory", "-"+whole(in.Layout.Run))
	}
	for _, kv := range r.Env {
		s.set("Environment", quote(kv))
	}
	s.set("Restart", "always")
	s.note("78: it refused to start, and something has to be changed first.")
	s.set("RestartPreventExitStatus", "78")
	s.set("RestartSec", "200ms")
	s.note("From systemd 254 on: longer each time. Older ones ignore these two.")
	s.set("RestartSteps", "6")
	s.set("RestartMaxDelaySec", "10s")
	s.set("TimeoutStopSec", strconv.Itoa(int(r.Grace.Seconds())+5))
}

// keeps lists the folders whose files are a role's own.
func (in Input) keeps(role string) []string {
	l := in.Layout
	switch role {
	case "loopd":
		return []string{l.Sessions}
	case "brokerd":
		return []string{l.Audit, l.Broker, l.Secrets, l.Keys}
	case "runnerd":
		return []string{l.Workspace}
	case "gatewayd":
		return []string{l.Gateway()}
	}
	return nil
}

// folders makes a role's own folders in the run folder.
func (in Input) folders(s *section, r up.Role) {
	for _, f := range r.Folders {
		dir := filepath.Join(in.Layout.Run, f.Path)
		words := []string{"install", "-d", "-m", "0700", dir}
		if in.Root {
			mode, group := "0700", id(r.UID)
			if f.Client != "" {
				mode, group = "2710", id(in.Settings.UID(f.Client))
			}
			words = []string{"install", "-d", "-m", mode, "-o", id(r.UID), "-g", group, dir}
		}
		s.set("ExecStartPre", "+"+command(words...))
	}
}

// writes lists what a role may write beside its folders in the run folder.
func (in Input) writes(r up.Role) []string {
	var out []string
	switch l := in.Layout; r.Name {
	case "loopd":
		out = []string{l.Sessions}
	case "brokerd":
		out = []string{l.Audit, l.Broker}
	case "gatewayd":
		out = []string{l.Gateway()}
	}
	for _, f := range r.Folders { // "-": what makes them is started in the same place, where they are not there yet
		out = append(out, "-"+filepath.Join(in.Layout.Run, f.Path))
	}
	return out
}

// hidden lists what a role has no business with.
func (in Input) hidden(role string) []string {
	l := in.Layout
	if role == "brokerd" {
		return []string{l.Sessions, l.Workspace}
	}
	if role == "gatewayd" { // what it needs of secrets and keys it opens at its start
		return []string{l.Grants, l.Audit, l.Broker, l.Sessions, l.Workspace}
	}
	return []string{l.Grants, l.Audit, l.Broker, l.Secrets, l.Keys}
}

// makes prepares the folder of a socket that the program makes itself.
func (in Input) makes(s *section, r up.Role) {
	dir := filepath.Join(in.Layout.Run, filepath.Dir(r.Makes))
	if in.Root {
		s.set("ExecStartPre", command("install", "-d", "-m", "0711", in.Layout.Run, filepath.Dir(dir)))
		s.set("ExecStartPre", command("install", "-d", "-m", "2710", "-o", id(r.UID), "-g", id(in.Settings.UID("inferproxy")), dir))
	} else {
		s.set("ExecStartPre", command("install", "-d", "-m", "0700", in.Layout.Run, filepath.Dir(dir), dir))
	}
	s.set("ExecStartPre", command("rm", "-f", filepath.Join(in.Layout.Run, r.Makes)))
	s.set("UMask", "0007")
}

// command gives the value of ExecStart=, as systemd.service(5) says: percent
// signs are doubled, and so are dollars in all words; each word stands in quotes.
func command(words ...string) string {
	var out []string
	for _, w := range words {
		out = append(out, strings.ReplaceAll(quote(w), "$", "$$"))
	}
	return strings.Join(out, " ")
}

// quote gives one word of a list.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-_.:=,+@%$", r)
	}
	s = strings.ReplaceAll(s, "%", "%%")
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(s) + `"`
}

// whole gives a value that is one path to the end of the line.
func whole(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// Commands are the lines with which the owner installs the units of a folder.
func Commands(dir string, root bool) []string {
	to := "~/.config/systemd/user"
	if root {
		to = "/etc/systemd/system"
	}
	from := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	out := []string{
		fmt.Sprintf("mkdir -p %s && cp %s/boxmaker* %s/", to, from, to),
		up.Systemctl() + " daemon-reload",
		up.Systemctl() + " enable --now " + up.Target,
	}
	if !root {
		out = append(out, "loginctl enable-linger   # to run while you are not logged in")
	}
	return out
}
