package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"boxmaker/brokerd/internal/calls"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/tool"
)

// place waits for one of the places for containers.
func (d *Driver) place(ctx context.Context) (leave func(), ok bool) {
	select {
	case <-ctx.Done():
		return nil, false
	default:
	}
	select {
	case d.places <- struct{}{}:
		return func() { <-d.places }, true
	case <-ctx.Done():
		return nil, false
	}
}

// A setback is a reason for which a call did not run. It is no fault of brokerd.
type setback struct {
	code proto.Code // empty: it was stopped in front of its container
	text string     // for the model; empty: the usual one
	err  error      // for the owner
}

// NotRun is an error of a [Runner] or of [Doors]: for certain nothing ran. Any
// other error of a Runner means that nobody knows.
func NotRun(code proto.Code, err error) error { return &setback{code: code, err: err} }

func (s *setback) Error() string { return string(s.code) + ": " + s.err.Error() }
func (s *setback) Unwrap() error { return s.err }

// run runs the call. What came of it stands in the entry: ran and report, or
// runErr.
func (d *Driver) run(ctx context.Context, e *entry) {
	leave, ok := d.place(ctx)
	if !ok {
		e.runErr = &setback{err: errInterrupted}
		return
	}
	defer leave()
	if halted, _ := d.Halted(); halted { // the call may not have been told yet
		e.runErr = &setback{code: proto.CodeHalted, text: calls.Text(proto.CodeHalted, proto.CallDenied), err: errInterrupted}
		return
	}
	e.started = d.cfg.Now()
	values, err := d.values(e.facts.Grant)
	if err != nil {
		e.runErr = err
		return
	}
	door, closed, err := d.door(ctx, e)
	if err != nil {
		e.runErr = err
		return
	}
	ctx, cancel := d.bound(ctx, e)
	defer cancel()
	e.ran, e.runErr = d.cfg.Runner.Run(ctx, e.permit, door, values)
	e.report, e.lost = closed()
}

// bound ends the wait for a runnerd that does not end the call in its time.
func (d *Driver) bound(ctx context.Context, e *entry) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeLimit(e.facts.Grant)+doorGrace, errors.New("runnerd did not end the call in its time"))
}

func (d *Driver) secret(name string) (secret.Text, error) {
	v, err := d.cfg.Secrets.Get(name)
	if err != nil && !errors.Is(err, secret.ErrUnknown) && !errors.Is(err, fs.ErrNotExist) {
		return v, &setback{
			code: proto.CodeNotConfigured, err: err,
			text: fmt.Sprintf("not-configured: this call needs the secret %s, and the store of the secrets cannot be opened now, so it did not run. Tell the owner: bxctl status says why.", name),
		}
	}
	if err != nil {
		return v, &setback{
			code: proto.CodeNotConfigured, err: err,
			text: fmt.Sprintf("not-configured: this call needs the secret %s, which the owner has not set, so it did not run. Tell the owner: bxctl secret set %s.", name, name),
		}
	}
	return v, nil
}

// values are the secrets that the grant hands to the tool.
func (d *Driver) values(g *grant.Grant) ([]proto.LaunchSecret, error) {
	out := []proto.LaunchSecret{}
	for _, name := range g.Secrets.Names {
		if slices.ContainsFunc(g.Secrets.Inject, func(i grant.Inject) bool { return i.Name == name }) {
			continue // the tool never sees what is added for it
		}
		v, err := d.secret(name)
		if err != nil {
			return nil, err
		}
		out = append(out, proto.LaunchSecret{Name: name, Value: v.Reveal()})
	}
	return out, nil
}

// door opens the way out that the grant gives, if it gives one.
func (d *Driver) door(ctx context.Context, e *entry) (string, func() (proto.EgressReport, error), error) {
	none := func() (proto.EgressReport, error) { return proto.EgressReport{}, nil }
	w := WayOut{Call: e.call.ID, Hosts: e.facts.Hosts, Local: e.facts.Local, Bytes: d.cfg.Limits.Egress, Until: d.cfg.Now().Add(timeLimit(e.facts.Grant) + doorGrace)}
	if len(w.Hosts) == 0 {
		return "", none, nil
	}
	for _, i := range e.facts.Grant.Secrets.Inject {
		v, err := d.secret(i.Name)
		if err != nil {
			return "", nil, err
		}
		w.Inject = append(w.Inject, Injection{Host: i.Host, Header: i.Header, Prefix: i.Prefix, Value: v})
	}
	err := errors.New("there is no egressd (see runbook: egressd-away)")
	if d.cfg.Doors != nil {
		var door string
		var closed func() (proto.EgressReport, error)
		if door, closed, err = d.cfg.Doors.Open(ctx, w); err == nil {
			return door, closed, nil
		}
	}
	if s := new(setback); errors.As(err, &s) {
		return "", nil, err
	}
	return "", nil, NotRun(proto.CodeNoEgress, err)
}

// A door stays longer than its call, for the container takes some time to start.
// It is closed when the call ends; its own end is for a brokerd that is not there
// to do so. Without a time in the grant it is the longest that runnerd can have.
const (
	doorGrace = time.Minute
	doorMost  = 24 * time.Hour
)

