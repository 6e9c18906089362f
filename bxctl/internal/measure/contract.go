package measure

import (
	"fmt"
	"strings"
)

// Point of the contract, with what was seen of it.
type Contract struct {
	Point   string  `json:"point"`
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
	Do      string  `json:"do,omitzero"`
}

// maxBaseline is what system prompt, tools and core memory may have, in tokens.
const maxBaseline = 3000

// Judge gives a verdict for each point of the inference contract.
func (r *Results) Judge(maxTokens int) []Contract {
	out := []Contract{r.judgeBaseline(), r.judgeExtension(), r.judgeHistory(), r.judgeCache(), r.judgeTools(), r.judgePinned(), r.judgeIsolated(), r.judgeLive(), r.judgeBusy(), r.judgeCap(), r.judgeWindow(maxTokens), r.judgeServing(), r.judgeDepth()}
	for i := range out {
		if out[i].Verdict == "" {
			out[i].Verdict, out[i].Seen = Unclear, "not measured"
		}
	}
	return out
}

// Worst is the worst verdict.
func Worst(all []Contract) Verdict {
	worst := Kept
	for _, c := range all {
		switch c.Verdict {
		case Broken:
			return Broken
		case Doubt:
			worst = Doubt
		case Kept, Unclear:
		}
	}
	return worst
}

func (r *Results) judgeBaseline() Contract {
	c := Contract{Point: "1 baseline within 3,000 tokens"}
	switch n := r.Baseline; {
	case n == 0:
		c.Verdict, c.Seen = Unclear, "loopd does not run; it counts its baseline in its self-test"
	case n > maxBaseline:
		c.Verdict, c.Seen, c.Do = Broken, fmt.Sprintf("%d tokens, as loopd counted them", n), "shorten the system prompt"
	default:
		c.Verdict, c.Seen = Kept, fmt.Sprintf("%d tokens, as loopd counted them", n)
	}
	return c
}

func (r *Results) judgeExtension() Contract {
	c := Contract{Point: "2 requests render as strict extensions"}
	switch x := r.Render; {
	case x == nil:
	case x.Error != "":
		c.Verdict, c.Seen, c.Do = Broken, "the template refuses a history: "+x.Error, "serve the model with a template for tools and thinking (--chat-template-file)"
	case !x.Extends:
		c.Verdict, c.Seen, c.Do = Broken, "a later rendering parts from the one before "+x.Parts, "serve the model with a template that renders every turn alike (--chat-template-file)"
	case !x.TwoInARow:
		c.Verdict, c.Seen, c.Do = Doubt, "five renderings extend each other, but two messages of the owner in a row do not render", "serve a template that allows it: a stopped turn leaves a message without an answer"
	default:
		c.Verdict, c.Seen = Kept, "five renderings extend each other; two messages in a row render"
	}
	return c
}

func (r *Results) judgeHistory() Contract {
	c := Contract{Point: "3 thinking stays in the history"}
	switch x := r.Render; {
	case x == nil || x.Error != "":
	case x.Thinking:
		c.Verdict, c.Seen = Kept, "the template renders earlier thinking"
	case r.Thinking != nil && !r.Thinking.Thinks:
		c.Verdict, c.Seen = Kept, "the template renders none, and the model thinks none"
	default:
		c.Verdict, c.Seen, c.Do = Doubt, "the template drops earlier thinking: each turn reads the one before again", "serve a template that keeps it (for Qwen: with preserved reasoning)"
	}
	return c
}

func (r *Results) judgeCache() Contract {
	c := Contract{Point: "4 a later turn finds the earlier ones in the cache"}
	if r.Cache == nil || len(r.Cache.Rows) < 3 {
		return c
	}
	hits, exact := 0, 0
	for _, row := range r.Cache.Rows[1:3] {
		if row.CacheN >= max(row.Before-slack-saySome, row.Before/2) {
			hits++
		}
		if row.Exact {
			exact++
		}
	}
	c.Seen = fmt.Sprintf("turn 2 reused %d of %d tokens, turn 3 %d of %d", r.Cache.Rows[1].CacheN, r.Cache.Rows[1].Before, r.Cache.Rows[2].CacheN, r.Cache.Rows[2].Before)
	switch {
	case hits < 2:
		c.Verdict, c.Do = Broken, "start llama-server with -np, without --no-cache-prompt, and with context checkpoints for a hybrid model; look whether another program uses the slot"
	case exact < 2:
		c.Verdict, c.Do = Doubt, "the answers do not come back as the same tokens: each turn reads the last answer again. That is cheap; a template that writes white space as the model does avoids it"
	default:
		c.Verdict = Kept
	}
	return c
}

