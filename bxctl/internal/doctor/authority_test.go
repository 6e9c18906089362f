package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

func readGrant(r *rig) string {
	return "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"" + r.l.Workspace + "\"]\n"
}

// brokenAuthority are the rows about grants, secrets, audit and containers.
func brokenAuthority() []broken {
	says := func(f func(*proto.BrokerStatus)) func(*rig) { return func(r *rig) { r.broker.SetStatus(f) } }
	sys := func(name, text string) func(*rig) { return func(r *rig) { r.file("proc/sys/"+name, text, 0o600) } }
	return []broken{
		{"broken grant", false, func(r *rig) { r.grant("10-a.toml", "tool = \"read_file\"\nmood = \"auto\"\n", 0o600) }, "grants", Fail, "unknown key \"mood\"", "did you mean", false},
		{"expired grant", false, func(r *rig) { r.grant("10-a.toml", "expires = 2020-01-01T00:00:00Z\n"+readGrant(r), 0o600) }, "grants", Warn, "expired", "expires", false},
		{"grants writable by all", false, func(r *rig) { r.must(os.Chmod(r.l.Grants, 0o777)) }, "grants", Fail, "others can write to the folder of grants", "grants check", false},
		{"a granted path that is not there", false, func(r *rig) { r.must(os.RemoveAll(r.l.Workspace)) }, "granted", Warn, "is granted by 50-workspace-edit.toml, and is not there", "make it", false},
		{"a granted root file system that is not there", false, func(r *rig) {
			r.grant("10-a.toml", "tool = \"run\"\nmode = \"auto\"\n[userland]\nkind = \"root\"\nroot = \"/nowhere/root\"\n", 0o600)
		}, "granted", Warn, "is granted by 10-a.toml, and is not there", "make it", false},
		{"workspace is a file", false, func(r *rig) { r.must(os.RemoveAll(r.l.Workspace)); r.file("home/workspace", "", 0o600) }, "workspace", Fail, "is no folder", "bxctl init", false},
		{"a damaged approval", false, func(r *rig) { r.file("home/broker/approvals/0123.bad", "{", 0o600) }, "leftovers", Warn, "1 damaged approvals or results", "remove them", false},
		{"no store", false, func(r *rig) { r.must(os.Remove(r.l.Secrets + "/brokerd.age")) }, "secrets", Fail, "the store of secrets is not there", "bxctl init", false},
		{"no key", false, func(r *rig) { r.must(os.Remove(r.l.Keys + "/brokerd.key")) }, "secrets", Fail, "is not there", "put it back", false},
		{"key readable", false, func(r *rig) { r.must(os.Chmod(r.l.Keys+"/brokerd.key", 0o640)) }, "secrets", Fail, "has mode 0640: others can read", "chmod 600", false},
		{"store readable", false, func(r *rig) { r.must(os.Chmod(r.l.Secrets+"/brokerd.age", 0o644)) }, "rights", Fail, "brokerd.age (0644) may be read", "--fix", true},
		{"key beside the store", false, func(r *rig) {
			r.must(os.Rename(r.l.Keys+"/brokerd.key", r.l.Secrets+"/my.key"))
			r.toml("brokerd.toml", `key = ""`, `key = "`+r.l.Secrets+`/my.key"`)
		}, "secrets", Warn, "beside the store", "move the key", false},
		{"another key", false, func(r *rig) {
			r.must(os.WriteFile(r.l.Keys+"/brokerd.key", []byte("AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU\n"), 0o600))
		}, "secrets", Fail, "does not", "put back", false},
		{"a secret that is not there", false, func(r *rig) {
			r.grant("10-a.toml", "tool = \"run\"\nmode = \"ask\"\n[secrets]\nnames = [\"token\"]\n", 0o600)
		}, "secrets", Warn, "names the secret token, which is not in the store", "bxctl secret set token", false},
		{"audit readable", false, func(r *rig) { r.must(os.Chmod(r.l.Audit, 0o755)) }, "rights", Fail, "in the audit folder, . (0755)", "--fix", true},
		{"a changed audit record", false, func(r *rig) { audited(r, func(b []byte) []byte { b[40] ^= 1; return b }) }, "audit", Fail, "2026-05.jsonl:1: changed", "bxctl audit verify", false},
		{"an anchor that is none", false, func(r *rig) { r.file("home/anchors/audit.jsonl", "{}\n", 0o600) }, "audit", Fail, "", "bxctl audit verify", false},
		{"a stranger in the audit log", false, func(r *rig) { r.file("home/audit/notes.jsonl", "", 0o600) }, "audit", Fail, "notes.jsonl: foreign", "bxctl audit verify", false},
		{"brokerd.toml is no TOML", false, func(r *rig) { r.file("home/config/brokerd.toml", "[x\n", 0o600) }, "config-files", Fail, "line 1: this is not TOML", "mend that line", false},
		{"no runnerd.toml", false, func(r *rig) { r.must(os.Remove(r.l.Config + "/runnerd.toml")) }, "config-files", Warn, "is not there", "bxctl init", false},
		{"no crun", false, func(r *rig) { r.o.LookPath = func(string) (string, error) { return "", os.ErrNotExist } }, "runner", Fail, "crun is not there", "apt-get install crun", false},
		{"old crun", false, func(r *rig) {
			r.o.RuntimeVersion = func(context.Context, string) (string, error) { return "0.17", nil }
		}, "runner", Fail, "version 0.17, and 1.8 or newer", "newer crun", false},
		{"broken crun", false, func(r *rig) {
			r.o.RuntimeVersion = func(context.Context, string) (string, error) { return "", errors.New("exit status 127") }
		}, "runner", Fail, "exit status 127", "reinstall", false},
		{"no user namespaces", false, sys("user/max_user_namespaces", "0\n"), "runner", Fail, "user namespaces are off", "max_user_namespaces=", false},
		{"user namespaces for root alone", false, sys("kernel/unprivileged_userns_clone", "0\n"), "runner", Fail, "user namespaces are off", "unprivileged_userns_clone=1", false},
		{"user namespaces by AppArmor's leave", false, sys("kernel/apparmor_restrict_unprivileged_userns", "1\n"), "runner", Fail, "user namespaces are off", "AppArmor", false},
		{"a limit that can't be enforced", true, func(r *rig) {
			r.grant("10-a.toml", readGrant(r)+"[limits]\nmemory = \"64MiB\"\n", 0o600)
			says(func(st *proto.BrokerStatus) {
				st.Checks = []proto.Check{{Name: "memory limit", State: "skipped", Detail: "no cgroup is delegated"}}
			})(r)
		}, "runner", Warn, "refused: 10-a.toml; no cgroup is delegated", "delegate", false},
		{"toolkit missing", false, func(r *rig) { r.must(os.Remove(filepath.Join(r.dir, "bin/toolkit"))) }, "programs", Fail, "the program toolkit is not there", "make build", false},
		{"halted", true, says(func(st *proto.BrokerStatus) { st.Halted, st.HaltReason = true, "odd things" }), "brokerd", Warn, "since the halt: odd things", "bxctl resume", false},
		{"no way out", true, says(func(st *proto.BrokerStatus) {
			st.Checks = []proto.Check{{Name: "egress", State: "failed", Detail: "it does not answer", Runbook: "no-egress"}}
		}), "brokerd", Fail, "it does not answer", "egressd", false},
		{"no container", true, says(func(st *proto.BrokerStatus) {
			st.Checks = []proto.Check{{Name: "runner", State: "failed", Detail: "crun: operation not permitted", Runbook: "crun-refused"}}
		}), "brokerd", Fail, "operation not permitted", "runnerd", false},
		{"brokerd less confined", true, says(func(st *proto.BrokerStatus) {
			st.Confinement = []proto.Check{{Name: "landlock", State: "failed", Detail: "not in force"}}
		}), "brokerd", Warn, "not in force", "runbook", false},
		{"brokerd silent", true, func(r *rig) { r.broker.Stop() }, "brokerd", Fail, "brokerd does not answer", "brokerd.log", false},
		{"old brokerd runs", true, says(func(st *proto.BrokerStatus) { st.Version = "v0" }), "versions", Fail, `the running brokerd is version "v0"`, "bxctl down; bxctl up", false},
		{"brokerd has a network", true, func(r *rig) { r.edit(pidBroker, "net/dev", "    lo:", "  eth0: 1\n    lo:") }, "confinement", Fail, "brokerd: it has network devices (eth0)", "bxctl down", false},
	}
}

