package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"boxmaker/tools/tinygguf/gguf"
)

// A spec says what model to make.
type spec struct {
	arch    string // qwen35 or qwen3
	style   string // of tool calls in the template: xml or json
	seed    uint64
	context uint32 // the length it says it was trained with, in tokens
	odds    odds
	calls   bool     // clock calls come by themselves
	replies []string // scripted, each one token
}

const hybrid = "qwen35"

// Sizes. All weights together are less than a million values.
const (
	embd, ff              = 128, 256
	heads, headsKV, headD = 4, 2, 64 // full attention
	ssmHeadsK, ssmHeadsV  = 2, 4     // gated delta net
	ssmState, ssmConv     = 32, 4
	interval              = 4 // every interval-th layer of a hybrid is full attention
)

// layers is the number of layers: one group of the hybrid, and as much attention
// of the plain one as makes the noise depend on the context, and no more.
func (s spec) layers() int {
	if s.arch == hybrid {
		return interval
	}
	return 2
}

// build makes the model, and its vocabulary for those who need token numbers.
func build(s spec) (*gguf.File, *vocab, error) {
	if s.arch != hybrid && s.arch != "qwen3" {
		return nil, nil, fmt.Errorf("architecture %q is not qwen35 or qwen3", s.arch)
	}
	template, err := chatTemplate(s.style)
	if err != nil {
		return nil, nil, err
	}
	var calls []string
	if s.calls {
		calls = callTexts(s.style)
	}
	v := newVocab(append(calls, s.replies...)...)
	f := &gguf.File{}
	describe(f, s)
	tokenizer(f, s, v, template)
	w := &weights{f: f, rng: rand.NewPCG(s.seed, 0)}
	w.outside(v, newChain(v, s.odds, calls, s.replies))
	for i := range s.layers() {
		w.layer(i, s.arch == hybrid)
	}
	return f, v, nil
}

func describe(f *gguf.File, s spec) {
	f.Set("general.architecture", s.arch)
	f.Set("general.type", "model")
	f.Set("general.name", "Tiny random "+s.arch)
	f.Set("general.file_type", uint32(0)) // all F32
	f.Set("general.quantization_version", uint32(2))
	p := s.arch + "."
	f.Set(p+"context_length", s.context)
	f.Set(p+"embedding_length", uint32(embd))
	f.Set(p+"block_count", uint32(s.layers()))
	f.Set(p+"feed_forward_length", uint32(ff))
	f.Set(p+"attention.head_count", uint32(heads))
	f.Set(p+"attention.head_count_kv", uint32(headsKV))
	f.Set(p+"attention.key_length", uint32(headD))
	f.Set(p+"attention.value_length", uint32(headD))
	f.Set(p+"attention.layer_norm_rms_epsilon", float32(1e-6))
	f.Set(p+"rope.freq_base", float32(1e7))
	if s.arch != hybrid {
		return
	}
	f.Set(p+"rope.dimension_count", uint32(headD/4))
	f.Set(p+"rope.dimension_sections", []int32{headD / 16, headD / 32, headD / 32, 0})
	f.Set(p+"ssm.conv_kernel", uint32(ssmConv))
	f.Set(p+"ssm.state_size", uint32(ssmState))
	f.Set(p+"ssm.group_count", uint32(ssmHeadsK))
	f.Set(p+"ssm.time_step_rank", uint32(ssmHeadsV))
	f.Set(p+"ssm.inner_size", uint32(ssmState*ssmHeadsV))
	f.Set(p+"full_attention_interval", uint32(interval))
}

func tokenizer(f *gguf.File, s spec, v *vocab, template string) {
	pre := "qwen2"
	if s.arch == hybrid {
		pre = "qwen35"
	}
	f.Set("tokenizer.ggml.model", "gpt2")
	f.Set("tokenizer.ggml.pre", pre)
	f.Set("tokenizer.ggml.tokens", v.tokens)
	f.Set("tokenizer.ggml.token_type", v.types)
	f.Set("tokenizer.ggml.merges", v.merges)
	f.Set("tokenizer.ggml.eos_token_id", uint32(v.id[turnEnd]))
	f.Set("tokenizer.ggml.padding_token_id", uint32(v.id[endOfText]))
	f.Set("tokenizer.ggml.bos_token_id", uint32(v.id[endOfText]))
	f.Set("tokenizer.ggml.add_bos_token", false)
	f.Set("tokenizer.chat_template", template)
}

// weights adds tensors to a file.
type weights struct {
	f   *gguf.File
	rng *rand.PCG
}

