package doctor

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// loopd: its own word about itself.
func loopd(x *exam) {
	path := x.Layout.Socket("loopd", "bxctl", "loop")
	s := x.loopd()
	if x.running().pid == 0 && s.err != nil {
		x.skip(path, "Boxmaker does not run")
		return
	}
	if s.err != nil {
		text, key := split(s.err)
		x.add(Finding{Looked: path, Verdict: Fail, Detail: "loopd does not answer: " + text, Mend: "see the end of " + filepath.Join(x.Layout.Log, "loopd.log"), Runbook: first(key, "loopd-silent")})
		return
	}
	before := len(x.findings)
	if s.st.State != "ready" {
		text, key := split(errors.New(s.st.Detail))
		x.add(Finding{Looked: path, Verdict: Warn, Detail: "loopd is " + s.st.State + ": " + term.Line(text), Mend: "it goes on trying; see the rows of upstream", Runbook: first(key, "not-ready")})
	}
	for _, c := range s.st.Checks {
		if c.State == "failed" {
			x.add(Finding{Looked: "self-test " + c.Name, Verdict: Fail, Detail: term.Line(c.Detail), Mend: "see the runbook", Runbook: first(c.Runbook, "selftest-"+c.Name)})
		}
	}
	x.rows("confinement of loopd: ", s.st.Confinement)
	if len(x.findings) == before {
		x.ok(path, "ready, %d checks of its self-test, baseline %s tokens", len(s.st.Checks), term.Count(s.st.Baseline))
	}
}

func (x *exam) rows(what string, rows []proto.Check) {
	for _, c := range rows {
		if c.State != "ok" && c.State != "skipped" {
			x.add(Finding{Looked: what + c.Name, Verdict: Warn, Detail: term.Line(c.Detail), Mend: "see the runbook", Runbook: first(c.Runbook, "doctor-confinement")})
		}
	}
}

// server: what the inference server is, against what was expected of it.
func server(x *exam) {
	c, s := x.config(), x.server()
	if s.err != nil || s.health != nil || s.absent || s.props.Build == "" {
		x.skip(s.addr.String(), "the server can't be asked now")
		return
	}
	ld, before := filepath.Join(x.Layout.Config, "loopd.toml"), len(x.findings)
	bad := func(key, detail, mend string) {
		x.add(Finding{Looked: s.addr.String(), Verdict: Fail, Detail: detail, Mend: mend, Runbook: key})
	}
	p, e := s.props, c.loopd.Expect
	if e.Template != "" && !strings.EqualFold(e.Template, p.Hash()) {
		bad("selftest-template", fmt.Sprintf("the chat template is another one than pinned: %.16s… instead of %.16s…", first(p.Hash(), "none"), e.Template),
			"serve the pinned template (--chat-template-file); or, after bxctl measure has shown that the new one is good, put its hash into expect.template in "+ld)
	}
	if e.Context > 0 && p.Settings.Window < e.Context {
		bad("selftest-context", fmt.Sprintf("a slot has %s tokens, expected are %s", term.Count(p.Settings.Window), term.Count(e.Context)),
			fmt.Sprintf("start llama-server with -c %d (for %d slots), or lower expect.context in %s", e.Context*int64(p.Slots), p.Slots, ld))
	}
	if room := int64(c.loopd.Sampling.MaxTokens + baselineRoom); p.Settings.Window < room {
		bad("selftest-context", fmt.Sprintf("a slot has %s tokens, and a completion may need %s", term.Count(p.Settings.Window), term.Count(room)),
			"start llama-server with a larger -c, or lower sampling.max_tokens in "+ld)
	}
	if need := max(c.loopd.Slots.Main, c.loopd.Slots.Background) + 1; p.Slots < max(need, e.Slots) {
		bad("selftest-slots", fmt.Sprintf("the server has %d slots, and %d are needed", p.Slots, max(need, e.Slots)),
			fmt.Sprintf("start llama-server with -np %d and -c for all slots together", max(need, e.Slots)))
	}
	if !strings.HasPrefix(p.Build, e.Build) {
		bad("selftest-server", fmt.Sprintf("the server is build %.40q, expected is %.40q", p.Build, e.Build), "read its release notes, then change expect.build in "+ld)
	}
	if p.Template == "" && p.Role != "router" {
		bad("selftest-template", "the server has no chat template", "start llama-server with --jinja and a model that has one")
	}
	if len(x.findings) == before {
		pinned := "pinned"
		if e.Template == "" {
			pinned = "not pinned; bxctl measure prints what to expect"
		}
		x.ok(s.addr.String(), "%d slots of %s tokens, template %.16s (%s)", p.Slots, term.Count(p.Settings.Window), p.Hash(), pinned)
	}
}

// ExitCode is the exit code of a report.
func (r Report) ExitCode() int {
	switch r.Verdict {
	case Fail:
		return ExitFailures
	case Warn:
		return ExitWarnings
	case OK, Skipped:
		return fault.OK
	default:
		return fault.Failed
	}
}

// Exit codes of bxctl doctor beside 0.
const (
	ExitWarnings = 5
	ExitFailures = 6
)
