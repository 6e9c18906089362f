package session

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"golang.org/x/sys/unix"
)

// bigSession makes a session of 10,000 messages in one epoch, about 50 MB.
func bigSession(b *testing.B, dir string) int64 {
	b.Helper()
	s, shut := openStore(b, dir)
	defer shut()
	c, _ := open(b, s, "chat-1")
	defer c.Close()
	startEpoch(b, c, baseline("be brief"))
	text := strings.Repeat("A line of text that a tool wrote, with \"quotes\" and ümlauts in it.\n", 68)
	for i := 0; i < 10_000; i += 100 {
		var recs []proto.Record
		for j := range 25 {
			n := fmt.Sprint(i, "-", j)
			recs = append(recs, user("o"+n, text),
				&proto.Assistant{Message: prompt.AssistantMessage("", text, []prompt.Call{{ID: n, Name: "clock", Arguments: "{}"}})},
				&proto.Tool{Call: "chat-1/1/1/0", Outcome: proto.CallOK, Class: proto.ClassPrivate, Message: prompt.ToolMessage(n, text)},
				assistant(text), ended("o"+n, 0))
		}
		appendTo(b, c, recs...)
	}
	return c.Bytes()
}

// BenchmarkOpen50MB opens a session and builds its prompt. Target: 0.5 s, and a
// peak of at most three times the file.
func BenchmarkOpen50MB(b *testing.B) {
	dir := b.TempDir()
	size := bigSession(b, dir)
	b.SetBytes(size)
	b.ReportAllocs()
	debug.FreeOSMemory()
	var peak uint64
	cpu := cpuTime(b)
	for b.Loop() {
		stop := watchHeap(&peak)
		s, shut := openStore(b, dir)
		var p *prompt.Prompt
		c, err := s.Open("chat-1", func(_ int, _ proto.Header, r proto.Record) error {
			if base, ok := r.(*proto.Baseline); ok {
				var err error
				if p, err = prompt.New(base); err != nil {
					return err
				}
				room, err := s.Size("chat-1")
				if err != nil {
					return err
				}
				p.Grow(int(room))
			}
			if m := proto.MessageOf(r); m != nil {
				return p.Append(m)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if p.Messages() != 10_001 {
			b.Fatalf("%d messages", p.Messages())
		}
		c.Close()
		shut()
		stop()
		p = nil
		runtime.GC()
	}
	b.ReportMetric(float64((cpuTime(b)-cpu).Milliseconds())/float64(b.N), "cpu-ms/op") // holds on a busy machine too
	b.Logf("file %.1f MB, peak heap %.1f MB = %.2f x file", float64(size)/1e6, float64(peak)/1e6, float64(peak)/float64(size))
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap notes the largest heap, garbage included, until it is stopped.
func watchHeap(peak *uint64) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.HeapAlloc)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// BenchmarkOlderEpoch opens a session whose 50 MB are in an epoch that is over.
func BenchmarkOlderEpoch(b *testing.B) {
	dir := b.TempDir()
	b.SetBytes(bigSession(b, dir))
	s, shut := openStore(b, dir)
	defer shut()
	c, _ := open(b, s, "chat-1")
	startEpoch(b, c, baseline("second"))
	c.Close()
	for b.Loop() {
		c, err := s.Open("chat-1", nil)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

func BenchmarkInfo(b *testing.B) {
	dir := b.TempDir()
	bigSession(b, dir)
	s, shut := openStore(b, dir)
	defer shut()
	for b.Loop() {
		if _, err := s.Info("chat-1"); err != nil {
			b.Fatal(err)
		}
	}
}
