package stack

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one running program of a home.
type Process struct {
	PID     int
	Parent  int
	Program string // name as the kernel has it
	Args    []string
}

// Processes lists what runs for the home: processes whose command line or
// environment names it, and their descendants.
func Processes(home string) []Process {
	all := map[int]Process{}
	mine := map[int]bool{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		p, ok := readProcess(d)
		if !ok || p.PID == os.Getpid() {
			continue
		}
		all[p.PID] = p
		env, _ := os.ReadFile(d + "/environ")
		if names(p.Args, home) || names(strings.Split(string(env), "\x00"), home) {
			mine[p.PID] = true
		}
	}
	for again := true; again; {
		again = false
		for pid, p := range all {
			if mine[p.Parent] && !mine[pid] {
				mine[pid], again = true, true
			}
		}
	}
	var out []Process
	for pid := range mine {
		out = append(out, all[pid])
	}
	slices.SortFunc(out, func(a, b Process) int { return a.PID - b.PID })
	return out
}

// names reports whether a word holds home as a whole path or as the start of one.
func names(words []string, home string) bool {
	for _, w := range words {
		for rest := w; ; {
			i := strings.Index(rest, home)
			if i < 0 {
				break
			}
			rest = rest[i+len(home):]
			if rest == "" || rest[0] == '/' {
				return true
			}
		}
	}
	return false
}

// readProcess reads one folder of /proc. Zombies are not there.
func readProcess(dir string) (Process, bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Process{}, false
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Process{}, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil || len(fields) < 2 || fields[0] == "Z" {
		return Process{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	args, _ := os.ReadFile(dir + "/cmdline")
	return Process{PID: pid, Parent: parent, Program: string(stat[open+1 : end]), Args: strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")}, true
}

// Sweep kills whatever still runs for the home and reports what that was.
func Sweep(home string) []Process {
	var found []Process
	for range 200 { // a supervisor may start children while we look
		ps := Processes(home)
		if len(ps) == 0 {
			return found
		}
		for _, p := range ps {
			if !slices.ContainsFunc(found, func(q Process) bool { return q.PID == p.PID }) {
				found = append(found, p)
			}
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the process table, which has no wait
	}
	return found
}