// random adds values with mean 0 and spread gain/sqrt(in), for in inputs. Sums of
// four 16-bit numbers are normal enough, and the same on every machine.
func (w *weights) random(gain float64, in int, n int) []float32 {
	const spread = 37837 // of the sum: 2 * 65536 / sqrt(12)
	scale := gain / math.Sqrt(float64(in)) / spread
	data := make([]float32, n)
	for i := range data {
		x := w.rng.Uint64()
		sum := int64(x&0xffff) + int64(x>>16&0xffff) + int64(x>>32&0xffff) + int64(x>>48)
		data[i] = float32(float64(sum-2*0xffff) * scale)
	}
	return data
}

func (w *weights) matrix(name string, in, out int) {
	w.f.Add(name, w.random(1, in, in*out), uint64(in), uint64(out))
}

// back adds a matrix that writes into the residual stream, all but the reserved
// dimensions, so that the last token's state reaches the output as it was.
func (w *weights) back(name string, in, out int) {
	data := w.random(0.5, in, in*out)
	clear(data[:int(reserved)*in])
	w.f.Add(name, data, uint64(in), uint64(out))
}

func (w *weights) constant(name string, c float32, n int) {
	data := make([]float32, n)
	for i := range data {
		data[i] = c
	}
	w.f.Add(name, data, uint64(n))
}

// outside adds the embeddings and the output matrix, and with them the chain.
func (w *weights) outside(v *vocab, c *chain) {
	const carrier = 6 // what stands in a reserved dimension that is set
	n := len(v.tokens)
	emb := w.random(1, 1, embd*n)
	for t := range n {
		row := emb[t*embd : (t+1)*embd]
		clear(row[:reserved])
		row[always], row[c.entry[t]] = carrier, carrier
	}
	w.f.Add("token_embd.weight", emb, embd, uint64(n))

	out := w.random(1.2, embd, embd*n)
	// what the last norm makes of the carrier, when the other dimensions have
	// about the spread that the layers leave
	seen := carrier / math.Sqrt((2*carrier*carrier+(embd-float64(reserved))*1.5)/embd)
	for t := range n {
		row := out[t*embd : (t+1)*embd]
		base := c.logit[always][t]
		clear(row[:reserved])
		if c.steady[t] {
			clear(row)
		}
		row[always] = float32(base / seen)
		for s := start; s < reserved; s++ {
			if logit, ok := c.logit[s][t]; ok {
				row[s] = float32((logit - base) / seen)
			}
		}
	}
	w.constant("output_norm.weight", 1, embd)
	w.f.Add("output.weight", out, embd, uint64(n))
}

func (w *weights) layer(i int, mixed bool) {
	b := fmt.Sprintf("blk.%d.", i)
	w.constant(b+"attn_norm.weight", 1, embd)
	if mixed {
		w.constant(b+"post_attention_norm.weight", 1, embd)
	} else {
		w.constant(b+"ffn_norm.weight", 1, embd)
	}
	if mixed && (i+1)%interval != 0 {
		w.deltaNet(b)
	} else {
		w.attention(b, mixed)
	}
	w.matrix(b+"ffn_gate.weight", embd, ff)
	w.matrix(b+"ffn_up.weight", embd, ff)
	w.back(b+"ffn_down.weight", ff, embd)
}

func (w *weights) deltaNet(b string) {
	const keys, values = ssmState * ssmHeadsK, ssmState * ssmHeadsV
	const conv = 2*keys + values
	w.matrix(b+"attn_qkv.weight", embd, conv)
	w.matrix(b+"attn_gate.weight", embd, values)
	w.f.Add(b+"ssm_conv1d.weight", w.random(1, ssmConv, ssmConv*conv), ssmConv, conv)
	w.constant(b+"ssm_dt.bias", 0.5, ssmHeadsV)
	w.constant(b+"ssm_a", -1, ssmHeadsV) // -exp(A_log)
	w.matrix(b+"ssm_beta.weight", embd, ssmHeadsV)
	w.matrix(b+"ssm_alpha.weight", embd, ssmHeadsV)
	w.constant(b+"ssm_norm.weight", 1, ssmState)
	w.back(b+"ssm_out.weight", values, embd)
}

func (w *weights) attention(b string, gated bool) {
	const q = heads * headD
	if gated {
		w.matrix(b+"attn_q.weight", embd, 2*q) // query and output gate side by side
	} else {
		w.matrix(b+"attn_q.weight", embd, q)
	}
	w.matrix(b+"attn_k.weight", embd, headsKV*headD)
	w.matrix(b+"attn_v.weight", embd, headsKV*headD)
	w.back(b+"attn_output.weight", q, embd)
	w.constant(b+"attn_q_norm.weight", 1, headD)
	w.constant(b+"attn_k_norm.weight", 1, headD)
}
