package crun

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/seccomp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The parts of the OCI runtime specification that are used here; see
// https://github.com/opencontainers/runtime-spec/blob/main/config.md.
type config struct {
	Version  string  `json:"ociVersion"`
	Process  process `json:"process"`
	Root     root    `json:"root"`
	Hostname string  `json:"hostname"`
	Mounts   []mount `json:"mounts"`
	Linux    linux   `json:"linux"`

	Annotations map[string]string `json:"annotations,omitempty"`
	Hooks       hooks             `json:"hooks,omitzero"`
}

type hooks struct {
	Poststart []hook `json:"poststart"`
}

type hook struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
}

type process struct {
	Terminal     bool                `json:"terminal"`
	User         user                `json:"user"`
	Args         []string            `json:"args"`
	Env          []string            `json:"env"`
	Cwd          string              `json:"cwd"`
	Capabilities map[string][]string `json:"capabilities"`
	Rlimits      []rlimit            `json:"rlimits"`
	NoNewPrivs   bool                `json:"noNewPrivileges"`
}

type user struct {
	UID   int `json:"uid"`
	GID   int `json:"gid"`
	Umask int `json:"umask"`
}

type rlimit struct {
	Type string `json:"type"`
	Hard int64  `json:"hard"`
	Soft int64  `json:"soft"`
}

type root struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type linux struct {
	UIDs       []mapping      `json:"uidMappings"`
	GIDs       []mapping      `json:"gidMappings"`
	Namespaces []namespace    `json:"namespaces"`
	Masked     []string       `json:"maskedPaths"`
	Readonly   []string       `json:"readonlyPaths"`
	Seccomp    jsontext.Value `json:"seccomp"`
}

type mapping struct {
	Inside  int `json:"containerID"`
	Outside int `json:"hostID"`
	Size    int `json:"size"`
}

type namespace struct {
	Type string `json:"type"`
}

// readonly are the switches of the machine in /proc.
func readonly() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// encode gives config.json of a box. filter is the compiled profile; nil: crun
// compiles it.
func encode(b *box.Box, filter []byte, h hooks) ([]byte, error) {
	none := []string{}
	c := config{
		Version: "1.0.2", Hostname: "box", Hooks: h, Root: root{Path: b.RootFS, Readonly: true},
		Process: process{
			User: user{UID: box.Inside, GID: box.Inside, Umask: 0o022}, Args: b.Argv, Env: b.Env, Cwd: "/", NoNewPrivs: true, Rlimits: rlimits(b),
			Capabilities: map[string][]string{"bounding": none, "effective": none, "permitted": none, "inheritable": none, "ambient": none},
		},
		Linux: linux{
			UIDs: []mapping{{box.Inside, b.UID, 1}}, GIDs: []mapping{{box.Inside, b.GID, 1}},
			Masked: box.Masked(), Readonly: readonly(), Seccomp: seccomp.Profile(b.Door),
		},
	}
	if filter != nil {
		c.Annotations = map[string]string{filterAnnotation: base64.StdEncoding.EncodeToString(filter)}
	}
	for _, n := range []string{"user", "mount", "pid", "network", "ipc", "uts", "cgroup"} {
		c.Linux.Namespaces = append(c.Linux.Namespaces, namespace{n})
	}
	for _, m := range b.Mounts {
		one, err := encodeMount(m)
		if err != nil {
			return nil, err
		}
		c.Mounts = append(c.Mounts, one)
	}
	return json.Marshal(c, json.Deterministic(true))
}

func rlimits(b *box.Box) []rlimit {
	l := []rlimit{{"RLIMIT_CORE", 0, 0}, {"RLIMIT_NOFILE", 1024, 1024}, {"RLIMIT_FSIZE", 1 << 30, 1 << 30}}
	if b.Limits.NProc > 0 {
		l = append(l, rlimit{"RLIMIT_NPROC", b.Limits.NProc, b.Limits.NProc})
	}
	if b.Limits.Data > 0 {
		l = append(l, rlimit{"RLIMIT_DATA", b.Limits.Data, b.Limits.Data})
	}
	return l
}

// inodes bounds how many names there can be in a file system in memory: an empty
// file takes no room in it, and a kilobyte of the kernel's. Otherwise they would be
// as many as the machine has memory for.
func inodes(size int64) int64 { return max(1024, size/4096) }

// encodeMount: a bind takes along what is mounted below it, since the kernel
// does not let a user namespace uncover it, and its options hold there too.
func encodeMount(m box.Mount) (mount, error) {
	switch m.Kind {
	case box.Proc:
		return mount{m.Dest, "proc", "proc", []string{"nosuid", "nodev", "noexec"}}, nil
	case box.Tmpfs:
		o := []string{"nosuid", "size=" + strconv.FormatInt(m.Size, 10), "nr_inodes=" + strconv.FormatInt(inodes(m.Size), 10), "mode=" + strconv.FormatUint(uint64(m.Mode), 8)}
		if !m.Dev {
			o = append(o, "nodev")
		}
		if !m.Exec {
			o = append(o, "noexec")
		}
		return mount{m.Dest, "tmpfs", "tmpfs", o}, nil
	case box.Bind:
		o := []string{"rbind", "rprivate", "nosuid", "nodev"}
		if !m.Write {
			o = append(o, "ro")
		}
		if !m.Exec {
			o = append(o, "noexec")
		}
		if !m.File { // crun takes the recursive forms for folders only
			for _, s := range o[2:] {
				o = append(o, "r"+s)
			}
		}
		return mount{m.Dest, "bind", m.Source, o}, nil
	default:
		return mount{}, fmt.Errorf("crun: a mount of unknown kind %d", m.Kind)
	}
}
