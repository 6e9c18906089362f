package grant

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxmaker/internal/config"
)

// Own lists Boxmaker's own folders, in which nothing can be granted, each also
// by the name that it really has, since brokerd can't look into all of them. The
// workspace is not one: it is the owner's.
func Own(l config.Layout) []string {
	return resolved([]string{
		l.Config, l.Grants, l.Sessions, l.Run, l.Log, l.Audit, l.Broker, l.Secrets, l.Keys, l.Anchors,
		l.Gateway(), filepath.Join(l.Home, "prompts"), filepath.Join(l.Home, "measure"),
	})
}

// CheckPrograms refuses a path for writing in which the programs lie: what a
// tool replaced there, the owner would start. The other programs lie beside the
// one that runs. Where the kernel does not say where that is, nothing is refused.
func CheckPrograms(p string) (what, do string) {
	self, err := os.Executable()
	if err != nil {
		return "", ""
	}
	dir := filepath.Dir(self)
	for _, name := range []string{filepath.Base(self), "bxctl", "brokerd", "loopd", "runnerd", "egressd", "inferproxy", "gatewayd", "practice", "toolkit", "toolfetch"} {
		for _, program := range resolved([]string{filepath.Join(dir, name)}) {
			if Within(program, filepath.Clean(p)) {
				return fmt.Sprintf("%s holds Boxmaker's own programs", p), "a tool that can replace a program has the owner's rights at its next start; name the folders that the tool needs, or move the programs to a folder of their own"
			}
		}
	}
	return "", ""
}

// Problems gives all that there is to say about the files at a time, in their
// order: faults, warnings, and grants that have expired.
func (s Set) Problems(now time.Time) []Problem {
	all := slices.Concat(s.Broken, s.Warnings)
	for _, g := range s.Grants {
		if g.Expired(now) {
			all = append(all, Problem{
				File: g.ID, Warning: true, Runbook: "grant-expired",
				What: fmt.Sprintf("the grant expired on %s UTC, and grants nothing any more", g.Expires.UTC().Format(time.DateTime)),
				Do:   "change expires, or remove the file",
			})
		}
	}
	all = append(all, s.aroundDenies(now)...)
	slices.SortStableFunc(all, func(a, b Problem) int { return strings.Compare(a.File, b.File) })
	return all
}

// aroundDenies names grants of programs that see what is denied to another tool.
// A deny is of a tool, and no deny of paths can be made for programs: one that
// may write can bring a denied folder to another name, where it is not denied.
func (s Set) aroundDenies(now time.Time) (all []Problem) {
	for _, g := range s.Grants {
		if !abilities(g.Tool).programs || g.Mode == Deny || g.Expired(now) {
			continue
		}
		for _, d := range s.Grants {
			if d.Mode != Deny || d.Expired(now) {
				continue
			}
			for _, t := range d.deniedTrees() {
				in := func(m string) bool { return touches(m, t) }
				writes := slices.ContainsFunc(g.Paths.Write, in)
				if !writes && !slices.ContainsFunc(g.Paths.Read, in) {
					continue
				}
				may := "read"
				if writes {
					may = "read, change and rename"
				}
				all = append(all, Problem{
					File: g.ID, Warning: true, Runbook: "grant-paths",
					What: fmt.Sprintf("programs of this grant can %s %s, which %s denies to %s alone", may, t, d.ID, d.Tool),
					Do:   "grant folders that do not hold it, or move it out of them, if programs must not reach it either",
				})
				break
			}
		}
	}
	return all
}
