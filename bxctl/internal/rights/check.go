package rights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"boxmaker/internal/grant"
)

// A Finding is a problem of a file, and where that file is.
type Finding struct {
	Path string
	grant.Problem
}

// Line gives "path:line: what; do (see runbook: key)".
func (f Finding) Line() string {
	s := f.Path
	if f.Problem.Line > 0 {
		s += fmt.Sprintf(":%d", f.Problem.Line)
	}
	if f.Warning {
		s += ": warning"
	}
	s += ": " + f.What
	if f.Do != "" {
		s += "; " + f.Do
	}
	if f.Runbook != "" {
		s += " (see runbook: " + f.Runbook + ")"
	}
	return s
}

// File checks one file that need not be in the folder of grants. The grant is
// nil if it would grant nothing.
func File(path string, own []string) (*grant.Grant, []Finding, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a plain file")}
	}
	data, err := io.ReadAll(io.LimitReader(f, grant.MaxFile+1))
	if err != nil {
		return nil, nil, err
	}
	g, problems := grant.Parse(filepath.Base(path), data, own)
	var out []Finding
	for _, p := range problems {
		out = append(out, Finding{path, p})
	}
	if g != nil {
		for _, p := range Places(g, own) {
			out = append(out, Finding{path, p})
		}
	}
	return g, out, nil
}

// Places looks at the granted paths on this machine, which package grant does
// not: one that is not there or leads elsewhere is refused when it is mounted.
func Places(g *grant.Grant, own []string) (out []grant.Problem) {
	if g.Mode == grant.Deny {
		return nil
	}
	paths := append(append([]string{}, g.Paths.Read...), g.Paths.Write...)
	if g.Userland.Root != "" {
		paths = append(paths, g.Userland.Root)
	}
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if what, do := leads(g, p, own); what != "" {
			out = append(out, grant.Problem{File: g.ID, What: what, Do: do, Runbook: "grant-places"})
			continue
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, grant.Problem{File: g.ID, Warning: true, What: p + " is not there, so that a call that needs it is refused", Do: "make it, or correct the path", Runbook: "grant-places"})
		case err != nil:
			continue // not to be seen from here; brokerd's runner will tell
		case real != p:
			out = append(out, grant.Problem{File: g.ID, Warning: true, What: fmt.Sprintf("%s is a link, or lies behind one, and links are not followed", p), Do: "write " + real, Runbook: "grant-places"})
		}
	}
	return out
}

// leads says what is wrong with where a path leads by its links, as far as it is
// there: the rest of it may be made by anybody who can write there.
func leads(g *grant.Grant, p string, own []string) (what, do string) {
	rest := ""
	for at := p; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) && at != "/" {
			rest = filepath.Join(filepath.Base(at), rest)
			continue
		}
		real = filepath.Join(real, rest)
		if err != nil || real == filepath.Clean(p) { // as it is written it was looked at before
			return "", ""
		}
		what, do = grant.CheckPath(real, own)
		if what == "" && slices.Contains(g.Paths.Write, p) {
			what, do = grant.CheckPrograms(real)
		}
		if what != "" {
			what = fmt.Sprintf("%s leads to %s: %s", p, real, what)
		}
		return what, do
	}
}
