package cgroup

import (
	"slices"
	"strings"
	"testing"
)

const (
	hybrid = `24 23 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
26 24 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
27 24 0:25 / /sys/fs/cgroup/pids rw,relatime shared:7 - cgroup cgroup rw,pids
28 24 0:26 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	hybridGroups  = "9:name=systemd:/\n8:pids:/\n4:memory:/process_api/17\n2:cpu,cpuacct:/\n0::/\n"
	unified       = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	unifiedGroups = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n"
)

func TestHierarchies(t *testing.T) {
	for _, tc := range []struct {
		name, mounts, groups string
		want                 []string
	}{
		{"hybrid", hybrid, hybridGroups, []string{"cpu,cpuacct /sys/fs/cgroup/cpu,cpuacct", "memory /sys/fs/cgroup/memory/process_api/17", "pids /sys/fs/cgroup/pids", " /sys/fs/cgroup/unified"}},
		{"unified", unified, unifiedGroups, []string{" /sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"}},
		{"a part is mounted", strings.Replace(unified, "0:27 / ", "0:27 /user.slice ", 1), unifiedGroups, []string{" /sys/fs/cgroup/user-1000.slice/user@1000.service/app.slice/x.scope"}},
		{"another part is mounted", strings.Replace(unified, "0:27 / ", "0:27 /machine.slice ", 1), unifiedGroups, []string{" /sys/fs/cgroup"}},
		{"none", "1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", nil},
		{"rubbish", "x\n- -\n1 2 3 4 5 - cgroup\n", "::::\n\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, h := range hierarchies(tc.mounts, tc.groups) {
				got = append(got, strings.Join(h.controllers, ",")+" "+h.dir)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// A limit that cannot be enforced is an error, whatever else can be.
func TestLimitsFailClosed(t *testing.T) {
	for _, tc := range []struct {
		name         string
		b            Base
		memory, pids int64
	}{
		{"no memory", Base{PIDs: t.TempDir()}, 1 << 20, 0},
		{"no pids", Base{Memory: t.TempDir()}, 0, 10},
		{"nothing", Base{Why: "not allowed"}, 1 << 20, 10},
		{"a folder that is no control group", Base{Memory: t.TempDir()}, 1 << 20, 0},
		{"one that has no controllers", Base{Unified: t.TempDir(), Limits: true}, 0, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if g, err := tc.b.Make("bm-x", tc.memory, tc.pids); err == nil {
				t.Errorf("%+v", g)
			}
		})
	}
	if g, err := (Base{}).Make("bm-x", 0, 0); err != nil || g.OOM() || g.Remove() != nil {
		t.Errorf("no limits: %v", err)
	}
}
