package main

import (
	"math"
	"strings"
)

// A state is what the last token says about where in a reply the model is. It is
// also the dimension of the embedding that carries it.
type state int

const (
	always   state = iota // every token: what holds in no particular state
	start                 // "<think>\n": the first word of the thinking
	thinks                // in the thinking
	closes                // the thinking's last full stop
	closed                // "</think>"
	opens                 // the blank line behind it: the answer's first word, or a call
	answers               // in the answer
	ends                  // a scripted reply or a call: only the end of the turn
	reserved              // the number of dimensions that no layer writes to
)

// never is the logit of a token that must not come. A request's logit_bias of
// 100 lifts it above all others, and must not lift it above certain.
const (
	never    = -60
	fallback = -20 // words of the answer, in a state that the chain doesn't know
	certain  = 400
)

// A chain is a Markov chain over the vocabulary, as logits: entry gives the state
// that a token leads to, logit[s][t] what token t gets when the last token leads
// to s.
//
// The thinking and the answer use different words, so that one token of memory
// is enough to know where the reply stands, and everything is written the way the
// chat template writes it: a reply that is sent back becomes the same tokens, and
// the next turn extends the cache exactly.
type chain struct {
	entry  []state
	logit  [reserved]map[int]float64
	steady map[int]bool // tokens whose logit the context doesn't move
}

// odds are rough chances: of the end of the thinking and of the answer per token,
// of a call in place of an answer, and of a call behind each word of an answer.
// A reply that must not end without a call (tool_choice "required") gets one by
// the last.
type odds struct {
	thinkEnd, end, call, late float64
}

// newChain makes the chain. calls are two scripted texts, or none: the call in
// place of an answer and the one that ends a sentence of it. scripted are replies
// that only a logit_bias can call up.
func newChain(v *vocab, o odds, calls, scripted []string) *chain {
	c := &chain{entry: make([]state, len(v.tokens)), steady: map[int]bool{}}
	for s := range c.logit {
		c.logit[s] = map[int]float64{}
	}
	for t := range v.tokens {
		c.logit[always][t] = never
	}
	words := v.words()
	for i, w := range words {
		first, next, say, here := v.word(w, false), v.word(w, true), answers, opens
		if i%2 == 0 {
			say, here = thinks, start
		} else {
			c.logit[always][next] = fallback
		}
		c.entry[first], c.entry[next] = say, say
		c.logit[here][first], c.logit[say][next] = 0, 0
	}
	n := float64(len(words) / 2)
	c.link(thinks, v.id[stop], closes, share(o.thinkEnd, n))
	c.link(closes, v.id[thinkEnd], closed, certain/4)
	c.link(closed, v.id[gap], opens, certain/4)
	c.link(answers, v.id[turnEnd], always, share(o.end, n))
	c.link(ends, v.id[turnEnd], always, certain)
	c.entry[v.id[newline]] = start
	if len(calls) == 2 {
		c.link(opens, v.id[calls[0]], ends, share(o.call, n))
		c.link(answers, v.id[calls[1]], ends, share(o.late, n))
	}
	for _, s := range scripted {
		c.entry[v.id[s]] = ends
	}
	return c
}

// link lets token t follow state s and lead to another, with a steady logit.
func (c *chain) link(s state, t int, to state, logit float64) {
	c.logit[s][t] = logit
	c.steady[t] = true
	if to != always {
		c.entry[t] = to
	}
}

// share is the logit that gives chance p, at temperature 0.6, against n tokens
// with random logits of unit spread. It is rounded, so that a last bit of math.Log
// that differs from machine to machine doesn't reach the file.
func share(p, n float64) float64 {
	const temperature, spread = 0.6, 1
	switch {
	case p <= 0:
		return never
	case p >= 1:
		return certain / 4
	}
	z := temperature*math.Log(p/(1-p)*n) + spread/(2*temperature)
	return math.Round(64*z) / 64
}

// callTexts are calls of the tool clock as the template writes them: in place of
// an answer, and behind one.
func callTexts(style string) []string {
	call := strings.NewReplacer("@@NAME@@", "clock").Replace(map[string]string{
		"xml":  "<tool_call>\n<function=@@NAME@@>\n</function>\n</tool_call>",
		"json": "<tool_call>\n{\"name\": \"@@NAME@@\", \"arguments\": {}}\n</tool_call>",
	}[style])
	return []string{call, ".\n\n" + call}
}
