package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
)

// recorded starts a home whose server notes each request.
func recorded(t *testing.T) (*stack.Stack, *stack.Server) {
	s := stack.New(t)
	server := s.Serve()
	s.Up()
	return s, server
}

// requests gives the bodies that hold mark, in the order of arrival.
func requests(t *testing.T, server *stack.Server, mark string) [][]byte {
	var out [][]byte
	for _, r := range must[[]stack.Request](t)(stack.Requests(server.Record)) {
		if strings.Contains(string(r.Body), mark) {
			out = append(out, r.Body)
		}
	}
	return out
}

// firstRequest counts what the model has to read before the first answer.
func firstRequest(t *testing.T) []row {
	s, server := recorded(t)
	s.Say("chat-bench-first", "bench-first", "hello")
	bodies := requests(t, server, `"hello"`)
	if len(bodies) == 0 {
		t.Fatal("no request was recorded")
	}
	n := len(bodies[0])
	return []row{{"first request of a new session, bytes", strconv.Itoa(n), "<= 4800", n <= 4800, "the whole body"}}
}

// idle reads the proportional share of memory once nothing happens.
func idle(t *testing.T) []row {
	s, _ := recorded(t)
	s.Say("chat-bench-idle", "bench-idle", "hello")
	s.WaitQuiet()
	var rows []row
	for _, p := range []struct {
		program string
		limit   float64
	}{{"loopd", 25}, {"inferproxy", 8}} {
		mb, note := pss(t, s.PID(p.program))
		rows = append(rows, row{"idle memory (PSS) of " + p.program, fmt.Sprintf("%.1f MB", mb), fmt.Sprintf("<= %.0f MB", p.limit), mb <= p.limit, note})
	}
	return rows
}

// pss gives the proportional share of memory of a daemon in MB, or what is there
// instead: a daemon lets only root look into it.
func pss(t *testing.T, pid int) (mb float64, note string) {
	if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err != nil {
		return memory(t, pid, "status", "VmRSS:"), "the whole resident size, which is more: only root can read the PSS"
	}
	return memory(t, pid, "smaps_rollup", "Pss:"), ""
}

// memory reads a size in kB from a file of /proc and gives MB.
func memory(t *testing.T, pid int, file, key string) float64 {
	text := string(must[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))))
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return float64(must[int](t)(strconv.Atoi(strings.Fields(rest)[0]))) * 1024 / 1e6
		}
	}
	t.Fatalf("/proc/%d/%s has no %s", pid, file, key)
	return 0
}

// cpu gives the processor time of a process so far, user and system. The
// kernel's unit is 10 ms on Linux.
func cpu(t *testing.T, pid int) time.Duration {
	text := string(must[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))))
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	ticks := must[int](t)(strconv.Atoi(f[11])) + must[int](t)(strconv.Atoi(f[12]))
	return time.Duration(ticks) * 10 * time.Millisecond
}

// coldStart takes the time from `up --detach` until `ask` has answered.
func coldStart(t *testing.T) []row {
	var d []time.Duration
	for range pick(7, 1) {
		s := stack.New(t)
		s.Must("", "init", "--practice")
		d = append(d, took(func() {
			s.Must("", "up", "--detach")
			s.Must("hello", "ask")
		}))
		s.Down()
	}
	m := median(d)
	return []row{{"bxctl up --detach until ask has answered", fmt.Sprintf("%.2f s", m.Seconds()), "<= 1.5 s", m <= 1500*time.Millisecond, "median of " + strconv.Itoa(len(d))}}
}