func timeLimit(g *grant.Grant) time.Duration {
	if t := g.Limits.Time; t > 0 {
		return t
	}
	return doorMost
}

// maxDiff and maxText bound what is held of a preview and of a result; with
// every character escaped both still fit into a message.
const (
	maxDiff = 256 << 10
	maxText = 512 << 10
)

// preview finds out what the call would change. A preview that fails is no
// reason not to ask: the owner then reads why there is none.
func (d *Driver) preview(ctx context.Context, e *entry) {
	leave, ok := d.place(ctx)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := d.bound(ctx, e)
	defer cancel()
	e.ran, e.runErr = d.cfg.Runner.Run(ctx, e.asks.Preview, "", []proto.LaunchSecret{})
}

// question is what the owner is shown.
func (d *Driver) question(e *entry) proto.Approval {
	r := e.facts
	a := proto.Approval{
		Approval: e.asks.Approval, Asked: proto.Time(d.cfg.Now()), Expires: proto.Time(e.asks.Expires),
		Call: e.call.ID, Session: e.call.Session, Tool: r.Call.Tool.Name, Fields: r.Call.Fields(),
		Read: list(r.Call.Reads()), Write: list(r.Call.Writes()), Hosts: list(r.Call.Hosts()), Secrets: list(nil),
		Class: r.Grant.ResultClass, Taint: r.Taint, Untrusted: r.Untrusted, Grant: r.Grant.ID, Reason: r.Grant.Reason,
	}
	if name := r.Call.Tool.Name; name == tool.NameRun || name == tool.NameShell { // a program has all of its grant, wherever it starts
		a.Read, a.Write = list(r.Grant.Paths.Read), list(r.Grant.Paths.Write)
	}
	for _, h := range r.Hosts { // a redirect may lead to each of them
		if !slices.Contains(a.Hosts, h) {
			a.Hosts = append(a.Hosts, h)
		}
	}
	a.Secrets = append(a.Secrets, r.Grant.Secrets.Names...)
	for _, i := range r.Grant.Secrets.Inject {
		a.Secrets = append(a.Secrets, i.Name)
	}
	slices.Sort(a.Secrets)
	a.Secrets = slices.Compact(a.Secrets)
	if e.asks.HasPreview {
		a.Diff, a.DiffNote = d.diff(e)
		if e.runErr == nil {
			e.seen = e.ran.Output.Seen
		}
	}
	e.ran, e.runErr = Ran{}, nil
	return a
}

func list(s []string) []string { return append([]string{}, s...) }

// diff gives the preview's diff, and why there is none or a part only.
func (d *Driver) diff(e *entry) (diff, note string) {
	r := judge(e)
	switch {
	case r.Outcome != proto.CallOK:
		return "", "there is no diff: " + clip(d.cfg.Secrets.Clean(valid(r.Text)), 1<<10)
	case e.ran.Output.Diff == "" && e.ran.Output.Note == "":
		return "", "the call would change nothing"
	}
	note = clip(d.cfg.Secrets.Clean(valid(e.ran.Output.Note)), 1<<10)
	diff = d.cfg.Secrets.Clean(valid(e.ran.Output.Diff))
	if whole := len(diff); whole > maxDiff {
		diff = clip(diff, maxDiff)
		note = fmt.Sprintf("these are the first %d of %d bytes", len(diff), whole)
	}
	return diff, note
}

// clip cuts s to at most n bytes, between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// sum adds numbers of which a program may have made one up: its own result is
// what the first process of its container says, and it may reach that.
func sum(a, b int64) int64 {
	a, b = max(0, a), max(0, b)
	return a + min(b, math.MaxInt64-a)
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// seal makes the result fit to leave: secrets are taken out, and the session's
// taint is raised before anybody reads it.
func (d *Driver) seal(e *entry) (calls.Event, error) {
	r := judge(e)
	r.ID = e.call.ID
	r.Text = d.cfg.Secrets.Clean(valid(r.Text))
	if cut := clip(r.Text, maxText); len(cut) < len(r.Text) {
		r.Dropped = sum(r.Dropped, int64(len(r.Text)-len(cut)))
		r.Text = cut
	}
	detail := e.ran.Ended.Detail
	if e.runErr != nil {
		detail = e.runErr.Error()
	}
	if e.lost != nil {
		detail = strings.TrimPrefix(detail+"; what passed over the network is not known: "+e.lost.Error(), "; ")
	}
	e.kept = &calls.Kept{
		Digest: e.digest, Session: e.call.Session, Result: r,
		Detail: clip(d.cfg.Secrets.Clean(valid(detail)), maxDetail),
	}
	e.kept.Egress, e.kept.More = d.passed(e.report)
	if !e.started.IsZero() {
		e.kept.MS = max(0, d.cfg.Now().Sub(e.started).Milliseconds())
	}
	if r.Class == proto.ClassPublic && !r.Untrusted {
		return calls.Sealed{}, nil // nothing that a session has not seen
	}
	return calls.Sealed{}, d.cfg.Taint.Raise(e.call.Session, r.Class, r.Untrusted)
}
