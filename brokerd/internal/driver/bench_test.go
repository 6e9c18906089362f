package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

// BenchmarkDeny compares a denial, from the request to the result, with the
// write and the sync that its record needs at least: in turns, on one disk. The
// metric "ratio" is that of the medians.
func BenchmarkDeny(b *testing.B) {
	dir := b.TempDir()
	w := newWorld(b, dir)
	w.grant("10-read.toml", grantRead)
	w.start()
	f, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := []byte(strings.Repeat("x", 399) + "\n") // as long as the record
	var ours, bare []time.Duration
	for n := 1; b.Loop(); n++ {
		start := time.Now()
		r := w.call(read(fmt.Sprintf("s/1/%d/0", n), "/etc/x"))
		ours = append(ours, time.Since(start))
		if r.Code != proto.CodeNoGrant {
			b.Fatal(r)
		}
		start = time.Now()
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	b.ReportMetric(float64(ours[len(ours)/2])/float64(bare[len(bare)/2]), "ratio")
	b.ReportMetric(float64(ours[len(ours)/2].Nanoseconds()), "ns/deny")
	b.ReportMetric(float64(bare[len(bare)/2].Nanoseconds()), "ns/bare")
	w.end()
}

// BenchmarkRun is a call that runs nothing real.
func BenchmarkRun(b *testing.B) {
	w := newWorld(b, b.TempDir())
	w.grant("10-read.toml", grantRead)
	w.start()
	for n := 1; b.Loop(); n++ {
		id := fmt.Sprintf("s/1/%d/0", n)
		if r := w.call(read(id, "/data/x")); r.Outcome != proto.CallOK {
			b.Fatal(r)
		}
		if err := w.d.Confirm(id); err != nil {
			b.Fatal(err)
		}
	}
	w.end()
}
