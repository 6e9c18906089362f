package boot

import (
	"context"
	"errors"

	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
)

// Parts sets what runs calls and what opens ways out, by the sockets of runnerd
// and egressd, and the folder for brokerd's own doors.
func (c *Config) Parts(runner, egress, doors string) {
	c.Runner = noRunner{}
	c.Looks = append(c.Looks, runnerLook(runner), egressLook(egress))
}

type noRunner struct{}

func (noRunner) Run(context.Context, policy.Decision, string, []proto.LaunchSecret) (driver.Ran, error) {
	return driver.Ran{}, driver.NotRun(proto.CodeNoRuntime, errors.New("no runnerd is set"))
}
