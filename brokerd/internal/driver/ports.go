package driver

import (
	"context"
	"time"

	"boxmaker/brokerd/internal/audit"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/tool"
)

// Audit is what the driver needs of the audit log. After an error nothing can be
// appended any more.
type Audit interface {
	Append(r proto.AuditRecord) (audit.Ref, error)
	Head() proto.AuditHead
}

// Rules decides, and puts it on record. It is a *policy.Engine.
type Rules interface {
	Decide(r policy.Request) (policy.Ruling, error)
	Settle(s policy.Settlement) (policy.Ruling, error)
}

// Taint keeps what a session has seen.
type Taint interface {
	Get(session string) (proto.Class, bool, error)
	Raise(session string, class proto.Class, untrusted bool) error
}

// Runner runs a decision in a container.
type Runner interface {
	Run(ctx context.Context, d policy.Decision, door string, secrets []proto.LaunchSecret) (Ran, error)
}

// Ran is how a container ended. Ended.Output is decoded in Output.
type Ran struct {
	Output tool.Output
	Ended  proto.Ended
}

// Doors opens ways out.
type Doors interface {
	// Open gives the door's socket, as runnerd takes it, and what closes it. An
	// error of that means that nobody knows what passed.
	Open(ctx context.Context, w WayOut) (door string, closed func() (proto.EgressReport, error), err error)
}

// A WayOut is what a call may reach.
type WayOut struct {
	Call   string
	Hosts  []string
	Local  []string
	Inject []Injection
	Bytes  int64
	Until  time.Time
}

// An Injection is a header that is added outside of the container.
type Injection struct {
	Host, Header, Prefix string
	Value                secret.Text
}

// Secrets gives values, and takes them out of texts.
type Secrets interface {
	Get(name string) (secret.Text, error)
	// Clean replaces every known value in a text.
	Clean(text string) string
}
