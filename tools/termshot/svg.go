package main

import (
	"bufio"
	"fmt"
	"strings"
)

const (
	cellWidth, cellHeight = 8.4, 18.0
	margin                = 14.0
	background, ink       = "#16181d", "#d5d8de"
)

func hex(r, g, b int) string {
	in := func(v int) int { return max(0, min(255, v)) }
	return fmt.Sprintf("#%02x%02x%02x", in(r), in(g), in(b))
}

// indexed gives a colour of the table of 256.
func indexed(i int) string {
	base := []string{
		"#2b2f38", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5d8de",
		"#7f8694", "#f0888f", "#b5d69b", "#f0d399", "#8cc5f5", "#d79be8", "#7fcdd6", "#ffffff",
	}
	switch {
	case i < 0 || i > 255:
		return ""
	case i < len(base):
		return base[i]
	case i >= 232:
		v := 8 + 10*(i-232)
		return hex(v, v, v)
	}
	level := func(n int) int {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	i -= 16
	return hex(level(i/36), level(i/6%6), level(i%6))
}

// draw writes the picture.
func draw(w *bufio.Writer, rows [][]piece, title string, columns int) {
	for _, row := range rows {
		if n := len(row); n > 0 {
			columns = max(columns, row[n-1].column+row[n-1].width)
		}
	}
	width, height := float64(columns)*cellWidth+2*margin, float64(len(rows))*cellHeight+2*margin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.1f %.1f" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(w, "<title>%s</title>\n", escape(title))
	fmt.Fprintf(w, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	fmt.Fprintf(w, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="%s" xml:space="preserve">`+"\n", ink)
	for y, row := range rows {
		top := margin + float64(y)*cellHeight
		for _, r := range row {
			drawRun(w, r, top)
		}
	}
	fmt.Fprint(w, "</g>\n</svg>\n")
}

func drawRun(w *bufio.Writer, r piece, top float64) {
	fg, bg := r.fg, r.bg
	if r.swap {
		fg, bg = bg, fg
		if fg == "" {
			fg = background
		}
		if bg == "" {
			bg = ink
		}
	}
	x := margin + float64(r.column)*cellWidth
	if bg != "" {
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, top, float64(r.width)*cellWidth, cellHeight, bg)
	}
	text := strings.TrimRight(r.text, " ")
	if text == "" && !r.underlined {
		return
	}
	var a strings.Builder
	set := func(on bool, s string) {
		if on {
			a.WriteString(" " + s)
		}
	}
	set(fg != "", `fill="`+fg+`"`)
	set(r.bold, `font-weight="bold"`)
	set(r.faint, `opacity="0.6"`)
	set(r.italic, `font-style="italic"`)
	set(r.underlined, `text-decoration="underline"`)
	columns := r.width - (len(r.text) - len(text))
	if bare := strings.TrimLeft(text, " "); !r.underlined { // spaces at the start are not kept everywhere
		n := len(text) - len(bare)
		text, columns, x = bare, columns-n, x+float64(n)*cellWidth
	}
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" textLength="%.1f"%s>%s</text>`+"\n", x, top+0.75*cellHeight, float64(columns)*cellWidth, a.String(), escape(text))
}

// escape gives text for XML; what XML has no place for is left out.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}
