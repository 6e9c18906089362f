// Package bench measures the figures that the project promises and prints each
// beside its target. `make bench` runs it in full; without -figures every
// measurement is made at a tiny size, which proves only that it still works.
// Nothing here fails because something was slow: a figure that misses its
// target is marked in the table.
package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"boxmaker/e2e/stack"
)

func TestMain(m *testing.M) {
	flag.Bool("figures", false, "measure at full size and print the table")
	flag.Parse()
	if dir := os.Getenv(clerkIn); dir != "" {
		fmt.Fprintln(os.Stderr, "clerk:", clerk(dir))
		os.Exit(1)
	}
	os.Exit(stack.Main(m))
}

func full() bool { return flag.Lookup("figures").Value.String() == "true" }

// pick gives the full size or the tiny one.
func pick(large, tiny int) int {
	if full() {
		return large
	}
	return tiny
}

// A row is one line of the table.
type row struct {
	what, got, target string
	met               bool
	note              string
}

func TestFigures(t *testing.T) {
	figures := []struct {
		name    string
		measure func(*testing.T) []row
	}{
		{"first request", firstRequest},
		{"extension", extension},
		{"first byte", firstByte},
		{"proxy", proxy},
		{"token", tokenCost},
		{"opening", opening},
		{"idle", idle},
		{"start", coldStart},
		{"commands", commands},
		{"append", durableAppend},
		{"audit", auditVerify},
		{"call", call},
		{"grants", lookup},
		{"egress", egress},
		{"chat", chatFigures},
		{"gateway", gateway},
	}
	var table []row
	for _, f := range figures {
		t.Run(f.name, func(t *testing.T) { table = append(table, f.measure(t)...) })
	}
	print(table)
}

func print(table []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nfigure\tmeasured\ttarget\t\tnote")
	for _, r := range table {
		verdict := "met"
		if !r.met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.what, r.got, r.target, verdict, r.note)
	}
	if !full() {
		fmt.Fprintln(w, "(tiny sizes: these numbers mean nothing; use make bench)")
	}
	w.Flush()
}

// median sorts d.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// took times one call.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
