package measure

import (
	"fmt"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"

	"github.com/guptarohit/asciigraph"
)

// Markdown is the whole report.
func (r *Results) Markdown(maxTokens int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Measurement of an inference server\n\n%s, bxctl %s.", r.Started.UTC().Format("2 January 2006, 15:04 UTC"), plain(r.Version))
	if r.Ended.IsZero() {
		b.WriteString(" **Not finished**: run `bxctl measure` again to go on.")
	}
	if r.Server.Practice {
		b.WriteString(" **This is the practice model: rules, not a language model. Its figures say nothing about one.**")
	}
	b.WriteString("\n\n")
	r.serverPart(&b)
	b.WriteString("## The contract\n\n| point | verdict | what was seen | what to do |\n|---|---|---|---|\n")
	for _, c := range r.Judge(maxTokens) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Point, c.Verdict, plain(c.Seen), plain(c.Do))
	}
	b.WriteString("\n")
	r.depthPart(&b)
	r.cachePart(&b)
	r.toolsPart(&b)
	r.restPart(&b)
	fmt.Fprintf(&b, "## What to expect\n\nIn `config/loopd.toml`; loopd then refuses to start with another server.\n\n```toml\n%s```\n\n", r.Expect())
	r.rawPart(&b)
	return b.String()
}

// plain makes text of a server fit for a cell of a table.
func plain(s string) string {
	s = strings.ReplaceAll(term.Line(s), "|", "\\|")
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(s)
}

// Expect is the [expect] block for loopd.toml.
func (r *Results) Expect() string {
	build, _, _ := strings.Cut(r.Server.Build, "-")
	if r.Server.Practice {
		build = r.Server.Build
	}
	return fmt.Sprintf("[expect]\ncontext  = %d\nslots    = %d\ntemplate = %q\nbuild    = %q\n", r.Server.Window, r.Server.Slots, r.Server.Template, term.Line(build))
}

func (r *Results) serverPart(b *strings.Builder) {
	s := r.Server
	b.WriteString("## The server\n\n| | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"address", s.At},
		{"build", s.Build},
		{"model", s.Model},
		{"file", s.Path},
		{"weights", weights(s)},
		{"window", term.Count(s.Window) + " tokens a slot"},
		{"slots", fmt.Sprintf("%d, of which %d was used", s.Slots, s.Slot)},
		{"template", s.Template},
		{"speculative decoding", fmt.Sprint(s.Drafts)},
		{"flags", strings.Join(s.Args, " ")},
	} {
		if row[1] != "" {
			fmt.Fprintf(b, "| %s | %s |\n", row[0], plain(row[1]))
		}
	}
	b.WriteString("\n")
}

func weights(s Server) string {
	if s.Params == 0 {
		return s.Ftype
	}
	return strings.TrimSpace(fmt.Sprintf("%s parameters, %s %s", term.Count(s.Params), term.Bytes(s.Size), s.Ftype))
}

func (r *Results) depthPart(b *strings.Builder) {
	if r.Depth == nil {
		return
	}
	b.WriteString("## Throughput by depth\n\nTokens per second by the server's own clock; depth is what stands in the window before.\n\n")
	if r.Depth.Bounded != "" {
		b.WriteString(plain(r.Depth.Bounded) + ".\n\n")
	}
	b.WriteString("| depth | prompt tokens | prompt/s | generated | generation/s | first token | read again |\n|---:|---:|---:|---:|---:|---:|---:|\n")
	var prompt, gen []float64
	for _, p := range r.Depth.Points {
		fmt.Fprintf(b, "| %s | %s | %.1f | %d | %.1f | %s | %s |\n", term.Count(p.At), term.Count(p.PromptN), p.Prompt, p.Predicted, p.Generate, term.Span(time.Duration(p.FirstMS)*time.Millisecond), term.Count(p.Lost))
		prompt, gen = append(prompt, p.Prompt), append(gen, p.Generate)
	}
	b.WriteString("\n")
	plot(b, "prompt processing, tokens/s", r.Depth.Points, prompt)
	plot(b, "generation, tokens/s", r.Depth.Points, gen)
}

// plot draws a series over depth. The points do not lie evenly, so they are
// joined by straight lines first.
func plot(b *strings.Builder, title string, points []Point, ys []float64) {
	const columns = 56
	if len(points) < 2 {
		return
	}
	last := float64(points[len(points)-1].At)
	series := make([]float64, columns)
	for i := range series {
		x := last * float64(i) / (columns - 1)
		k := 1
		for k < len(points)-1 && float64(points[k].At) < x {
			k++
		}
		x0, x1 := float64(points[k-1].At), float64(points[k].At)
		series[i] = ys[k]
		if x1 > x0 {
			series[i] = ys[k-1] + (ys[k]-ys[k-1])*min(1, max(0, (x-x0)/(x1-x0)))
		}
	}
	fmt.Fprintf(b, "```\n%s\n```\n\n", asciigraph.Plot(series, asciigraph.Height(9), asciigraph.LowerBound(0), asciigraph.Precision(0),
		asciigraph.XAxisRange(0, last), asciigraph.XAxisTickCount(5), asciigraph.XAxisValueFormatter(func(x float64) string { return fmt.Sprintf("%.0f", x) }), asciigraph.Caption(title+" by depth in tokens")))
}

