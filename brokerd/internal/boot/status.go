package boot

import (
	"errors"
	"fmt"
	"strings"

	"boxmaker/internal/chain"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// status says how brokerd is.
func (b *Broker) status() *proto.BrokerStatus {
	halted, reason := b.driver.Halted()
	n := b.driver.Counts()
	s := &proto.BrokerStatus{
		Version: b.cfg.Version, Since: proto.Time(b.since), Halted: halted, HaltReason: reason,
		Running: n.Running, Pending: n.Pending, Kept: n.Kept, Broken: []string{}, Head: b.log.Head(),
		Checks: b.health.checks(), Confinement: b.cfg.Confined,
	}
	if s.Confinement == nil {
		s.Confinement = []proto.Check{}
	}
	grants := proto.Check{Name: "grants", State: "ok"}
	set, err := b.cfg.Grants.Read()
	s.Grants = len(set.Grants)
	for _, p := range set.Broken {
		s.Broken = append(s.Broken, place(p)+": "+p.What)
	}
	switch {
	case err != nil:
		grants.State, grants.Detail, grants.Runbook = "failed", err.Error(), "grant-folder"
	case len(s.Broken) > 0:
		grants.State, grants.Runbook = "failed", "grant-file"
		grants.Detail = fmt.Sprintf("%d files grant nothing: `bxctl grants check` says why", len(s.Broken))
	default:
		grants.Detail = fmt.Sprintf("%d grants", s.Grants)
	}
	log := proto.Check{Name: "audit", State: "ok", Detail: fmt.Sprintf("%d records", s.Head.N)}
	if err := b.log.Look(); err != nil {
		log.State, log.Runbook = "failed", "log-write-failed"
		log.Detail, _, _ = strings.Cut(err.Error(), " (see runbook: ") // the row has its own
		var changed *chain.Fault
		if errors.As(err, &changed) {
			log.Runbook = "audit-damaged"
		}
	}
	s.Checks = append(s.Checks, b.secrets.check(), grants, log)
	return s
}

func place(p grant.Problem) string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return p.File
}

// explain says which grant would decide on a call. Nothing is recorded.
func (b *Broker) explain(m *proto.Explain) (*proto.Explained, error) {
	out := &proto.Explained{Verdict: proto.VerdictDeny, Taint: proto.ClassPrivate, Steps: []proto.ExplainStep{}}
	if m.Session != "" {
		out.Taint, out.Untrusted, _ = b.taint.Get(m.Session) // of a damaged record it gives the worst
	}
	t := tool.Find(m.Tool)
	if t == nil {
		out.Code, out.Why = proto.CodeUnknownTool, "there is no tool of that name"
		return out, nil
	}
	call, err := t.Decode(m.Args)
	if err != nil {
		out.Code, out.Why = proto.CodeInvalidArguments, err.Error()
		return out, nil
	}
	set, err := b.cfg.Grants.Read()
	if err != nil {
		return nil, err
	}
	v := set.Decide(grant.Request{Call: call, Taint: out.Taint, Untrusted: out.Untrusted, Now: b.now()})
	out.Verdict, out.Code, out.Why = v.Verdict, v.Code, v.Why
	if v.Grant != nil {
		out.Grant = v.Grant.ID
	}
	out.Steps = append(out.Steps, v.Steps...)
	return out, nil
}
