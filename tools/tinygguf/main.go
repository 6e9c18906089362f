// Command tinygguf writes a tiny GGUF model with random weights, for tests that
// need a real llama-server but no real language model. It downloads nothing, and
// the same flags give the same bytes.
//
//	tinygguf -arch qwen35 -o tiny.gguf -canned '"Hm.\n</think>\n\nHello."'
//
// The architecture is "qwen35" (the hybrid of Qwen3.5: three gated-delta-net
// layers, then one of full attention) or "qwen3" (plain full attention). The file
// has a byte-level BPE vocabulary made here, and a chat template in the manner of
// Qwen3.5's that keeps reasoning in the history.
//
// What the model says is noise, but it says it in the form of a reply: a few
// words of thinking, then a few words of an answer or a call of the tool "clock".
// A Markov chain over the vocabulary (chain.go) is laid into the embeddings and
// the output matrix for that; the layers between make the noise depend on the
// whole context, as a model's output does. Replies come back as the same tokens
// when they are sent again, so each turn extends the cache of the one before.
//
// For scripted replies there are canned tokens (-canned, may be repeated): each is
// one token of the vocabulary whose text is a whole reply, from the end of the
// generation prompt ("<think>\n") on. The model never says one by itself, but a
// request with "logit_bias": [[ID, 100]] makes it the next token, and the turn
// ends right after it. Such a text should not occur in ordinary prompts: it would
// be one token there too.
//
// Standard output gets a line "token NAME ID" for each token that a test may want
// to bias, and "canned ID TEXT" for each reply, the text as a quoted Go string.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tinygguf:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	s := spec{odds: odds{thinkEnd: 0.06, end: 0.08, call: 0.2, late: 0.02}}
	fs := flag.NewFlagSet("tinygguf", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("o", "tiny.gguf", "file to write")
	fs.StringVar(&s.arch, "arch", hybrid, "qwen35 (hybrid) or qwen3 (plain attention)")
	fs.StringVar(&s.style, "tools", "xml", "tool-call style of the chat template: xml (Qwen3.5) or json (Qwen3)")
	fs.Uint64Var(&s.seed, "seed", 1, "seed of the weights")
	context := fs.Uint("ctx", 262144, "context length the model says it was trained with")
	fs.BoolVar(&s.calls, "calls", true, "the model calls the tool clock by itself")
	fs.Func("canned", "a reply as one token; a text in double quotes is read as a Go string (may be repeated)", func(text string) (err error) {
		if strings.HasPrefix(text, `"`) {
			if text, err = strconv.Unquote(text); err != nil {
				return err
			}
		}
		s.replies = append(s.replies, text)
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are only flags, no arguments", fs.Arg(0))
	}
	s.context = uint32(*context)
	model, v, err := build(s)
	if err != nil {
		return err
	}
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := model.Encode(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	type named struct{ name, token string }
	known := []named{{"turn-end", turnEnd}, {"think-end", thinkEnd}, {"think-stop", stop}}
	if calls := callTexts(s.style); s.calls {
		known = append(known, named{"call", calls[0]}, named{"late-call", calls[1]})
	}
	for _, t := range known {
		fmt.Fprintf(stdout, "token %s %d\n", t.name, v.id[t.token])
	}
	for _, r := range s.replies {
		fmt.Fprintf(stdout, "canned %d %q\n", v.id[r], r)
	}
	return nil
}
