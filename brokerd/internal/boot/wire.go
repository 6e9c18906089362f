package boot

import (
	"context"
	"errors"

	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/egress"
	"boxmaker/brokerd/internal/inject"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/brokerd/internal/runner"
	"boxmaker/internal/proto"
)

// Parts sets what runs calls and what opens ways out, by the sockets of runnerd
// and egressd, and the folder for brokerd's own doors. It must be called before
// the process is confined.
func (c *Config) Parts(runnerd, way, doors string) error {
	c.Runner = noRunner{}
	if runnerd != "" {
		c.Runner = &runner.Client{Socket: runnerd}
	}
	c.Looks = append(c.Looks, runnerLook(runnerd), egressLook(way))
	if way == "" || doors == "" {
		return nil
	}
	roots, err := inject.Roots()
	if err != nil {
		c.Log.Warn("no secret can be added to requests", "error", err.Error())
	}
	d, err := inject.New(inject.Config{Egress: &egress.Client{Socket: way}, Dir: doors, Roots: roots, Log: c.Log})
	if err != nil {
		return err
	}
	c.Doors = d
	return nil
}

type noRunner struct{}

func (noRunner) Run(context.Context, policy.Decision, string, []proto.LaunchSecret) (driver.Ran, error) {
	return driver.Ran{}, driver.NotRun(proto.CodeNoRuntime, errors.New("no runnerd is set"))
}