func (r *Results) judgeTools() Contract {
	c := Contract{Point: "5 tool calls parse"}
	if r.Tools == nil || !r.Tools.Complete {
		return c
	}
	parsed, right, exact, markup := r.Tools.counts()
	n := len(r.Tools.Trials)
	c.Seen = fmt.Sprintf("%d of %d trials gave a call that parses; %d called the tool that was asked for, %d with the very arguments", parsed, n, right, exact)
	if markup > 0 {
		c.Seen += fmt.Sprintf("; in %d there was call markup in the text", markup)
	}
	switch {
	case parsed*10 < n*8:
		c.Verdict, c.Do = Broken, "start llama-server with --jinja and a template that it can parse the calls of; use f16 or q8_0 KV"
	case parsed < n || right*10 < n*8:
		c.Verdict, c.Do = Doubt, "look at the trials: a larger or less quantised model calls better"
	default:
		c.Verdict = Kept
	}
	return c
}

func (r *Results) judgePinned() Contract {
	c := Contract{Point: "7 a request stays on its slot"}
	switch s := r.Slots; {
	case s == nil:
	case !s.Told:
		c.Verdict, c.Seen, c.Do = Unclear, "the server does not show its slots", "start it without --no-slots"
	case !s.Kept:
		c.Verdict, c.Seen, c.Do = Broken, fmt.Sprintf("a second turn reused %d of %d tokens", s.Reused, s.Before), "start llama-server with -np N: a unified cache clears idle slots"
	case s.Looks == 0 || len(s.Seen) == 0:
		c.Verdict, c.Seen = Unclear, "the requests were done before anything could be seen; the second turn found the first one"
	case !s.Pinned:
		c.Verdict, c.Seen, c.Do = Doubt, fmt.Sprintf("slots %v were seen at work, ours is %d", s.Seen, r.Server.Slot), "measure again while no other program uses the server"
	default:
		c.Verdict, c.Seen = Kept, fmt.Sprintf("only slot %d worked (%d looks), and the second turn found the first one there", r.Server.Slot, s.Looks)
	}
	return c
}

func (r *Results) judgeIsolated() Contract {
	c := Contract{Point: "7 other slots are left alone"}
	switch s := r.Slots; {
	case s == nil:
	case !s.Told || s.Others == 0:
		c.Verdict, c.Seen = Unclear, "there are no other slots to see"
	case !s.Isolated:
		c.Verdict, c.Seen, c.Do = Doubt, fmt.Sprintf("slots %v held something else afterwards", s.Touched), "measure again while no other program uses the server"
	default:
		c.Verdict, c.Seen = Kept, fmt.Sprintf("%d other slots held as many tokens before as after, which is all that the server tells of them (/slots); what they would reuse was not tried, since only slot %d is used here", s.Others, r.Server.Slot)
	}
	return c
}

func (r *Results) judgeLive() Contract {
	c := Contract{Point: "8 the server shows that it lives"}
	if r.Depth == nil {
		return c
	}
	events, silent := 0, 0
	for _, row := range r.Raw {
		if row.Step == "throughput" && row.Error == "" {
			events += row.Progress
			if row.Progress == 0 {
				silent++
			}
		}
	}
	c.Seen = fmt.Sprintf("%d events of prompt processing", events)
	if silent > 0 {
		c.Verdict, c.Do = Doubt, "llama-server b11669 and later send them for return_progress"
		c.Seen += fmt.Sprintf("; %d requests had none", silent)
		return c
	}
	c.Verdict = Kept
	return c
}

func (r *Results) judgeBusy() Contract {
	c := Contract{Point: "8 a busy slot queues, a closed stream frees it"}
	b := r.Busy
	if b == nil {
		return c
	}
	freed := "it was not seen when the slot became free"
	if b.FreedMS >= 0 {
		freed = fmt.Sprintf("the slot was free %d ms after a stream was closed", b.FreedMS)
	}
	c.Seen = fmt.Sprintf("the second request waited %d ms for its headers and was answered; %s", b.WaitMS, freed)
	switch {
	case b.Told != "":
		c.Verdict, c.Seen = Unclear, b.Told+"; "+freed
	case !b.Cancelled || b.FreedMS < 0 || b.FreedMS > 5000:
		c.Verdict, c.Do = Doubt, "a stopped turn keeps the slot for a while; look whether something between bxctl and the server holds streams open"
	default:
		c.Verdict = Kept
	}
	return c
}

