package template

import (
	"fmt"
	"strings"
)

// An Exception is a raise_exception of the template. Its text is in
// llama-server's form (samples err_bad_role, err_template_exception).
type Exception struct {
	Reason string
	text   string
}

func (e *Exception) Error() string { return e.text }

const window = 40 // bytes of source shown on each side

func raise(reason string) error {
	e := &Exception{Reason: reason, text: "Jinja Exception: " + reason}
	at := strings.Index(Source, "('"+reason+"')")
	if at < 0 {
		return e
	}
	line := 1 + strings.Count(Source[:at], "\n")
	column := at - strings.LastIndex(Source[:at], "\n")
	from, to := max(0, at-window), min(len(Source), at+window)
	excerpt := strings.ReplaceAll(Source[from:to], "\n", "↵")
	e.text = fmt.Sprintf("\n------------\nWhile executing CallExpression at line %d, column %d in source:\n...%s...\n%s^\nError: Jinja Exception: %s",
		line, column, excerpt, strings.Repeat(" ", 3+window), reason)
	return e
}
