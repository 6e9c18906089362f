// Command testlog makes the output of `go test -json`, read from standard input,
// readable: what failed in full, one standard line a package, and at the end every
// test that was skipped, with its reason, so that a run which left something out
// cannot look like one that did not. It exits 1 if anything failed.
//
//	go test -json ./... | testlog [NOTE]...
//
// Each NOTE is a thing that the caller itself could not run; it is listed too.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is one line of `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
}

type report struct {
	out                     io.Writer
	output                  map[string][]string // of a test or package, until it ends
	failedIn                map[string]bool     // packages with a failed test
	skipped                 []skip
	passed, failed, skipCnt int
	broken                  bool
}

func main() {
	r := report{out: os.Stdout, output: map[string][]string{}, failedIn: map[string]bool{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(2)
	}
	if !r.close(os.Args[1:]) {
		os.Exit(1)
	}
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				r.out.Write(line) // not of the JSON stream: a tool's own words
			} else {
				r.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		if e.Test == "" && isResult(e.Output) {
			io.WriteString(r.out, e.Output)
			return
		}
		if !strings.HasPrefix(e.Output, "=== ") { // that a test started, paused, went on
			r.output[key] = append(r.output[key], e.Output)
		}
	case "build-output":
		io.WriteString(r.out, e.Output)
	case "build-fail":
		r.broken = true // and the package fails below, if it is one
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		delete(r.output, key)
	case "skip":
		if e.Test != "" {
			r.skipCnt++
			r.skip(e.Package, e.Test, reason(r.output[key]))
		}
		delete(r.output, key)
	case "fail":
		// A package can fail without a failed test: it did not build, or panicked.
		if e.Test != "" || !r.failedIn[e.Package] {
			r.failed++
		}
		r.failedIn[e.Package] = true
		io.WriteString(r.out, strings.Join(r.output[key], ""))
		delete(r.output, key)
		if e.Test == "" {
			r.unended(e.Package)
		}
	}
}

// unended prints what tests said that never came to an end: a time-out's stacks
// are given as the output of the test that ran.
func (r *report) unended(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(r.output)) {
		if p, test, _ := strings.Cut(key, "\x00"); p == pkg && test != "" {
			fmt.Fprintf(r.out, "=== %s did not end\n%s", test, strings.Join(r.output[key], ""))
			delete(r.output, key)
		}
	}
}

// A skip is one reason in one package, and the tests that it kept from running.
type skip struct {
	pkg, reason string
	tests       []string
}

func (s skip) String() string {
	if len(s.tests) > 3 {
		return fmt.Sprintf("%s, %d tests: %s", s.pkg, len(s.tests), s.reason)
	}
	return fmt.Sprintf("%s %s: %s", s.pkg, strings.Join(s.tests, ", "), s.reason)
}

func (r *report) skip(pkg, test, reason string) {
	for i, s := range r.skipped {
		if s.pkg == pkg && s.reason == reason {
			r.skipped[i].tests = append(s.tests, test)
			return
		}
	}
	r.skipped = append(r.skipped, skip{pkg, reason, []string{test}})
}

// isResult tells the line that sums up a package from the rest of its output.
func isResult(s string) bool {
	return strings.HasPrefix(s, "ok  \t") || strings.HasPrefix(s, "FAIL\t") || strings.HasPrefix(s, "?   \t")
}

// reason finds what t.Skip was given: the indented lines, less file and line.
func reason(output []string) string {
	var parts []string
	for _, s := range output {
		s = strings.TrimRight(s, "\n")
		if !strings.HasPrefix(s, "    ") || strings.HasPrefix(strings.TrimSpace(s), "--- ") {
			continue
		}
		s = strings.TrimSpace(s)
		if _, after, ok := strings.Cut(s, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				s = text
			}
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return "no reason given"
	}
	return strings.Join(parts, " ")
}

// close prints the summary and reports whether all went well. Its last line is
// "N passed, N failed, N skipped".
func (r *report) close(notes []string) bool {
	if len(notes)+len(r.skipped) > 0 {
		fmt.Fprintln(r.out, "\n############ NOT RUN ############")
		for _, s := range notes {
			fmt.Fprintln(r.out, "NOT RUN:", s)
		}
		for _, s := range r.skipped {
			fmt.Fprintln(r.out, "NOT RUN:", s)
		}
		fmt.Fprintln(r.out, "#################################")
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipCnt)
	return !r.broken && r.failed == 0 && r.passed > 0
}
