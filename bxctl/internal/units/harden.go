package units

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/secret"
)

// harden adds systemd's hardening to what the programs do themselves.
func (in Input) harden(s *section, r up.Role) {
	s.note("What the program does not take away from itself at its start, systemd does.")
	s.yes("NoNewPrivileges")
	s.set("LimitCORE", "0")
	if r.Makes != "" { // what a graphics driver opens can't be foretold
		return
	}
	if r.Name == "runnerd" {
		in.hardenRunner(s, r)
		return
	}
	s.set("UMask", "0077")
	s.set("ProtectSystem", "strict")
	for _, path := range in.writes(r) {
		s.set("ReadWritePaths", quote(path))
	}
	for _, path := range in.hidden(r.Name) {
		s.set("InaccessiblePaths", quote("-"+path))
	}
	if r.Name == "brokerd" {
		s.note("To keep the key of the secrets as a credential of the machine, and not in a file, remove the comment sign:")
		s.note("LoadCredentialEncrypted=" + secret.CredentialName)
		s.note("made with: systemd-creds encrypt --name=" + secret.CredentialName + " " + whole(filepath.Join(in.Layout.Keys, setup.BrokerKey)) + " /etc/credstore.encrypted/" + secret.CredentialName)
	}
	s.yes("ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups", "ProtectClock", "ProtectHostname",
		"PrivateDevices", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute")
	if !in.inTmp() {
		s.yes("PrivateTmp")
	}
	families := "AF_UNIX AF_NETLINK"
	if r.Isolate {
		s.yes("PrivateNetwork")
	} else {
		families += " AF_INET AF_INET6"
	}
	s.set("RestrictAddressFamilies", families)
	s.set("SystemCallArchitectures", "native")
	s.set("SystemCallFilter", "@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp")
	s.set("SystemCallErrorNumber", "EPERM")
	if in.Root {
		s.note("To drop them, and root, as soon as everything is open.")
		caps := "CAP_SETUID CAP_SETGID CAP_SETPCAP"
		if r.Becomes == "" { // it opens its files before
			caps += " CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH"
		}
		s.set("CapabilityBoundingSet", caps)
	} else {
		s.yes("PrivateUsers")
	}
}

// hardenRunner leaves out all that would reach into the containers, or that the
// kernel would take for a reason to refuse them their own /proc.
func (in Input) hardenRunner(s *section, r up.Role) {
	s.note("Containers need mounts, namespaces and a cgroup of their own, and what is granted can be")
	s.note("anywhere; each of them is shut in on its own.")
	s.set("UMask", "0077")
	s.set("Delegate", "yes")
	if r.Isolate {
		s.yes("PrivateNetwork")
		if !in.Root { // a user's manager can make the one only in the other
			s.yes("PrivateUsers")
		}
	}
	s.set("RestrictAddressFamilies", "AF_UNIX AF_NETLINK AF_INET AF_INET6")
	s.set("SystemCallArchitectures", "native")
	s.yes("RestrictRealtime", "RestrictSUIDSGID")
	if in.Root {
		s.note("To prepare its cgroup and its mounts, and to drop root then.")
		s.set("CapabilityBoundingSet", "CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER CAP_SYS_ADMIN")
	}
}

// inTmp: a home in /tmp would be hidden by a /tmp of one's own.
func (in Input) inTmp() bool {
	paths := []string{in.Layout.Home, in.Layout.Config, in.Layout.Sessions, in.Layout.Run}
	for _, r := range in.Roles {
		paths = append(paths, r.Path, cmp.Or(r.Becomes, r.Path))
		for i, a := range r.Args { // sockets and files elsewhere
			if i > 0 && r.Args[i-1] == "-read" || strings.HasPrefix(a, "unix:") {
				paths = append(paths, strings.TrimPrefix(a, "unix:"))
			}
		}
	}
	return slices.ContainsFunc(paths, func(p string) bool {
		return strings.HasPrefix(p, "/tmp/") || strings.HasPrefix(p, "/var/tmp/") || p == "/tmp"
	})
}
