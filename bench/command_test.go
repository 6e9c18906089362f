package bench

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"boxmaker/e2e/stack"
)

// commands takes the time of commands that an owner expects at once, from
// their start to their end, with Boxmaker running.
func commands(t *testing.T) []row {
	const limit = 30 * time.Millisecond
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Must("", "up", "--detach")
	s.Must("hello", "ask")
	var rows []row
	for _, args := range [][]string{{"--version"}, {"status"}, {"sessions", "list"}, {"logs"}} {
		var d []time.Duration
		for range pick(31, 2) {
			d = append(d, took(func() { s.Must("", args...) }))
		}
		name := "bxctl"
		for _, a := range args {
			name += " " + a
		}
		m := median(d)
		rows = append(rows, row{name, fmt.Sprintf("%.0f ms", float64(m.Microseconds())/1000), "<= 30 ms", m <= limit, "median of " + strconv.Itoa(len(d))})
	}
	return rows
}
