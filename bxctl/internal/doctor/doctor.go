// Package doctor examines an installation for everything that an owner can get
// wrong, and says how to mend it.
//
// It only looks, and changes nothing unless [Options.Fix] is set; then it does
// just what cannot lose anything: rights and owners of our own files, sockets
// that nobody serves, remains of what was never finished. Every finding names
// what was looked at, and one that is not good names a mend. A check that can't
// be made here is skipped and says why; it is never called ok.
//
// It proves nothing about later, and it trusts the kernel and this program.
package doctor

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"time"

	"boxmaker/internal/config"
)

// A Verdict is the outcome of one finding.
type Verdict string

// Verdicts, from good to bad. Skipped counts as good.
const (
	OK      Verdict = "ok"
	Skipped Verdict = "skipped"
	Warn    Verdict = "warn"
	Fail    Verdict = "fail"
)

// A Finding is one thing that was looked at.
type Finding struct {
	Check   string  `json:"check"`
	Looked  string  `json:"looked"` // what was looked at
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitzero"`
	Mend    string  `json:"mend,omitzero"`
	Fix     string  `json:"fix,omitzero"` // what --fix would do; empty if it can do nothing safely
	Runbook string  `json:"runbook,omitzero"`

	mend func() error // does Fix
}

// A Report is the whole examination.
type Report struct {
	Home     string    `json:"home"`
	Version  string    `json:"version"`
	Time     string    `json:"time"`
	Verdict  Verdict   `json:"verdict"` // the worst
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
	Mended   []Mended  `json:"mended,omitempty"`
	Findings []Finding `json:"findings"`
}

// Mended is something that Fix did, or tried.
type Mended struct {
	Check string `json:"check"`
	What  string `json:"what"`
	Error string `json:"error,omitzero"`
}

// Options say what to examine. Fields below the line are for tests; their zero
// values mean the real world.
type Options struct {
	Layout  config.Layout
	Self    string // path of bxctl; the other programs lie beside it
	Version string
	Getenv  func(string) string
	Now     func() time.Time
	Fix     bool
	Tell    func(string) // progress, one line at a time; may be nil

	Root      func() bool // the programs are dropped to uids of their own
	Proc      string      // instead of /proc
	Temporary []string    // instead of the folders that a system empties
	Build     func(path string) (Build, error)
	StatFS    func(path string) (FileSystem, error)
	Landlock  func() (int, error)
	Spaces    func(ctx context.Context) error // whether a namespace can be made
	LookPath  func(program string) (string, error)
	// RuntimeVersion asks a container runtime.
	RuntimeVersion func(ctx context.Context, path string) (string, error)
}

// A check looks at one thing and reports to the exam.
type check struct {
	name string
	key  string // section of the runbook for findings without one of their own
	run  func(*exam)
}

// checks in the order in which an owner would look: what is written, what is
// there, what runs, what the machine gives.
func checks() []check {
	return []check{
		{"environment", "doctor-environment", environment},
		{"home", "doctor-home", home},
		{"config-files", "doctor-config-files", configFiles},
		{"config-fit", "doctor-config-fit", configFit},
		{"grants", "doctor-grants", grants},
		{"granted", "doctor-granted", granted},
		{"workspace", "doctor-workspace", workspace},
		{"secrets", "doctor-secrets", secrets},
		{"model-file", "doctor-model-file", modelFile},
		{"programs", "doctor-programs", programs},
		{"rights", "doctor-rights", rights},
		{"disk", "doctor-disk", disk},
		{"kernel", "doctor-kernel", kernel},
		{"runner", "doctor-runner", runner},
		{"lock", "doctor-lock", lock},
		{"daemons", "doctor-daemons", daemons},
		{"versions", "doctor-versions", versions},
		{"sockets", "doctor-sockets", sockets},
		{"upstream", "doctor-upstream", upstream},
		{"loopd", "doctor-loopd", loopd},
		{"server", "doctor-server", server},
		{"brokerd", "doctor-brokerd", brokerd},
		{"chat", "doctor-chat", chat},
		{"confinement", "doctor-confinement", confinement},
		{"listeners", "doctor-listeners", listeners},
		{"clock", "doctor-clock", clock},
		{"logs", "doctor-logs", logs},
		{"audit", "doctor-audit", auditLog},
		{"leftovers", "doctor-leftovers", leftovers},
	}
}

// Names lists the checks.
func Names() []string {
	var out []string
	for _, c := range checks() {
		out = append(out, c.name)
	}
	return out
}

// Run examines, mends if it may, and then examines again. The error is only of
// ctx.
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.defaults()
	findings, err := examine(ctx, o)
	var done []Mended
	if err == nil && o.Fix {
		for _, f := range findings {
			if f.mend == nil || f.Verdict == OK || f.Verdict == Skipped {
				continue
			}
			m := Mended{Check: f.Check, What: f.Fix}
			if err := f.mend(); err != nil {
				m.Error = err.Error()
			}
			done = append(done, m)
		}
		if len(done) > 0 {
			findings, err = examine(ctx, o)
		}
	}
	r := Report{Home: o.Layout.Home, Version: o.Version, Time: o.Now().UTC().Format(time.RFC3339), Verdict: OK, Mended: done, Findings: findings}
	for _, f := range findings {
		switch f.Verdict {
		case Fail:
			r.Failures++
			r.Verdict = Fail
		case Warn:
			r.Warnings++
			if r.Verdict == OK {
				r.Verdict = Warn
			}
		case OK, Skipped:
		default:
			return r, fmt.Errorf("doctor: %s: no such verdict: %q", f.Check, f.Verdict)
		}
	}
	return r, err
}

func examine(ctx context.Context, o Options) ([]Finding, error) {
	x := &exam{Options: o, ctx: ctx}
	for _, c := range checks() {
		if ctx.Err() != nil {
			return x.findings, context.Cause(ctx)
		}
		x.tell(c.name)
		x.check, x.key = c.name, c.key
		before := len(x.findings)
		c.run(x)
		if len(x.findings) == before {
			x.skip("nothing", "there was nothing to look at")
		}
	}
	return x.findings, nil
}

func (o Options) defaults() Options {
	if o.Root == nil {
		o.Root = func() bool { return os.Geteuid() == 0 }
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp", "/dev/shm", os.TempDir()}
	}
	if o.Build == nil {
		o.Build = buildOf
	}
	if o.StatFS == nil {
		o.StatFS = statFS
	}
	if o.Landlock == nil {
		o.Landlock = landlockABI
	}
	if o.Spaces == nil {
		o.Spaces = func(ctx context.Context) error { return namespaces(ctx, o.Self) }
	}
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if o.RuntimeVersion == nil {
		o.RuntimeVersion = versionOf
	}
	return o
}

// Build is what is built into a program file.
type Build struct {
	Path     string // import path of its main package
	Revision string // of the source, with + if it was changed; empty if unknown
	Go       string
}

func buildOf(path string) (Build, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Build{}, err
	}
	b := Build{Path: info.Path, Go: info.GoVersion}
	changed := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	if b.Revision != "" {
		b.Revision += changed
	}
	return b, nil
}
