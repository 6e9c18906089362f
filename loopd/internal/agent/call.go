package agent

import (
	"cmp"
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/broker"
	"boxmaker/loopd/internal/capper"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/toolset"
	"boxmaker/loopd/internal/turn"
)

// maxShownArgs bounds the arguments in an event; the log has them whole.
const maxShownArgs = 16 << 10

// startCall carries out one call of the model. A resumed one may have been sent
// before a restart.
func (c *conversation) startCall(ctx context.Context, act turn.Run, resumed bool) {
	p, room := act.Pending, c.room()
	req, err := toolset.DecodeCall(p.Call.Name, p.Call.Arguments)
	c.showCall(p, req)
	c.operate(ctx, func(ctx context.Context) finished {
		started := c.a.cfg.Now()
		if err != nil {
			code := proto.CodeInternal
			var bad *toolset.CallError
			if errors.As(err, &bad) {
				code = bad.Code
			}
			return c.toolRecord(p, &proto.CallResult{Outcome: proto.CallFailed, Code: code, Class: proto.ClassPublic, Text: err.Error()}, room, 0, "")
		}
		res, confirm := c.perform(ctx, p, req, resumed)
		return c.toolRecord(p, res, room, c.a.cfg.Now().Sub(started), confirm)
	})
}

// showCall tells those who follow what is asked for: of call_tool, the tool behind it.
func (c *conversation) showCall(p turn.Pending, req toolset.Request) {
	name, args := p.Call.Name, p.Call.Arguments
	if r, ok := req.(toolset.CallRequest); ok {
		name, args = r.Tool, r.Args
	}
	c.hub.send(&proto.ToolStarted{Call: p.ID.String(), Tool: valid(name), Args: valid(clip(args, maxShownArgs, "…"))})
}

// clip cuts s to at most n bytes, between runes, and marks the cut.
func clip(s string, n int, mark string) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// perform gives the result of a call, and the id to confirm once it is logged.
func (c *conversation) perform(ctx context.Context, p turn.Pending, req toolset.Request, resumed bool) (*proto.CallResult, string) {
	id := p.ID.String()
	ok := func(text string) *proto.CallResult {
		return &proto.CallResult{ID: id, Outcome: proto.CallOK, Class: proto.ClassPublic, Text: text}
	}
	switch r := req.(type) {
	case toolset.ClockRequest:
		return ok(toolset.Clock(c.a.cfg.Now(), cmp.Or(r.Zone, c.a.cfg.Settings.Prompt.Zone))), ""
	case toolset.FindRequest:
		tools, refused := c.a.cfg.Broker.Find(ctx, c.id, r.Query)
		if refused != nil {
			return refused, ""
		}
		return ok(toolset.FormatTools(tools)), ""
	case toolset.CallRequest:
		res := c.ask(ctx, &proto.Call{ID: id, Session: c.id, Tool: r.Tool, Args: r.Args}, resumed)
		if res.Code == proto.CodeNoBroker {
			return res, ""
		}
		return res, id
	default:
		return broker.NoBroker(id), ""
	}
}

// ask has brokerd carry out a call, or tell what came of it. If the owner stops the
// turn meanwhile, brokerd ends the call first: mostly it then knows what it did.
func (c *conversation) ask(ctx context.Context, call *proto.Call, resumed bool) *proto.CallResult {
	var res *proto.CallResult
	if resumed {
		res = c.a.cfg.Broker.Fate(ctx, call.ID)
	} else {
		res = c.a.cfg.Broker.Call(ctx, call, func(m *proto.Asked) { c.put(asked{m}) })
	}
	if res.Code != proto.CodeUnknownFate || ctx.Err() == nil || c.a.ctx.Err() != nil { // with loopd's end, the next start asks
		return res
	}
	return c.endCall(call.ID)
}

// endCall has brokerd end a call of a stopped turn and tell what came of it.
func (c *conversation) endCall(id string) *proto.CallResult {
	ctx, cancel := context.WithTimeout(c.a.ctx, stopTime)
	defer cancel()
	return c.a.cfg.Broker.Stop(ctx, id)
}

