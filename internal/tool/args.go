package tool

import (
	"path"
	"regexp/syntax"
	"strings"
)

// ListFiles are the arguments of list_files.
type ListFiles struct {
	Path   string `json:"path"`
	Depth  int64  `json:"depth,omitzero"`  // levels of folders
	Offset int64  `json:"offset,omitzero"` // first entry, from 1
}

func newListFiles() *ListFiles { return &ListFiles{Depth: 1, Offset: 1} }

func (a *ListFiles) fields() []field {
	return []field{
		{"path", true, text{p: &a.Path, want: "a string", mend: cleanPath}},
		{"depth", false, number{&a.Depth, 1, 20}},
		{"offset", false, number{&a.Offset, 1, 1e6}},
	}
}

func (a *ListFiles) check() error                 { return nil }
func (a *ListFiles) uses() (r, w, hosts []string) { return []string{a.Path}, nil, nil }

// ReadFile are the arguments of read_file.
type ReadFile struct {
	Path    string `json:"path"`
	Offset  int64  `json:"offset,omitzero"` // first line, from 1
	Limit   int64  `json:"limit,omitzero"`  // lines
	Column  int64  `json:"column,omitzero"` // first byte of that line, from 1
	Numbers bool   `json:"numbers,omitzero"`
}

func newReadFile() *ReadFile { return &ReadFile{Offset: 1, Limit: 2000, Column: 1} }

func (a *ReadFile) fields() []field {
	return []field{
		{"path", true, text{p: &a.Path, want: "a string", mend: filePath}},
		{"offset", false, number{&a.Offset, 1, 1e12}},
		{"limit", false, number{&a.Limit, 2000, 1e6}},
		{"column", false, number{&a.Column, 1, 1e12}},
		{"numbers", false, flag{&a.Numbers}},
	}
}

func (a *ReadFile) check() error                 { return nil }
func (a *ReadFile) uses() (r, w, hosts []string) { return []string{a.Path}, nil, nil }

// SearchFiles are the arguments of search_files.
type SearchFiles struct {
	Path    string `json:"path"`
	Pattern string `json:"pattern"`
	Name    string `json:"name,omitzero"` // glob on the files' names
	Limit   int64  `json:"limit,omitzero"`
}

func newSearchFiles() *SearchFiles { return &SearchFiles{Limit: 100} }

func (a *SearchFiles) fields() []field {
	return []field{
		{"path", true, text{p: &a.Path, want: "a string", mend: cleanPath}},
		{"pattern", true, text{p: &a.Pattern, want: "a string", mend: regular}},
		{"name", false, text{p: &a.Name, want: "a string", mend: glob}},
		{"limit", false, number{&a.Limit, 100, 1000}},
	}
}

func (a *SearchFiles) check() error                 { return nil }
func (a *SearchFiles) uses() (r, w, hosts []string) { return []string{a.Path}, nil, nil }

// Bounds of a pattern: bytes, and steps of the program that it becomes. RE2 is
// linear in the text, times the length of that program, and a counted repetition
// makes a thousand steps of each sign: 960 bytes took 250 MB and 1.7 s.
const (
	maxPattern = 1000
	maxSteps   = 5000
)

func regular(s string) (string, error) {
	if s == "" {
		return "", bad("is empty; give a word or a regular expression to look for")
	}
	if len(s) > maxPattern {
		return "", bad("is longer than %d bytes", maxPattern)
	}
	// Parsed and not compiled: this is done before anybody has decided on the call.
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return "", bad(`is not a regular expression of the RE2 kind (no look-around, no back-references); to search for the signs . ( ) [ ] { } * + ? | ^ $ themselves put \ before each`)
	}
	if steps(re) > maxSteps {
		return "", bad("repeats too much; use smaller numbers in { }, or * and +")
	}
	return s, nil
}

// steps is about how many instructions a regular expression becomes.
func steps(re *syntax.Regexp) int64 {
	n := int64(1 + len(re.Rune)*literal(re.Op))
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat { // syntax bounds the product of nested ones
		n *= int64(max(re.Min, re.Max) + 1)
	}
	return n
}

// literal is 1 for what stands for each of its characters; a class is one step.
func literal(op syntax.Op) int {
	if op == syntax.OpLiteral {
		return 1
	}
	return 0
}

func glob(s string) (string, error) {
	if strings.ContainsRune(s, '/') {
		return "", bad("must be a pattern for file names without a folder, for example *.md")
	}
	if _, err := path.Match(s, ""); err != nil || len(s) > maxName {
		return "", bad("must be a pattern for file names, for example *.md")
	}
	return s, visible(s)
}

