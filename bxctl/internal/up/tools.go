package up

import (
	"context"
	"errors"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// trialTime is how long the first container that runnerd tries is waited for:
// without tools one can talk, so it must not hold up the rest.
const trialTime = 2 * time.Second

// awaitTools returns when brokerd answers. lack is why no tool can run, if it is
// known by then; the error is that of ctx. Whatever keeps brokerd away is told.
func awaitTools(ctx context.Context, c owner.Client, roles func() []report.Role, tell func(string)) (lack string, err error) {
	var tried time.Time
	told := ""
	for pause := lookOften; ; pause = min(pause*11/10, lookSeldom) {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		st, err := c.Status(short)
		cancel()
		switch {
		case err == nil:
			lack, known := toolsLack(st)
			if tried.IsZero() {
				tried = time.Now()
			}
			if known || time.Since(tried) > trialTime {
				return lack, nil
			}
		case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || away(err):
			why := "brokerd does not answer yet"
			if r := endOf(roles(), roleBroker); r != "" {
				why = r
			}
			if why != told {
				told = why
				tell("tools are not available: " + why)
			}
		default: // waiting mends nothing: it may not be asked, or is of another version
			return fault.Line(err), nil
		}
		select {
		case <-ctx.Done():
			return told, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// away reports whether nobody answers, or not to the end, as while all stops.
func away(err error) bool {
	var f *fault.Fault
	return errors.As(err, &f) && (f.Key == "brokerd-away" || f.Key == "brokerd-connection")
}

// toolsLack reads in brokerd's status why nothing can run.
func toolsLack(st *proto.BrokerStatus) (why string, known bool) {
	for _, c := range st.Checks {
		if c.Name != "runner" && c.Name != "runner: runtime" {
			continue
		}
		known = c.State != "pending"
		if c.State == "failed" {
			return fault.Line(&fault.Fault{What: term.Line(c.Detail), Key: c.Runbook}), true
		}
	}
	return "", known
}

// endOf tells how a role ended that does not run now.
func endOf(roles []report.Role, name string) string {
	for _, r := range roles {
		if r.Name == name && r.PID == 0 && r.Exit != "" {
			return name + " " + r.Ended()
		}
	}
	return ""
}

// noTools is the line about tools that can't run.
func noTools(lack string) string {
	return "tools are not available: " + lack + "; see bxctl logs brokerd"
}