// resumeStop is for the call in front of a turn that was stopped, after a restart of
// loopd: it may have been sent before, so that only brokerd can tell.
func (c *conversation) resumeStop(ctx context.Context, p turn.Pending, req toolset.Request) {
	id, room := p.ID.String(), c.room()
	c.showCall(p, req)
	c.operate(ctx, func(context.Context) finished { return c.toolRecord(p, c.endCall(id), room, 0, id) })
}

// stopTime is how long a stopped turn waits for the end of its call: a container is
// killed within milliseconds, and an owner who said stop does not wait long.
const stopTime = 3 * time.Second

// toolRecord makes the record of a result: neutralised, capped once, for ever.
// It may run beside the conversation, so it reads nothing of its state.
func (c *conversation) toolRecord(p turn.Pending, res *proto.CallResult, room int, took time.Duration, confirm string) finished {
	text, _ := c.a.serving.Neutral.Text(res.Text)
	text, dropped := capper.Cap(text, room)
	return finished{confirm: confirm, open: res.Code == proto.CodeUnknownFate, records: []proto.Record{&proto.Tool{
		Call: p.ID.String(), Outcome: res.Outcome, Code: res.Code, Class: res.Class, Untrusted: res.Untrusted,
		Dropped: res.Dropped + dropped, MS: max(0, took.Milliseconds()), Head: res.Head, Message: prompt.ToolMessage(p.Call.ID, text),
	}}}
}

// minRoom is what a result may always use: enough for an honest error.
const minRoom = 1 << 10

// room is how many bytes a result may have: the configured cap, or half of what is
// left of the window behind the results before it. A token is taken to be at least
// one byte, the worst case.
func (c *conversation) room() int {
	most := int(c.a.cfg.Settings.Limits.Result)
	if s := &c.state; s.Window > 0 {
		most = min(most, int(s.Window-s.Context-s.Added)/2)
	}
	return max(most, minRoom)
}

// refuseCall records a call that the turn's own rules keep from being run.
func (c *conversation) refuseCall(act turn.Refuse, req toolset.Request) error {
	res := &proto.CallResult{Outcome: proto.CallDenied, Code: act.Code, Class: proto.ClassPublic, Text: string(act.Code) + ": " + act.Text + "."}
	rec := c.toolRecord(act.Pending, res, c.room(), 0, "").records[0]
	if _, err := c.append(rec); err != nil {
		return err
	}
	c.showCall(act.Pending, req)
	c.announce(rec)
	if act.Code == proto.CodeRepeatedCall {
		c.hub.send(&proto.Notice{Kind: proto.NoticeRepeatedCall, Text: "The model repeated a call; it was not run again."})
	}
	return nil
}

// settleTime is how long a brokerd that is away is waited for with what it is told of
// a call that is over for loopd.
const settleTime = 5 * time.Minute

// settle tells brokerd, in its own time, that a result is in the log. If the turn was
// stopped the call may still run, or wait for the owner: then it is ended first.
func (a *Agent) settle(id string, stopped bool) {
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, settleTime)
		defer cancel()
		if stopped {
			a.cfg.Broker.Stop(ctx, id) // what came of it does not matter any more
		}
		if err := a.cfg.Broker.Confirm(ctx, id); err != nil {
			a.cfg.Log.Debug("brokerd did not take a confirmation", "call", id, "error", err.Error())
		}
	})
}

// confirmAgain repeats the confirmation of the newest result: loopd may have ended
// between the log and brokerd.
func (c *conversation) confirmAgain() {
	if c.state.Done == 0 || c.state.Done > len(c.state.Calls) {
		return
	}
	p := c.state.Calls[c.state.Done-1]
	req, _ := toolset.DecodeCall(p.Call.Name, p.Call.Arguments)
	if _, sent := req.(toolset.CallRequest); sent {
		c.a.settle(p.ID.String(), c.state.Stopped)
	}
}
