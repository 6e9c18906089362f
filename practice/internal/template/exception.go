package template

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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
	return fail("CallExpression", "('"+reason+"')", "Jinja Exception: "+reason, reason)
}

// raiseItems is what the items filter says to a value that is no object.
func raiseItems(k jsontext.Kind) error {
	kinds := map[jsontext.Kind]string{'[': "Array", '"': "String", '0': "Integer", 't': "Boolean", 'f': "Boolean"}
	reason := "Unknown (built-in) filter 'items' for type " + kinds[k]
	return fail("FilterExpression", "| items", reason, reason)
}

// fail makes the text: the first place of at in the source with what is around it.
func fail(expression, mark, text, reason string) error {
	at := strings.Index(Source, mark)
	line := 1 + strings.Count(Source[:at], "\n")
	column := at - strings.LastIndex(Source[:at], "\n")
	from, to := max(0, at-window), min(len(Source), at+window)
	excerpt := strings.ReplaceAll(Source[from:to], "\n", "↵")
	return &Exception{Reason: reason, text: fmt.Sprintf("\n------------\nWhile executing %s at line %d, column %d in source:\n...%s...\n%s^\nError: %s",
		expression, line, column, excerpt, strings.Repeat(" ", 3+window), text)}
}
