package files

import (
	"fmt"
	"strings"

	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"

	"github.com/aymanbagabas/go-udiff"
)

// maxDiffed is the largest text that is compared, in bytes.
const maxDiffed = 1 << 20

// diff is the preview of a change: the unified diff, or a note why there is
// none or only a part.
func diff(path string, before, after []byte, created bool) tool.Output {
	var notes []string
	if created {
		notes = append(notes, "a new file")
	}
	done := func(d string, more ...string) tool.Output {
		return tool.Output{Diff: d, Note: strings.Join(append(notes, more...), "; ")}
	}
	if len(before) > maxDiffed || len(after) > maxDiffed {
		return done("", fmt.Sprintf("no diff, since the text is larger than %d bytes", maxDiffed))
	}
	for _, side := range []struct {
		b    []byte
		what string
	}{{before, "the file is"}, {after, "the new text is"}} {
		if kind := binary(side.b[:min(len(side.b), sniff)]); kind != "" {
			return done("", "no diff, since "+side.what+" "+kind)
		}
	}
	a, bad1 := tooltext.Clean(before)
	b, bad2 := tooltext.Clean(after)
	if a == b {
		return done("", "the text stays the same")
	}
	from := path
	if created {
		from = "/dev/null"
	}
	d := udiff.Unified(from, path, a, b)
	if bad1 || bad2 {
		notes = append(notes, `bytes that are not UTF-8 text are shown like \xE9`)
	}
	if head := tooltext.Head(d, tool.MaxDiff); len(head) < len(d) {
		if i := strings.LastIndexByte(head, '\n'); i > 0 {
			head = head[:i+1]
		}
		return done(head, fmt.Sprintf("the diff is cut: %d more lines", strings.Count(d[len(head):], "\n")))
	}
	return done(d)
}
