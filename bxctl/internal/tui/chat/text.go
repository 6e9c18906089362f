package chat

import (
	"bytes"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/go-json-experiment/json/jsontext"
)

// wrapText breaks a text that is safe for a terminal into rows. SGR sequences of
// our own may stand in it; a row that is broken ends them.
func wrapText(s string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(s, "\t", "    "), "\n") {
		if ansi.StringWidth(line) <= width {
			out = append(out, line)
			continue
		}
		out = append(out, strings.Split(ansi.Wrap(line, max(width, 4), " "), "\n")...)
	}
	return out
}

// pretty lays JSON out in lines; what is none stays as it is.
func pretty(s string) string {
	v := jsontext.Value(bytes.Clone([]byte(s)))
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return s
	}
	return string(v)
}
