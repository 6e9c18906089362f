// Package tool says which tools there are and what a call of one may look like.
//
// A tool is a schema file in schemas/, which the model reads, and an argument
// struct here; a test ties the two together. [Tool.Decode] is the only way from
// a model's text to a [Call]. It guarantees that a call has exactly the members
// of its schema with their types, that every path in it is absolute, cleaned
// and free of characters that a person cannot see, and that it has one
// canonical text: what is checked, approved, logged and run are the same bytes.
//
// It decides nothing. Whether a call may run is for grants; that a path stays
// inside a granted tree is for the mounts and for os.Root, never for a
// comparison of the strings here.
package tool

import (
	"embed"
	"fmt"
	"slices"
	"sync"

	"boxmaker/internal/proto"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed schemas
var files embed.FS

// Names of the tools.
const (
	NameListFiles   = "list_files"
	NameReadFile    = "read_file"
	NameSearchFiles = "search_files"
	NameWriteFile   = "write_file"
	NameEditFile    = "edit_file"
	NameRun         = "run"
	NameShell       = "shell"
	NameHTTPFetch   = "http_fetch"
)

// A Tool is one thing that a model can ask for. Tools are shared and must not
// be changed.
type Tool struct {
	Name string
	Line string // what it does, in one line for find_tool

	schema func() schema // read at its first use: a tool that runs needs none
	fresh  func() arguments
}

// A schema is what a tool's file says.
type schema struct {
	text    []byte
	example string // arguments
}

// Schema is the JSON schema of the tool's arguments, compact.
func (t *Tool) Schema() []byte { return t.schema().text }

func (t *Tool) example() string { return t.schema().example }

// arguments is a tool's struct, filled with the defaults.
type arguments interface {
	fields() []field
	// check looks at what no single field shows.
	check() error
	// uses gives the paths and hosts that the call names.
	uses() (reads, writes, hosts []string)
}

// All returns every tool, in the order in which they are shown.
func All() []*Tool { return slices.Clone(table()) }

// Find returns the tool of that name, or nil.
func Find(name string) *Tool {
	for _, t := range table() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// table is made at the first use: a program that needs none pays nothing.
var table = sync.OnceValue(func() []*Tool {
	all := []*Tool{
		{
			Name: NameListFiles, fresh: func() arguments { return newListFiles() },
			Line: "List the files and folders in a folder, with their sizes.",
		},
		{
			Name: NameReadFile, fresh: func() arguments { return newReadFile() },
			Line: "Read a text file, or some lines of it.",
		},
		{
			Name: NameSearchFiles, fresh: func() arguments { return newSearchFiles() },
			Line: "Search the text of all files in a folder and its subfolders (grep).",
		},
		{
			Name: NameWriteFile, fresh: func() arguments { return newWriteFile() },
			Line: "Create a text file, or replace all of its text.",
		},
		{
			Name: NameEditFile, fresh: func() arguments { return newEditFile() },
			Line: "Change one place in a text file: replace an exact text by another.",
		},
		{
			Name: NameRun, fresh: func() arguments { return newRun() },
			Line: "Run one program with arguments, without a shell.",
		},
		{
			Name: NameShell, fresh: func() arguments { return newShell() },
			Line: "Run a shell command line (sh), with pipes and several commands.",
		},
		{
			Name: NameHTTPFetch, fresh: func() arguments { return newHTTPFetch() },
			Line: "Fetch a web page or call a web API (download a URL), as readable text.",
		},
	}
	for _, t := range all {
		t.schema = sync.OnceValue(func() schema {
			s, err := load(t.Name)
			if err != nil {
				panic(fmt.Sprintf("tool: embedded schema of %s: %v", t.Name, err)) // a test rules it out
			}
			return s
		})
	}
	return all
})

func load(name string) (schema, error) {
	text, err := files.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return schema{}, err
	}
	if err := (*jsontext.Value)(&text).Compact(); err != nil {
		return schema{}, err
	}
	var doc struct {
		Examples []jsontext.Value `json:"examples"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return schema{}, err
	}
	if len(doc.Examples) == 0 {
		return schema{}, fmt.Errorf("no example")
	}
	return schema{text, string(doc.Examples[0])}, nil
}

// A Call is a tool with arguments that were decoded. It must not be changed.
type Call struct {
	Tool      *Tool
	Args      any    // *ListFiles, *ReadFile, …; absent members have their defaults
	Canonical string // the arguments in their one form: schema order, no defaults

	args arguments
}

// Fields returns the arguments as text, in the order of the schema, without
// those that have their default value. What is not a string is JSON.
func (c *Call) Fields() []proto.Field {
	var fields []proto.Field
	for _, f := range c.args.fields() {
		if !f.value.isDefault() || f.required {
			fields = append(fields, proto.Field{Name: f.name, Value: f.value.show()})
		}
	}
	return fields
}

// Reads returns the absolute, cleaned paths that the call names for reading.
func (c *Call) Reads() []string { r, _, _ := c.args.uses(); return r }

// Writes returns the paths that the call names for writing. Such a path is read
// as well where the tool must know what is there (an edit, a diff).
func (c *Call) Writes() []string { _, w, _ := c.args.uses(); return w }

// Hosts returns the host:port that http_fetch's URL names: lower case, without
// a trailing dot, IPv6 in brackets. A redirect can lead to others.
func (c *Call) Hosts() []string { _, _, h := c.args.uses(); return h }

// Value returns the text of an argument, the default if the call does not have
// it: one value, or one for each element of a list ("Name: value" for each
// header). An argument that is absent and has no default gives none. It is
// false if the tool has no such argument.
func (c *Call) Value(arg string) ([]string, bool) {
	for _, f := range c.args.fields() {
		if f.name == arg {
			if v, ok := f.value.(text); ok && f.required {
				return []string{*v.p}, true // also an empty one: it was said
			}
			return f.value.texts(), true
		}
	}
	return nil, false
}

// Arguments returns the names of the tool's arguments, in the schema's order.
func (t *Tool) Arguments() []string {
	var names []string
	for _, f := range t.fresh().fields() {
		names = append(names, f.name)
	}
	return names
}
