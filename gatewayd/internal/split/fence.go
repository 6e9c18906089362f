package split

import "strings"

// A fence is an open block of code; the zero value is none. Its rules are those of
// Mattermost's own reader (shared/markdown/fenced_code.go), which differ in detail
// from CommonMark: no backtick behind a mark of either kind, and a closing line
// may go on with more of the mark's character after a blank.
type fence struct {
	mark string // as it must be repeated to close: ``` or ~~~, or more
	info string // what stands behind it, usually a language
}

// step reads one line. mark reports that the line opens or closes.
func (f fence) step(l string) (after fence, mark bool) {
	s := strings.TrimLeft(l, " ")
	if len(l)-len(s) > 3 {
		return f, false
	}
	if f.mark != "" {
		rest, ok := strings.CutPrefix(s, f.mark)
		if ok && strings.Trim(strings.TrimSpace(rest), f.mark[:1]) == "" {
			return fence{}, true
		}
		return f, false
	}
	after = opens(s)
	if after.mark == "" || after.long() {
		return f, false
	}
	return after, true
}

// opens reads a line, less its indentation, that may open a block.
func opens(s string) fence {
	if !strings.HasPrefix(s, "```") && !strings.HasPrefix(s, "~~~") {
		return fence{}
	}
	rest := strings.TrimLeft(s, s[:1])
	if strings.Contains(rest, "`") {
		return fence{}
	}
	return fence{mark: s[:len(s)-len(rest)], info: strings.TrimSpace(rest)}
}

// long reports a fence that could not be written anew in each part. Package split
// takes it for text, and Harmless makes it such for everybody.
func (f fence) long() bool { return len(f.mark) > longFence || len(f.info) > longInfo }

// opening is the line that opens it again in the next part.
func (f fence) opening() string {
	if f.mark == "" {
		return ""
	}
	return f.mark + f.info + "\n"
}

// ending is what closes it behind body.
func (f fence) ending(body string) string {
	switch {
	case f.mark == "":
		return ""
	case strings.HasSuffix(body, "\n"):
		return f.mark
	default:
		return "\n" + f.mark
	}
}
