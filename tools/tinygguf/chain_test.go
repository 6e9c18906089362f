package main

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testOdds = odds{thinkEnd: 0.06, end: 0.08, call: 0.2, late: 0.02}

// table is what the model computes in each state, without the layers' noise.
func (c *chain) table() [reserved][]float64 {
	var out [reserved][]float64
	for s := range out {
		out[s] = make([]float64, len(c.entry))
		for t := range out[s] {
			out[s][t] = c.logit[always][t]
			if v, ok := c.logit[s][t]; ok {
				out[s][t] = v
			}
		}
	}
	return out
}

// walk says one reply, from the generation prompt on, with noise as the layers
// make it, at temperature 0.6. barred tokens never come.
func walk(c *chain, v *vocab, r *rand.Rand, bias map[int]float64, barred ...int) string {
	var b strings.Builder
	table := c.table()
	for last, n := v.id[newline], 0; n < 2000; n++ {
		logits := table[c.entry[last]]
		sum, next := 0.0, 0
		for t := range logits {
			z := logits[t] + bias[t]
			if z < never/2 || slices.Contains(barred, t) {
				continue
			}
			if !c.steady[t] {
				z += r.NormFloat64()
			}
			w := math.Exp(min(z/0.6, 700))
			if sum += w; r.Float64()*sum < w {
				next = t
			}
		}
		if last = next; last == v.id[turnEnd] {
			return b.String()
		}
		b.WriteString(strings.NewReplacer("Ġ", " ", "Ċ", "\n").Replace(v.tokens[last]))
	}
	return b.String() + " [never ended]"
}

func TestChainSpeaksInTheFormOfTheTemplate(t *testing.T) {
	for _, style := range []string{"xml", "json"} {
		t.Run(style, func(t *testing.T) {
			calls := callTexts(style)
			v := newVocab(calls...)
			c := newChain(v, testOdds, calls, nil)
			call := regexp.QuoteMeta(calls[0])
			form := regexp.MustCompile(`^(\w+( \w+)*\.\n)</think>\n\n(` + call + `|\w+( \w+)*(\.\n\n` + call + `)?)$`)
			r := rand.New(rand.NewPCG(1, 2))
			var called, late int
			const n = 200
			for range n {
				reply := walk(c, v, r, nil)
				if !form.MatchString(reply) {
					t.Fatalf("reply is not in the template's form: %q", reply)
				}
				switch {
				case strings.Contains(reply, calls[1]):
					late++
				case strings.Contains(reply, calls[0]):
					called++
				}
			}
			// the chances are rough; a model that always or never calls is no use
			if called < n/10 || called > n/2 || late < n/10 || late > n/2 {
				t.Errorf("%d calls and %d late ones in %d replies", called, late, n)
			}
		})
	}
}

func TestChainCallsWhenItMayNotEnd(t *testing.T) {
	calls := callTexts("xml")
	v := newVocab(calls...)
	c := newChain(v, testOdds, calls, nil)
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		reply, _, _ := strings.Cut(walk(c, v, r, nil, v.id[turnEnd]), calls[0])
		if n := len(strings.Fields(reply)); n > 400 {
			t.Errorf("%d words before the call", n)
		}
	}
}

func TestChainWithoutCalls(t *testing.T) {
	v := newVocab()
	c := newChain(v, testOdds, nil, nil)
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		if reply := walk(c, v, r, nil); strings.Contains(reply, "call>") || strings.Contains(reply, "[never") {
			t.Errorf("reply %q", reply)
		}
	}
}

func TestChainCannedReply(t *testing.T) {
	const text = "Hm.\n</think>\n\nCanned."
	calls := callTexts("xml")
	v := newVocab(append(calls, text)...)
	c := newChain(v, testOdds, calls, []string{text})
	r := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		if reply := walk(c, v, r, map[int]float64{v.id[text]: 100}); reply != text {
			t.Fatalf("with a bias of 100: %q", reply)
		}
		if reply := walk(c, v, r, nil); strings.Contains(reply, "Canned") {
			t.Fatalf("without a bias: %q", reply)
		}
	}
}

func TestShare(t *testing.T) {
	tests := []struct {
		name string
		p    float64
		want func(z float64) bool
	}{
		{"zero", 0, func(z float64) bool { return z == never }},
		{"one", 1, func(z float64) bool { return z > 50 }},
		{"rounded", 0.3, func(z float64) bool { return z*64 == math.Trunc(z*64) && z > share(0.1, 50) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if z := share(tt.p, 50); !tt.want(z) {
				t.Errorf("share(%v) = %v", tt.p, z)
			}
		})
	}
}
