package boot

import (
	"context"
	"errors"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Refused is an error of the start that the owner must mend: starting again
// cannot help.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// ask asks one of the sockets that brokerd is a client of, and names it in the
// rows that it gives.
func ask[M proto.Message](ctx context.Context, socket string, events proto.Union, req proto.Message) (m M, err error) {
	got, err := ipc.Ask(ctx, socket, events, req)
	if err != nil {
		return m, err
	}
	m, ok := got.(M)
	if !ok {
		return m, errors.New("the answer does not fit the request")
	}
	return m, nil
}

func failed(name string, err error, runbook string) []proto.Check {
	return []proto.Check{{Name: name, State: "failed", Detail: err.Error(), Runbook: runbook}}
}

func skipped(name, why string) []proto.Check {
	return []proto.Check{{Name: name, State: "skipped", Detail: why}}
}

// trialTime is how long runnerd may try out containers, the first time that it is
// asked, on a slow machine: who leaves before it knows makes it begin anew.
const trialTime = 2 * time.Minute

// runnerLook asks runnerd what it can do here.
func runnerLook(socket string) Look {
	return Look{Name: "runner", Most: trialTime, Ask: func(ctx context.Context) []proto.Check {
		if socket == "" {
			return skipped("runner", "no runnerd is set, so nothing can run")
		}
		m, err := ask[*proto.RunnerStatus](ctx, socket, proto.RunnerEvents, &proto.GetRunner{})
		if err != nil {
			return failed("runner", err, "runnerd-away")
		}
		rows := []proto.Check{{Name: "runner", State: "ok", Detail: m.Runtime + ", runnerd " + m.Version}}
		return append(rows, within("runner", m.Checks, m.Confinement)...)
	}}
}

// egressLook asks egressd how it is.
func egressLook(socket string) Look {
	return Look{Name: "egress", Ask: func(ctx context.Context) []proto.Check {
		if socket == "" {
			return skipped("egress", "no egressd is set, so no call reaches the network")
		}
		m, err := ask[*proto.EgressStatus](ctx, socket, proto.EgressEvents, &proto.GetEgress{})
		if err != nil {
			return failed("egress", err, "egressd-away")
		}
		rows := []proto.Check{{Name: "egress", State: "ok", Detail: "egressd " + m.Version}}
		return append(rows, within("egress", m.Confinement)...)
	}}
}

// within are rows of another program, with its name before theirs.
func within(part string, lists ...[]proto.Check) (rows []proto.Check) {
	for _, l := range lists {
		for _, c := range l {
			c.Name = part + ": " + c.Name
			rows = append(rows, c)
		}
	}
	return rows
}
