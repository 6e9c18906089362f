package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"
)

// Checks that only look: /health, /v1/models, /props, /slots.

// server waits until the server answers, and sees whether it is a llama-server.
func (r *runner) server(ctx context.Context) result {
	const expected = "a llama-server that answers"
	if err := r.client.Ready(ctx, r.cfg.Wait); err != nil {
		return broke(expected, err, advice(err))
	}
	var err error
	if r.listed, err = r.client.Models(ctx); err != nil {
		return broke(expected, err, advice(err))
	}
	r.client = r.client.For(r.choose())
	r.props, err = r.client.Props(ctx)
	if llama.NotLoaded(err) {
		if err = r.wake(ctx); err == nil {
			r.props, err = r.client.Props(ctx)
		}
	}
	switch {
	case err != nil:
		return broke(expected, err, advice(err))
	case r.props.Router:
		return failed("the properties of a model", "those of a router", "set upstream.model to one of the router's models")
	case r.props.Build == "" || r.props.Slots == 0:
		return failed(expected, "another server: its /props has no build and no slots", "point Boxmaker at a llama-server")
	}
	r.found = true
	r.report.Template = r.props.Template
	r.report.Server = proto.Server{
		Model: r.client.Model(), Build: r.props.Build, Context: max(r.props.Context, 0), Slots: max(r.props.Slots, 0),
		Template: r.props.TemplateHash(), Practice: strings.Contains(r.props.Build, "practice"),
	}
	if want := r.cfg.Expect.Build; !strings.HasPrefix(r.props.Build, want) {
		return failed(fmt.Sprintf("build %q", want), fmt.Sprintf("%q", r.props.Build),
			"read the server's release notes, then change expect.build, or run the old build")
	}
	return ok("llama-server %s", r.props.Build)
}

// advice is what to do about an error of a look.
func advice(err error) string {
	var e *llama.Error
	if !errors.As(err, &e) {
		return "look at the server's log"
	}
	switch {
	case e.Why == proto.WhyUnauthorised:
		return "start llama-server without --api-key: loopd holds no credentials, and the socket is what protects the server"
	case e.Why == proto.WhyUnreachable && e.Status == http.StatusServiceUnavailable:
		return "wait until the model is loaded, or look at the server's log; upstream.load says how long to wait"
	case e.Why == proto.WhyUnreachable:
		return "start llama-server, and check the address that inferproxy was given"
	case e.Why == proto.WhyBadData, e.Status == http.StatusNotFound:
		return "point Boxmaker at a llama-server"
	default:
		return "look at the server's log"
	}
}

// choose is the expected model, or the client's, or else the first that is listed.
func (r *runner) choose() string {
	first := ""
	if len(r.listed) > 0 {
		first = r.listed[0].ID
	}
	return cmp.Or(r.cfg.Expect.Model, r.client.Model(), first)
}

// isModel tells whether m is the model under test.
func (r *runner) isModel(m llama.Model) bool {
	return m.ID == r.client.Model() || slices.Contains(m.Aliases, r.client.Model())
}

// wake makes a router load the model: only a chat does, a look must not.
func (r *runner) wake(ctx context.Context) error {
	s, err := r.with(member{"max_tokens", "1"}, member{"reasoning_budget_tokens", "0"})
	if err != nil {
		return err
	}
	body, err := r.body(s, prompt.UserMessage("Hi"))
	if err != nil {
		return err
	}
	if got, err := r.client.Chat(ctx, body, r.cfg.Wait); err != nil && !got.Complete {
		return err
	}
	return nil
}

// model: a server with one model answers 200 for any name, so the list decides.
func (r *runner) model(context.Context) result {
	want := r.client.Model()
	var have []string
	for _, m := range r.listed {
		if r.isModel(m) {
			return ok("%q", want)
		}
		have = append(have, fmt.Sprintf("%.60q", m.ID))
	}
	if len(have) == 0 {
		have = []string{"none"}
	}
	return failed(fmt.Sprintf("model %q", want), strings.Join(have[:min(len(have), 8)], ", "),
		"set upstream.model to a model that the server has, or start the server with --alias")
}

