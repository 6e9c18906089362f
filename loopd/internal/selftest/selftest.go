// Package selftest finds out, before the first turn, whether an inference server
// keeps what Boxmaker's inference contract rests on: the right model in large
// enough slots, a chat template that only ever appends, a prompt cache that
// hits, tool calls that parse, a thinking cap that works.
//
// Every check is made against the server as it runs, with the very bytes that
// sessions will send, on the background slot. A check that cannot be made on a
// server is skipped and says why; it is never called ok. The package guarantees
// nothing about later: another program may evict a slot, a server may be
// restarted with other flags.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/llama"

	"github.com/go-json-experiment/json/jsontext"
)

// Names of the checks, in the order in which they are made. The runbook key of
// each is "selftest-" and the name.
const (
	checkServer      = "server"
	checkModel       = "model"
	checkSlots       = "slots"
	checkContext     = "context"
	checkTemplate    = "template"
	checkSpeculative = "speculative"
	checkKV          = "kv"
	checkBaseline    = "baseline"
	checkExtension   = "extension"
	checkToolCall    = "tool-call"
	checkSampling    = "sampling"
	checkThinkingCap = "thinking-cap"
	checkCache       = "cache"
)

// Names lists the checks in order.
func Names() []string {
	return []string{
		checkServer, checkModel, checkSlots, checkContext, checkTemplate, checkSpeculative, checkKV,
		checkBaseline, checkExtension, checkToolCall, checkSampling, checkThinkingCap, checkCache,
	}
}

// MaxBaseline is how many tokens system prompt, tools and core memory may have.
const MaxBaseline = 3000

// Config says what to test, and against what.
type Config struct {
	Client *llama.Client

	// What sessions will send. Raw members are used as they are.
	System   jsontext.Value // system message
	Tools    jsontext.Value // array
	Sampling jsontext.Value // object: the other constant members of a request

	Main, Background int // slots by id; the test uses the background slot

	Expect      Expect
	MaxBaseline int64 // tokens; 0 means [MaxBaseline]

	Skip []string // names of checks that the owner takes upon himself

	On   func(proto.Check) // called for each check when it is done; may be nil
	Wait func(llama.Event) // called while the server is waited for; may be nil
}

// Expect is what the owner wants to find. A zero value is not compared.
type Expect struct {
	Model    string // id or alias; empty: the first that the server lists
	Context  int64  // n_ctx of a slot, at least
	Slots    int    // at least
	Template string // SHA-256 of the chat template, hex
	Build    string // prefix of the server's build
}

// Report is what was found.
type Report struct {
	Checks   []proto.Check
	Server   proto.Server
	Template string // text of the chat template
	Baseline int64  // tokens of system prompt and tools; 0 if it could not be counted
	Thinks   bool   // the model was seen thinking
}

// Failure is the error of a server that does not fit.
type Failure struct {
	Checks []proto.Check // those that failed, in order; at least one
	cause  error
}

// Error tells the first failed check in full and names the others: they often
// have the same cause.
func (f *Failure) Error() string {
	var b strings.Builder
	for i, c := range f.Checks {
		if i == 0 {
			fmt.Fprintf(&b, "self-test: the inference server does not fit; %s: %s (see runbook: %s)", c.Name, c.Detail, c.Runbook)
			continue
		}
		fmt.Fprintf(&b, "; %s failed too (see runbook: %s)", c.Name, c.Runbook)
	}
	return b.String()
}

// Unwrap gives the error behind the first failed check, such as an
// [llama.Error]; often nil.
func (f *Failure) Unwrap() error { return f.cause }

// States of a check (proto.Check).
const (
	stateOK      = "ok"
	stateFailed  = "failed"
	stateSkipped = "skipped"
)

// result is what one check found.
type result struct {
	state, detail string
	cause         error
}

func ok(format string, args ...any) result {
	return result{state: stateOK, detail: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) result {
	return result{state: stateSkipped, detail: fmt.Sprintf(format, args...)}
}

// failed says what was expected, what was found, and what to do about it.
func failed(expected, found, todo string) result {
	return result{state: stateFailed, detail: "expected " + expected + "; found " + found + "; " + todo}
}

// broke says that the check's own request failed.
func broke(expected string, err error, todo string) result {
	r := failed(expected, message(err), todo)
	r.cause = err
	return r
}

// message is an error's text without its runbook key: the check has its own.
func message(err error) string {
	var e *llama.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Status != 0 {
		return fmt.Sprintf("%q (HTTP %d)", e.Message, e.Status)
	}
	return e.Message
}

// Run makes all checks. The report is whole up to where it got. The error is a
// [*Failure] if the server does not fit, or that of ctx.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r, err := newRunner(cfg)
	if err != nil {
		return Report{}, err
	}
	steps := map[string]func(context.Context) result{
		checkServer: r.server, checkModel: r.model, checkSlots: r.slots, checkContext: r.context,
		checkTemplate: r.template, checkSpeculative: r.speculative, checkKV: r.kv, checkBaseline: r.baseline,
		checkExtension: r.extension, checkToolCall: r.toolCall, checkSampling: r.sampling,
		checkThinkingCap: r.thinkingCap, checkCache: r.cache,
	}
	var failure Failure
	for _, name := range Names() {
		res := r.step(ctx, name, steps[name])
		if err := ctx.Err(); err != nil {
			return r.report, fmt.Errorf("self-test: %w", context.Cause(ctx))
		}
		c := proto.Check{Name: name, State: res.state, Detail: res.detail}
		if res.state == stateFailed {
			c.Runbook = "selftest-" + name
			if len(failure.Checks) == 0 {
				failure.cause = res.cause
			}
			failure.Checks = append(failure.Checks, c)
		}
		r.report.Checks = append(r.report.Checks, c)
		r.cfg.On(c)
		if name == checkServer && res.state == stateFailed {
			break // nothing else could be found out
		}
	}
	if len(failure.Checks) > 0 {
		return r.report, &failure
	}
	return r.report, nil
}

// step makes one check, unless the owner skips it. Looking at the server is
// never left out: the other checks rest on what it finds.
func (r *runner) step(ctx context.Context, name string, check func(context.Context) result) result {
	skip := slices.Contains(r.cfg.Skip, name)
	if skip && name != checkServer && name != checkModel {
		return skipped("by the owner")
	}
	res := check(ctx)
	if skip && res.state == stateFailed && r.found {
		return skipped("by the owner; it would have failed: %s", res.detail)
	}
	return res
}
