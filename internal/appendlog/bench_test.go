package appendlog

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchLine has about the size of a short message's record.
func benchLine() []byte {
	return []byte(`{"v":1,"n":12,"time":"2026-01-02T03:04:05.678Z","kind":"assistant","message":{"role":"assistant","content":"` +
		strings.Repeat("some text ", 50) + `"}}`)
}

// BenchmarkAppend is one durable append; its target is 1.3 × BenchmarkBareWriteSync.
func BenchmarkAppend(b *testing.B) {
	root, _ := tempRoot(b)
	l, _, err := Open(Config{Root: root, Name: "a"})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	line := benchLine()
	for b.Loop() {
		if err := l.Append(line); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareWriteSync is a write of the same bytes and an fsync.
func BenchmarkBareWriteSync(b *testing.B) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "a"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := appendSealed(nil, benchLine())
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendBesideBare does both in turn, so that whatever else the disk is
// doing hits both alike, and reports the ratio of the medians.
func BenchmarkAppendBesideBare(b *testing.B) {
	root, dir := tempRoot(b)
	l, _, err := Open(Config{Root: root, Name: "a"})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	f, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := benchLine()
	onDisk := appendSealed(nil, line)
	var ours, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := l.Append(line); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		if _, err := f.Write(onDisk); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		ours, bare = append(ours, between.Sub(start)), append(bare, time.Since(between))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	b.ReportMetric(float64(ours[len(ours)/2])/float64(bare[len(bare)/2]), "ratio")
}

// BenchmarkScan50MB reads 10,000 lines of 5 KB and checks each.
func BenchmarkScan50MB(b *testing.B) {
	root, dir := tempRoot(b)
	line := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	data := bytes.Repeat(sealed(line), 10_000)
	write(b, dir, "a", data)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		rec, err := Scan(root, "a", func(int64, []byte) error { return nil })
		if err != nil || rec.Records != 10_000 {
			b.Fatal(rec, err)
		}
	}
}