func (r *Results) judgeCap() Contract {
	c := Contract{Point: "9 the cap on thinking works"}
	t := r.Thinking
	if t == nil {
		return c
	}
	mark := "the mark at its end was not seen"
	if t.Marked {
		mark = "it ended in the mark"
	}
	c.Seen = fmt.Sprintf("cap %d: at most %d tokens of thinking, %s; without a cap %d, with a cap of 0 %d; the turn after reused %d of %d tokens", t.Cap, t.Capped, mark, t.Free, t.ZeroHas, t.CacheN, t.Before)
	switch {
	case !t.Thinks:
		c.Verdict, c.Seen = Unclear, "the model did not think"
	case t.Capped > t.Cap+12:
		c.Verdict, c.Do = Broken, "use a llama-server that knows reasoning_budget_tokens (b11669 does), with --jinja and --reasoning-format auto"
	case !t.Zero:
		c.Verdict, c.Do = Doubt, "a cap of 0 is not obeyed"
	case !t.Marked && t.Free <= t.Cap+12:
		c.Verdict = Unclear
		c.Seen += "; it never thought long enough to hit the cap"
	default:
		c.Verdict = Kept
	}
	return c
}

func (r *Results) judgeWindow(maxTokens int) Contract {
	c := Contract{Point: "10 window and slots", Seen: fmt.Sprintf("%d slots of %d tokens", r.Server.Slots, r.Server.Window)}
	switch need := int64(maxTokens + maxBaseline); {
	case r.Server.Window < need:
		c.Verdict, c.Do = Broken, fmt.Sprintf("start llama-server with -c %d", need*int64(r.Server.Slots))
	case r.Server.Slots < 2:
		c.Verdict, c.Do = Broken, "start llama-server with -np 2 or more"
	case r.Server.Window < 32768:
		c.Verdict, c.Do = Doubt, "a longer window means fewer epochs: give -c what the memory holds"
	default:
		c.Verdict = Kept
	}
	return c
}

func (r *Results) judgeServing() Contract {
	c := Contract{Point: "11 serving settings"}
	args := strings.Join(r.Server.Args, " ")
	switch {
	case r.Server.Drafts:
		c.Verdict, c.Seen, c.Do = Broken, "speculative decoding is on", "start llama-server without a draft model: it breaks the cache of hybrid models"
	case r.Server.Template == "":
		c.Verdict, c.Seen, c.Do = Broken, "there is no chat template", "start llama-server with --jinja"
	case args == "":
		c.Verdict, c.Seen = Unclear, "no speculative decoding; this server does not tell its flags, so the type of the KV cache can't be seen"
	case !fineKV(r.Server.Args):
		c.Verdict, c.Seen, c.Do = Doubt, "flags: "+args, "use f16 or q8_0 for the KV cache: coarser types spoil tool calls"
	default:
		c.Verdict, c.Seen = Kept, "no speculative decoding; flags: "+args
	}
	return c
}

// fineKV reports whether the flags name no coarser KV cache than q8_0.
func fineKV(args []string) bool {
	for i, a := range args[:max(0, len(args)-1)] {
		switch a {
		case "--cache-type-k", "-ctk", "--cache-type-v", "-ctv":
			if kind := args[i+1]; kind != "f32" && kind != "f16" && kind != "bf16" && kind != "q8_0" {
				return false
			}
		}
	}
	return true
}

func (r *Results) judgeDepth() Contract {
	c := Contract{Point: "speed at depth"}
	if r.Depth == nil || len(r.Depth.Points) == 0 {
		return c
	}
	first, last := r.Depth.Points[0], r.Depth.Points[len(r.Depth.Points)-1]
	c.Verdict = Kept
	c.Seen = fmt.Sprintf("prompt %.0f tokens/s at 0, %.0f at %d; generation %.1f and %.1f", first.Prompt, last.Prompt, last.At, first.Generate, last.Generate)
	if last.Prompt > 0 && last.Prompt < 50 {
		c.Verdict, c.Do = Doubt, "a cold session of 18,000 tokens takes over six minutes here: a smaller model, or a GPU"
	}
	return c
}