func (r *Results) cachePart(b *strings.Builder) {
	if r.Cache == nil {
		return
	}
	b.WriteString("## Prompt cache\n\nThree turns with four tools and thinking, then what breaks the prefix. \"There\" is what the slot held before; on a strict extension all of it but one token can be reused.\n\n")
	b.WriteString("| request | there | reused (`cache_n`) | processed (`prompt_n`) | generated | ms | exact |\n|---|---:|---:|---:|---:|---:|---|\n")
	for _, row := range r.Cache.Rows {
		exact := "–"
		if row.Extends {
			exact = map[bool]string{true: "yes", false: "no"}[row.Exact]
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %s |\n", row.What, row.Before, row.CacheN, row.PromptN, row.GenN, row.PromptM, exact)
	}
	b.WriteString("\n")
}

func (r *Results) toolsPart(b *strings.Builder) {
	if r.Tools == nil {
		return
	}
	type sum struct{ n, parsed, right, exact int }
	sums := map[string]*sum{}
	for _, t := range r.Tools.Trials {
		s := sums[t.Tool]
		if s == nil {
			s = &sum{}
			sums[t.Tool] = s
		}
		s.n++
		for n, yes := range map[*int]bool{&s.parsed: t.Parsed, &s.right: t.Right, &s.exact: t.Exact} {
			if yes {
				*n++
			}
		}
	}
	b.WriteString("## Tool calls\n\n| tool | trials | parsed | the right tool | the very arguments |\n|---|---:|---:|---:|---:|\n")
	for _, t := range targets() {
		if s := sums[t.name]; s != nil {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", t.name, s.n, s.parsed, s.right, s.exact)
		}
	}
	b.WriteString("\n")
	for i, t := range r.Tools.Trials {
		if !t.Parsed {
			fmt.Fprintf(b, "- trial %d (%s): finish %q, called %q, markup in the text: %v %s\n", i+1, t.Tool, plain(t.Finish), plain(t.Called), t.Markup, plain(t.Error))
		}
	}
	b.WriteString("\n")
}

func (r *Results) restPart(b *strings.Builder) {
	if s := r.Slots; s != nil {
		fmt.Fprintf(b, "## Slots\n\nSlots seen at work: %v in %d looks. The second turn reused %d of %d tokens. Other slots: %d, changed: %v. "+
			"Only the background slot was used, so that it was not tried whether work on another slot evicts this one.\n\n", s.Seen, s.Looks, s.Reused, s.Before, s.Others, s.Touched)
	}
	if t := r.Thinking; t != nil {
		fmt.Fprintf(b, "## Thinking\n\n| | tokens of thinking |\n|---|---:|\n| cap of %d | at most %d (mark seen: %v) |\n| no cap | %d |\n| cap of 0 | %d |\n\nThe turn after a capped one reused %d of %d tokens.\n\n",
			t.Cap, t.Capped, t.Marked, t.Free, t.ZeroHas, t.CacheN, t.Before)
	}
	if u := r.Busy; u != nil {
		fmt.Fprintf(b, "## Busy slot\n\nThe second request came when the first had worked for %d ms, and got its headers after %d ms with %d pings. ", u.WorkedMS, u.WaitMS, u.Pings)
		if u.Told != "" {
			b.WriteString("This tells little: " + plain(u.Told) + ". ")
		}
		fmt.Fprintf(b, "From closing a stream until its slot was free: %d ms (-1: not seen).\n\n", u.FreedMS)
	}
}

func (r *Results) rawPart(b *strings.Builder) {
	b.WriteString("## Raw timings\n\nAs the server sent them; `head`, `first` and `wall` are this machine's clock, in ms.\n\n| step | request | finish | head | first | wall | progress | pings | timings |\n|---|---|---|---:|---:|---:|---:|---:|---|\n")
	for _, row := range r.Raw {
		what := string(row.Timings)
		if row.Error != "" {
			what = row.Error
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %d | %d | %d | `%s` |\n", row.Step, row.What, plain(row.Finish), row.HeadMS, row.FirstMS, row.WallMS, row.Progress, row.Pings, strings.ReplaceAll(term.Line(what), "`", "'"))
	}
}