// Modes of write_file.
const (
	ModeCreate    = "create"
	ModeOverwrite = "overwrite"
)

// WriteFile are the arguments of write_file.
type WriteFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Mode    string `json:"mode,omitzero"` // create or overwrite
}

func newWriteFile() *WriteFile { return &WriteFile{Mode: ModeCreate} }

func (a *WriteFile) fields() []field {
	return []field{
		{"path", true, text{p: &a.Path, want: "a string", mend: filePath}},
		{"content", true, text{p: &a.Content, want: "a string"}},
		{"mode", false, text{p: &a.Mode, def: ModeCreate, want: "a string", mend: oneOf(ModeCreate, ModeOverwrite)}},
	}
}

func (a *WriteFile) check() error                 { return nil }
func (a *WriteFile) uses() (r, w, hosts []string) { return nil, []string{a.Path}, nil }

func oneOf(a, b string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s != a && s != b {
			return "", bad(`must be "%s" or "%s"`, a, b)
		}
		return s, nil
	}
}

// EditFile are the arguments of edit_file.
type EditFile struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

func newEditFile() *EditFile { return &EditFile{} }

func (a *EditFile) fields() []field {
	return []field{
		{"path", true, text{p: &a.Path, want: "a string", mend: filePath}},
		{"old", true, text{p: &a.Old, want: "a string"}},
		{"new", true, text{p: &a.New, want: "a string"}},
	}
}

func (a *EditFile) check() error {
	if a.Old == "" {
		return invalid("`old` is empty; give the exact text to replace, or use write_file for a new file.")
	}
	if a.Old == a.New {
		return invalid("`old` and `new` are the same, so nothing would change.")
	}
	return nil
}

func (a *EditFile) uses() (r, w, hosts []string) { return nil, []string{a.Path}, nil }

// tempDir is the working folder of programs if the call names none. It is
// inside the container, empty, and gone with it.
const tempDir = "/tmp"

// dirUses gives the working folder as a path for reading; /tmp needs no grant.
func dirUses(dir string) []string {
	if dir == tempDir {
		return nil
	}
	return []string{dir}
}

// Run are the arguments of run.
type Run struct {
	Argv []string `json:"argv"`
	Dir  string   `json:"dir,omitzero"`
}

func newRun() *Run { return &Run{Dir: tempDir} }

func (a *Run) fields() []field {
	return []field{
		{"argv", true, list{&a.Argv, 4096, argument}},
		{"dir", false, text{p: &a.Dir, def: tempDir, want: "a string", mend: cleanPath}},
	}
}

func (a *Run) check() error {
	if len(a.Argv) == 0 {
		return invalid("`argv` is empty; the first element is the program, for example [\"ls\",\"-l\"].")
	}
	return nil
}

func (a *Run) uses() (r, w, hosts []string) { return dirUses(a.Dir), nil, nil }

// maxArgument is the longest argument that Linux takes, in bytes.
const maxArgument = 128<<10 - 1

func argument(i int, s string) error {
	if strings.ContainsRune(s, 0) {
		return bad("has a NUL character in it; remove it")
	}
	if len(s) > maxArgument {
		return bad("has an element longer than %d bytes; write the text to a file first", maxArgument)
	}
	if i > 0 {
		return nil
	}
	switch {
	case s == "":
		return bad("has an empty first element; it must be the program, for example ls")
	case strings.ContainsRune(s, '/') && (s[0] != '/' || path.Clean(s) != s):
		return bad("must begin with the name of a program (ls) or its absolute path (/usr/bin/ls)")
	case s == "." || s == ".." || len(s) > maxPath:
		return bad("must begin with the name of a program, for example ls")
	default:
		return visible(s)
	}
}

// Shell are the arguments of shell.
type Shell struct {
	Command string `json:"command"`
	Dir     string `json:"dir,omitzero"`
}

func newShell() *Shell { return &Shell{Dir: tempDir} }

func (a *Shell) fields() []field {
	return []field{
		{"command", true, text{p: &a.Command, want: "a string", mend: command}},
		{"dir", false, text{p: &a.Dir, def: tempDir, want: "a string", mend: cleanPath}},
	}
}

func (a *Shell) check() error                 { return nil }
func (a *Shell) uses() (r, w, hosts []string) { return dirUses(a.Dir), nil, nil }

func command(s string) (string, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return "", bad("is empty; give a command line, for example ls -l | wc -l")
	case strings.ContainsRune(s, 0):
		return "", bad("has a NUL character in it; remove it")
	case len(s) > maxArgument:
		return "", bad("is longer than %d bytes; write it to a file first and run that", maxArgument)
	}
	return s, nil
}
