// Package files is the tools that look into and change files: list_files,
// read_file, search_files, write_file and edit_file.
//
// A file is streamed and never held whole, but for an edit, which has a bound.
// What is cut is said, with how to go on. All access is through package tree;
// see there for what it promises of links and special files. A text is returned
// as it is, but for bytes that are not UTF-8 and NUL.
package files

import (
	"context"
	"errors"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
	"boxmaker/toolkit/internal/tree"
)

// Work is what all tools here need beside their arguments.
type Work struct {
	Tree    tree.Set
	Limit   int64 // of the result, in bytes
	Preview bool  // change nothing, give the diff
	// Seen is what the preview saw that the owner approved, if there was one.
	Seen string
}

// reserve is what a page keeps free for the words about what is missing.
const reserve = 400

func (w Work) page() *tooltext.Page { return tooltext.NewPage(w.Limit - reserve) }

// Failed makes an output of an error.
func Failed(err error) tool.Output {
	code := proto.CodeToolFailed
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return tool.Output{Code: proto.CodeToolTimeout, Text: string(proto.CodeToolTimeout) + ": the time of this call was over before there was a result."}
	case errors.Is(err, errLarge):
		code = proto.CodeTooLarge
	}
	return tool.Output{Code: code, Text: string(code) + ": " + err.Error() + "."}
}

// errLarge marks a file that is too large for what is asked.
var errLarge = errors.New("")

// shown is a name for the model, and whether it can be given back to a tool.
func shown(name string) (string, bool) { return tooltext.Name(name, tool.Visible) }

// binary reports whether a file's beginning is that of no text.
func binary(head []byte) string {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if len(head) >= 2 && string(head[:2]) == mark {
			return "UTF-16 text"
		}
	}
	for _, c := range head {
		if c == 0 {
			return "a binary file"
		}
	}
	return ""
}

// sniff is how much of a file decides whether it is text, in bytes.
const sniff = 8000
