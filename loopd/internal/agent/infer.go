package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"
	"boxmaker/loopd/internal/slot"
	"boxmaker/loopd/internal/turn"
)

// coldSlack is how many tokens the cache may lack without a notice: a hybrid
// model falls back to a checkpoint a few tokens before the last prompt's end.
const coldSlack = 64

// newSlot is the slot of an epoch that begins now: live sessions have the main one,
// jobs, the heartbeat and subagents the background one.
func (c *conversation) newSlot() int {
	if priority(c.id) == slot.Live {
		return c.a.cfg.Settings.Slots.Main
	}
	return c.a.cfg.Settings.Slots.Background
}

// priority orders a session's requests at its slot.
func priority(id string) slot.Priority {
	switch {
	case id == "heartbeat":
		return slot.Heartbeat
	case strings.HasPrefix(id, "job-"):
		return slot.Cron
	case strings.HasPrefix(id, "sub-"):
		return slot.Subagent
	default:
		return slot.Live
	}
}

// operate runs f on a goroutine of its own; what it returns comes back as a letter.
func (c *conversation) operate(ctx context.Context, f func(ctx context.Context) finished) {
	ctx, c.cancel = context.WithCancel(ctx)
	cancel := c.cancel
	c.ops.Go(func() {
		defer cancel()
		c.put(f(ctx))
	})
}

// startInfer sends the request once its slot is free.
func (c *conversation) startInfer(ctx context.Context, act turn.Infer) {
	body, expect, id := c.prompt.Body(), c.state.Expect, c.slotID
	if act.Again {
		c.hub.send(&proto.Notice{Kind: proto.NoticeRetry, Text: "The answer did not come through, so the same request is sent once more."})
	}
	c.operate(ctx, func(ctx context.Context) finished {
		release, err := c.a.cfg.Gate.Acquire(ctx, id, priority(c.id), c.id, func(ahead int) {
			c.hub.send(&proto.Waiting{Reason: proto.WaitSlot, Ahead: ahead})
		})
		if err != nil {
			return finished{}
		}
		defer release()
		if act.Again && !c.settle(ctx) {
			return finished{}
		}
		started := c.a.cfg.Now()
		got, err := c.a.cfg.Model.Chat(ctx, body, c.show)
		return finished{records: c.a.outcome(ctx, got, err, expect, c.a.cfg.Now().Sub(started))}
	})
}

// settle waits before a request is sent again until the server answers, if it
// does so within its limits; what it then makes of the request is told as usual.
// It reports whether the turn still wants it.
func (c *conversation) settle(ctx context.Context) bool {
	select {
	case <-time.After(c.a.cfg.RetryPause):
	case <-ctx.Done():
		return false
	}
	if err := c.a.cfg.Model.Ready(ctx, c.show); err != nil {
		c.a.cfg.Log.Warn("the inference server is not ready for another try", "error", err.Error())
	}
	return ctx.Err() == nil
}

// show passes what the stream brings on to those who follow.
func (c *conversation) show(ev llama.Event) {
	switch ev := ev.(type) {
	case llama.Reasoning:
		c.hub.send(&proto.Thinking{Text: ev.Text})
	case llama.Text:
		c.hub.send(&proto.Text{Text: ev.Text})
	case llama.Progress:
		c.hub.send(&proto.Prefill{Total: ev.Total, Cached: ev.Cache, Done: ev.Processed, MS: ev.MS})
	case llama.Loading, llama.Unreachable:
		c.hub.send(&proto.Waiting{Reason: proto.WaitModel})
	}
}

// Bounds of what is kept of one completion, in bytes: a message as it is encoded,
// and the text of an incomplete one before that. Either fits a line of the log and,
// as the answer of a turn, a frame.
const (
	maxMessage = 3 << 20
	maxPart    = 256 << 10
)

// outcome turns a completion into the records that stand for it.
func (a *Agent) outcome(ctx context.Context, got llama.Completion, err error, expect int64, took time.Duration) []proto.Record {
	var recs []proto.Record
	if t := got.Timings; t.CacheN+t.PromptN > 0 {
		rec := &proto.Completion{
			Finish: got.Finish, CacheN: t.CacheN, PromptN: t.PromptN, PredictedN: t.PredictedN,
			PromptUS: t.PromptUS, PredictedUS: t.PredictedUS, FirstMS: got.First.Milliseconds(),
		}
		if lost := min(expect, t.CacheN+t.PromptN) - t.CacheN; lost > coldSlack {
			rec.Lost = lost
		}
		mark := strings.TrimSpace(a.serving.ThinkingMark)
		rec.Capped = mark != "" && strings.HasSuffix(strings.TrimSpace(got.Reasoning), mark)
		recs = append(recs, rec)
	}
	if err == nil {
		var calls []prompt.Call
		for _, c := range got.Calls {
			calls = append(calls, prompt.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		m := prompt.AssistantMessage(got.Content, got.Reasoning, calls)
		if len(m) <= maxMessage {
			return append(recs, &proto.Assistant{Message: m})
		}
		err = &llama.Error{Why: proto.WhyBadData, Message: fmt.Sprintf("a message of %d bytes; the limit is %d", len(m), maxMessage)}
	}
	inc := &proto.Incomplete{Text: valid(clip(got.Content, maxPart, " […]")), Thinking: valid(clip(got.Reasoning, maxPart, " […]"))}
	var server *llama.Error
	switch {
	case ctx.Err() != nil:
		if inc.Text == "" && inc.Thinking == "" {
			return recs
		}
		inc.Why = proto.WhyStopped
	case errors.As(err, &server):
		inc.Why, inc.Retry, inc.Detail = server.Why, server.Retry, valid(server.Message)
	default:
		inc.Why, inc.Detail = proto.WhyServerError, valid(err.Error())
	}
	a.cfg.Log.Warn("a completion gave no message", "why", inc.Why, "retry", inc.Retry, "took", took.Round(time.Millisecond).String())
	return append(recs, inc)
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// announce tells those who follow what a record means for them.
func (c *conversation) announce(r proto.Record) {
	switch r := r.(type) {
	case *proto.Completion:
		if r.Lost > 0 {
			ms := int64(float64(r.PromptUS) / 1000 * float64(r.Lost) / float64(max(r.PromptN, 1)))
			c.hub.send(&proto.Notice{
				Kind: proto.NoticeColdCache, Lost: r.Lost, MS: ms,
				Text: fmt.Sprintf("The server's cache had gone cold: %d tokens were read again, which took %.1f s.", r.Lost, float64(ms)/1000),
			})
		}
		if r.Capped {
			c.hub.send(&proto.Notice{Kind: proto.NoticeThinkingCapped, Text: "The model reached its thinking limit and was told to answer."})
		}
	case *proto.Assistant:
		c.announceMessage()
	case *proto.Incomplete:
		if r.Why != proto.WhyStopped {
			c.hub.send(&proto.Notice{Kind: proto.NoticeIncomplete, Text: "The completion is incomplete (" + string(r.Why) + "); what had come is kept in the log."})
		}
	case *proto.Tool:
		c.hub.send(&proto.Result{
			Call: r.Call, Outcome: r.Outcome, Code: r.Code, Class: r.Class, Untrusted: r.Untrusted,
			Bytes: int64(len(r.Message)), MS: r.MS,
		})
	}
}

func (c *conversation) announceMessage() {
	if c.state.Finish == "length" && c.state.Phase == turn.Ending {
		c.hub.send(&proto.Notice{Kind: proto.NoticeTruncated, Text: "The answer was cut off at the token limit."})
	}
}
