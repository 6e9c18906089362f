// Package runner has decisions run in containers, by runnerd.
//
// It takes nothing but a [policy.Decision], which it spends: what was not
// decided, or was run before, is not sent. An error marked by [driver.NotRun]
// means that nothing ran for certain; any other that nobody knows. It neither
// checks grants nor looks at what a tool says, beyond its form.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// A Client runs decisions by runnerd's socket. It keeps no connection, so that
// a runnerd that was started anew is found.
type Client struct {
	Socket string
	Grace  time.Duration // how long runnerd may take to end a container; 0: endGrace
}

// endGrace is that of a machine that is busy: mostly it takes some milliseconds.
const endGrace = 5 * time.Second

// Run runs a decision to its end. door is a socket below the run folder, or
// empty. When ctx ends the container does too, and Run returns after it, or after
// the grace.
func (c *Client) Run(ctx context.Context, d policy.Decision, door string, secrets []proto.LaunchSecret) (driver.Ran, error) {
	spec, err := d.Spend()
	if err != nil {
		return driver.Ran{}, driver.NotRun(proto.CodeInternal, fmt.Errorf("runner: %w", err))
	}
	launch, err := Launch(spec, door, secrets)
	if err != nil {
		return driver.Ran{}, driver.NotRun(proto.CodeInternal, err)
	}
	return c.send(ctx, launch)
}

func (c *Client) send(ctx context.Context, launch *proto.Launch) (driver.Ran, error) {
	if err := context.Cause(ctx); err != nil {
		return driver.Ran{}, driver.NotRun(proto.CodeNoRuntime, err)
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	conn, err := ipc.Dial(life, c.Socket, proto.RunnerEvents)
	if err != nil {
		return driver.Ran{}, driver.NotRun(proto.CodeNoRuntime, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() {
		if conn.Leave() != nil {
			end(context.Cause(ctx))
		}
		time.AfterFunc(cmp.Or(c.Grace, endGrace), func() { end(context.Cause(ctx)) })
	})()
	if err := conn.Send(launch); err != nil {
		return driver.Ran{}, unsent(err)
	}
	m, err := conn.Recv()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return driver.Ran{}, fmt.Errorf("runner: runnerd did not say how the call ended: %w", err)
	}
	switch m := m.(type) {
	case *proto.Ended:
		return ran(m)
	case *proto.Error: // before it started anything
		return driver.Ran{}, driver.NotRun(proto.CodeNoRuntime, m)
	default:
		return driver.Ran{}, fmt.Errorf("runner: runnerd answered with %s", m.Tag())
	}
}

// unsent: runnerd starts nothing before it has the whole frame. Whether it had
// that is known only if the socket did not take all of it.
func unsent(err error) error {
	var refused *proto.Error
	if errors.As(err, &refused) || errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrClosed) {
		return driver.NotRun(proto.CodeNoRuntime, err)
	}
	return fmt.Errorf("runner: %w", err)
}

// Launch says to runnerd what a spec says.
func Launch(s policy.Spec, door string, secrets []proto.LaunchSecret) (*proto.Launch, error) {
	limit := s.Limits.Output
	if limit == 0 {
		limit = tool.DefaultOutput
	}
	limit = min(limit, tool.MaxOutput)
	in := tool.Input{
		Args: s.Args, Read: list(s.Read), Write: list(s.Write), Plain: []string{}, Output: limit, MS: s.Limits.MS,
		Preview: s.Preview, Proxy: door != "", Seen: s.Seen,
	}
	if s.Preview { // of what it would write; the mounts themselves are read-only
		in.Write = in.Read
	}
	for _, i := range s.Inject {
		in.Plain = append(in.Plain, i.Host)
	}
	text, err := tool.EncodeInput(in)
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	l := &proto.Launch{
		Call: s.Call, Entry: s.Tool.Name, Input: string(text), Mounts: []proto.Mount{}, Hide: s.Hidden,
		Userland: s.Userland, Root: s.Root, Door: door, Secrets: secrets, Limits: s.Limits,
	}
	if l.Secrets == nil {
		l.Secrets = []proto.LaunchSecret{}
	}
	l.Limits.Output = tool.MaxDocument(limit)
	seen := map[string]bool{}
	mount := func(paths []string, write bool) {
		for _, p := range paths {
			if !seen[p] {
				l.Mounts = append(l.Mounts, proto.Mount{Path: p, Write: write})
			}
			seen[p] = true
		}
	}
	mount(s.Write, true) // first: what may be written may be read too
	mount(s.Read, false)
	return l, nil
}

func list(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

// ran reads what a tool said, if it ran to its end.
func ran(m *proto.Ended) (driver.Ran, error) {
	r := driver.Ran{Ended: *m}
	switch m.Reason {
	case proto.EndExit:
	case proto.EndNoRuntime, proto.EndLimit, proto.EndMount, proto.EndNoUserland, proto.EndTimeout, proto.EndMemory, proto.EndOutput, proto.EndKilled, proto.EndNoRoom, proto.EndDisk, proto.EndInternal:
		return r, nil
	default:
		return r, fmt.Errorf("runner: runnerd gave an unknown reason %q", m.Reason)
	}
	r.Ended.Dropped = 0 // the document says itself what is missing
	out, err := tool.DecodeOutput(m.Output)
	switch {
	case m.Exit != 0:
		r.Output = failed(fmt.Sprintf("its first process ended with status %d", m.Exit))
	case m.Dropped > 0:
		r.Output = failed("it wrote more than a result may have")
	case err != nil:
		r.Output = failed("what it wrote is no result")
		r.Ended.Detail = join(r.Ended.Detail, err.Error())
	default:
		r.Output = out
	}
	return r, nil
}

// failed is what the model reads of a tool that broke. Nothing in it comes out
// of the container.
func failed(why string) tool.Output {
	return tool.Output{Code: proto.CodeToolFailed, Text: "tool-failed: the tool broke: " + why + "; whether it did what it should is not known."}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
