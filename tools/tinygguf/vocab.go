package main

import (
	"cmp"
	"slices"
	"strings"
)

// corpus is what the merges are learned from. Any text will do that gives a few
// dozen whole words.
const corpus = `The agent reads the file and then writes the answer to its owner.
A tool call names a function and gives its arguments as an object. The result comes back
in the next message and the agent thinks about what it says before going on. When the work is
done the owner hears what was changed and where it is and what remains to do.
Please list the files in this folder and open the one that was changed last and read it.
There is no need to ask for more when the answer is already in the conversation.
Every morning the kettle sings while rain runs down the kitchen window and the garden waits.
Some letters from the north came late because snow closed the road over the hills.
Small boats carry bread and salt between quiet islands under a pale winter moon.
one two three four five six seven eight nine ten with from this that have will your they would
system user tool function parameter response content reasoning message question clock`

// newline, stop and gap are tokens that a Qwen tokenizer has too: its
// pre-tokenizer keeps a full stop and the line end behind it together, and line
// ends that follow each other.
const (
	newline = "Ċ"
	stop    = ".Ċ"
	gap     = "ĊĊ"
)

// Token types of tokenizer.ggml.token_type.
const (
	normal  = 1
	control = 3 // never shown in text
	user    = 4 // one token, and shown in text
)

// Special tokens.
const (
	endOfText = "<|endoftext|>"
	turnEnd   = "<|im_end|>"
	thinkEnd  = "</think>"
)

// A vocab is a byte-level BPE vocabulary. Its tokens are spelled in the runes of
// [byteRunes], apart from the special and scripted ones.
type vocab struct {
	tokens []string
	types  []int32
	merges []string
	id     map[string]int
	rank   map[string]int // of a merge
}

// newVocab makes the 256 byte tokens, what the merges give, Qwen's special tokens,
// and one token for each scripted text.
func newVocab(scripted ...string) *vocab {
	v := &vocab{id: map[string]int{}, rank: map[string]int{}}
	for _, r := range byteRunes() {
		v.add(string(r), normal)
	}
	v.merge(".", newline)
	v.merge(newline, newline)
	v.learn()
	for _, s := range []string{endOfText, "<|im_start|>", turnEnd} {
		v.add(s, control)
	}
	for _, s := range []string{"<think>", thinkEnd, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"} {
		v.add(s, user)
	}
	for _, s := range scripted {
		v.add(s, user)
	}
	return v
}

func (v *vocab) add(token string, typ int32) {
	if _, ok := v.id[token]; ok {
		return
	}
	v.id[token] = len(v.tokens)
	v.tokens = append(v.tokens, token)
	v.types = append(v.types, typ)
}

func (v *vocab) merge(a, b string) {
	v.rank[a+" "+b] = len(v.merges)
	v.merges = append(v.merges, a+" "+b)
	v.add(a+b, normal)
}

// learn runs plain BPE over the words of the corpus, each with and without the
// space in front of it, as the pre-tokenizer splits them, until each is one token.
func (v *vocab) learn() {
	var words [][]string
	for _, w := range strings.Fields(corpus) {
		w = strings.Trim(w, ".")
		words = append(words, spell(" "+w), spell(w))
	}
	for {
		count := map[[2]string]int{}
		for _, w := range words {
			for i := range len(w) - 1 {
				count[[2]string{w[i], w[i+1]}]++
			}
		}
		if len(count) == 0 {
			return
		}
		var best [2]string
		for p, c := range count { // the order of the map must not show
			d := cmp.Or(cmp.Compare(c, count[best]), cmp.Compare(best[0]+" "+best[1], p[0]+" "+p[1]))
			if d > 0 {
				best = p
			}
		}
		v.merge(best[0], best[1])
		for i := range words {
			words[i] = join(words[i], best)
		}
	}
}

// join puts every pair p in parts together.
func join(parts []string, p [2]string) []string {
	var out []string
	for i := 0; i < len(parts); i++ {
		if i+1 < len(parts) && parts[i] == p[0] && parts[i+1] == p[1] {
			out = append(out, p[0]+p[1])
			i++
		} else {
			out = append(out, parts[i])
		}
	}
	return out
}

// encode cuts one pre-token as llama.cpp's BPE does: the lowest merge first.
func (v *vocab) encode(text string) []string {
	parts := spell(text)
	for {
		best, at := len(v.merges), -1
		for i := range len(parts) - 1 {
			if r, ok := v.rank[parts[i]+" "+parts[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return parts
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
}

// words lists, sorted, the corpus's words of three letters and more that are one
// token with a space in front and one token without. Only they come back as the
// same tokens when text that was generated is sent again.
func (v *vocab) words() []string {
	var out []string
	for _, w := range strings.Fields(corpus) {
		w = strings.Trim(w, ".")
		if len(w) >= 3 && len(v.encode(w)) == 1 && len(v.encode(" "+w)) == 1 {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// word gives the token of a word.
func (v *vocab) word(w string, space bool) int {
	if space {
		w = " " + w
	}
	return v.id[v.encode(w)[0]]
}

// spell gives the byte tokens of a text.
func spell(text string) []string {
	runes := byteRunes()
	var out []string
	for _, b := range []byte(text) {
		out = append(out, string(runes[b]))
	}
	return out
}

// byteRunes is GPT-2's map of the 256 bytes to printable runes.
func byteRunes() [256]rune {
	var m [256]rune
	next := rune(256)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			m[b] = rune(b)
		} else {
			m[b] = next
			next++
		}
	}
	return m
}
