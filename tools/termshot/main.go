// Command termshot turns the screen of a terminal, as `tmux capture-pane -ep`
// prints it, into a picture (SVG). scripts/screenshot.sh makes the pictures of the
// README with it.
//
//	tmux capture-pane -ep | termshot -title "bxctl up" > up.svg
//
// It knows colours and the styles bold, faint, italic, underlined and reversed,
// and ignores everything else.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	title := flag.String("title", "", "`text` for those who can't see the picture")
	columns := flag.Int("columns", 0, "width of the screen; 0: that of the longest line")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *title, *columns); err != nil {
		fmt.Fprintln(os.Stderr, "termshot:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, title string, columns int) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	draw(w, parse(string(text)), title, columns)
	return w.Flush()
}