// slots: an id_slot that does not exist is ignored without a word.
func (r *runner) slots(context.Context) result {
	want := max(r.cfg.Expect.Slots, r.cfg.Main+1, r.cfg.Background+1)
	if r.props.Slots < want {
		return failed(fmt.Sprintf("at least %d slots (slots.main is %d, slots.background is %d)", want, r.cfg.Main, r.cfg.Background),
			fmt.Sprint(r.props.Slots), fmt.Sprintf("start llama-server with -np %d or more, and -c for all slots together", want))
	}
	return ok("%d; main is %d, background is %d", r.props.Slots, r.cfg.Main, r.cfg.Background)
}

// leastSlots is how many slots the server has, or should have if that is more.
func (r *runner) leastSlots() int {
	return max(r.props.Slots, r.cfg.Expect.Slots, r.cfg.Main+1, r.cfg.Background+1)
}

// context: what a slot must hold at the least is a baseline and one completion.
func (r *runner) context(context.Context) result {
	want, why := r.cfg.Expect.Context, "expect.context"
	if least := r.wants.MaxTokens + r.cfg.MaxBaseline; want < least {
		want, why = least, "a baseline and max_tokens"
	}
	if r.props.Context < want {
		return failed(fmt.Sprintf("at least %d tokens in a slot (%s)", want, why), fmt.Sprint(r.props.Context),
			fmt.Sprintf("start llama-server with -c %d (%d slots), or lower sampling.max_tokens", want*int64(r.leastSlots()), r.leastSlots()))
	}
	return ok("%d tokens in a slot", r.props.Context)
}

func (r *runner) template(context.Context) result {
	hash := r.report.Server.Template
	switch want := r.cfg.Expect.Template; {
	case r.props.Template == "":
		return failed("a chat template", "none", "start llama-server with --jinja and a model that has a chat template")
	case want == "":
		return ok("%s, not pinned", hash)
	case !strings.EqualFold(want, hash):
		return failed("template "+want, hash, "if the new template passes the check \"extension\", put its hash into expect.template; "+
			"sessions go on with their old text and re-read their prompt once")
	default:
		return ok("%s, as pinned", hash)
	}
}

// speculative decoding is refused: drafts and hybrid caches do not mix.
func (r *runner) speculative(ctx context.Context) result {
	const todo = "start llama-server without a draft model and without --spec-type"
	if s := r.props.Speculative; s != "" && s != "none" {
		return failed("no speculative decoding", fmt.Sprintf("%q", s), todo)
	}
	slots, err := r.client.Slots(ctx)
	switch {
	case err != nil && r.props.Speculative == "none":
		return ok("none")
	case err != nil:
		return skipped("the server does not say: %s", message(err))
	}
	for _, s := range slots {
		if s.Speculative {
			return failed("no speculative decoding", fmt.Sprintf("slot %d with it", s.ID), todo)
		}
	}
	return ok("none")
}

// kv: only a router shows the command line, which tells how the cache is kept.
func (r *runner) kv(context.Context) result {
	i := slices.IndexFunc(r.listed, r.isModel)
	if i < 0 || len(r.listed[i].Args) == 0 {
		return skipped("this server does not say how it keeps its cache")
	}
	var kinds []string
	parallel, flag := false, ""
	for _, a := range r.listed[i].Args {
		switch flag {
		case "--cache-type-k", "-ctk", "--cache-type-v", "-ctv":
			kinds = append(kinds, a)
		}
		flag = a
		parallel = parallel || a == "--parallel" || a == "-np"
		if a == "--kv-unified" || a == "-kvu" {
			return failed("a part of the cache for each slot", "a unified one", "start llama-server without --kv-unified: it clears idle slots")
		}
	}
	if !parallel {
		return failed("a fixed number of slots", "none in the command line", "start llama-server with -np: without it the cache is unified, and idle slots are cleared")
	}
	for _, k := range kinds {
		if k != "f16" && k != "q8_0" {
			return failed("a cache of f16 or q8_0", fmt.Sprintf("%.20q", k), "start llama-server with -ctk and -ctv f16 or q8_0: coarser ones spoil tool calls")
		}
	}
	if len(kinds) == 0 {
		kinds = []string{"f16, the default"}
	}
	return ok("%s", strings.Join(kinds, ", "))
}