// audited writes an audit log of two records, changed by f.
func audited(r *rig, f func([]byte) []byte) {
	r.t.Helper()
	root, err := os.OpenRoot(r.l.Audit)
	r.must(err)
	defer root.Close()
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: "2026-05.jsonl"})
	r.must(err)
	prev := proto.NoHash
	for i := range 2 {
		line, err := proto.EncodeAudit(proto.AuditHeader{N: int64(i), Time: at(), Prev: prev}, &proto.AuditStart{Version: "v", PID: 1})
		r.must(err)
		r.must(log.Append(line))
		sum := appendlog.Hash(line)
		prev = hexOf(sum[:])
	}
	r.must(log.Close())
	path := filepath.Join(r.l.Audit, "2026-05.jsonl")
	r.must(os.WriteFile(path, f([]byte(r.read(path))), 0o600))
}

// An audit log that nobody changed is good.
func TestAuditLog(t *testing.T) {
	r := newRig(t)
	audited(r, func(b []byte) []byte { return b })
	if rep := r.examine(); rep.Verdict != OK {
		t.Errorf("%s", bads(rep))
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		v    string
		want bool
	}{{"1.8", false}, {"1.8.1", false}, {"1.10", false}, {"2", false}, {"1.7.9", true}, {"0.21", true}, {"1", true}, {"unknown", false}, {"1.x", false}} {
		if got := older(c.v, leastCrun); got != c.want {
			t.Errorf("%s: %v", c.v, got)
		}
	}
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func TestRoleOf(t *testing.T) {
	for in, want := range map[string]string{
		"0::/user.slice/user-1.slice/app.slice/boxmaker-loopd.service\n":                     "loopd",
		"4:pids:/\n0::/boxmaker-test-1/app.slice/boxmaker-runnerd.service/boxmaker-1/call\n": "runnerd",
		"0::/system.slice/boxmaker.service\n":                                                "", "0::/\n": "", "0::/boxmaker-loopd.socket\n": "",
	} {
		if got := roleOf(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
