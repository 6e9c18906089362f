package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A fake server for the benchmarks. A request is requestSize bytes of which
// the first says what to answer with: 'p' one small answer, 's' streamSize bytes.
const (
	requestSize = 6 << 10
	answerSize  = 300
	streamSize  = 256 << 20
)

func server(b *testing.B, network string) (network2, address string) {
	b.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(shortDir(b), "up.sock")
	}
	l, err := net.Listen(network, at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return network, l.Addr().String()
}

func answer(c net.Conn) {
	defer c.Close()
	request, block := make([]byte, requestSize), make([]byte, 64<<10)
	for {
		if _, err := io.ReadFull(c, request); err != nil {
			return
		}
		if request[0] == 'p' {
			c.Write(block[:answerSize])
			continue
		}
		for sent := 0; sent < streamSize; sent += len(block) {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
}

func dial(b *testing.B, network, address string) net.Conn {
	b.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func exchange(b *testing.B, c net.Conn, what byte, buf []byte, size int) time.Duration {
	request := bytes.Repeat([]byte{what}, requestSize)
	begin := time.Now()
	if _, err := c.Write(request); err != nil {
		b.Fatal(err)
	}
	for size > 0 {
		n, err := c.Read(buf)
		if err != nil {
			b.Fatal(err)
		}
		size -= n
	}
	return time.Since(begin)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkLatency compares requests over inferproxy with requests straight to
// the server, turn about on the same machine at the same time. Target: at most
// 0.2 ms more.
func BenchmarkLatency(b *testing.B) {
	bin := build(b)
	for _, network := range []string{"unix", "tcp"} {
		network, address := server(b, network)
		_, socket, _ := launch(b, bin, "-upstream", network+":"+address, "-rate", "1000000")
		for name, again := range map[string]bool{"kept": false, "fresh": true} { // one connection for all, or one each
			b.Run(fmt.Sprintf("%s-upstream/%s-connection", network, name), func(b *testing.B) {
				direct, proxied := dial(b, network, address), dial(b, "unix", socket)
				var straight, over []time.Duration
				buf := make([]byte, 64<<10)
				one := func(c net.Conn, network, address string) time.Duration {
					if !again {
						return exchange(b, c, 'p', buf, answerSize)
					}
					begin := time.Now()
					c, err := net.Dial(network, address)
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					exchange(b, c, 'p', buf, answerSize)
					return time.Since(begin)
				}
				for b.Loop() {
					straight = append(straight, one(direct, network, address))
					over = append(over, one(proxied, "unix", socket))
				}
				added := median(over) - median(straight)
				b.ReportMetric(float64(median(straight).Nanoseconds())/1e6, "direct-ms")
				b.ReportMetric(float64(added.Nanoseconds())/1e6, "added-ms")
				b.ReportMetric(0.2, "target-added-ms")
			})
		}
	}
}

// BenchmarkThroughput compares the rate of one long answer. Target: at least
// 0.8 of the direct connection's.
func BenchmarkThroughput(b *testing.B) {
	bin := build(b)
	for _, network := range []string{"unix", "tcp"} {
		network, address := server(b, network)
		_, socket, _ := launch(b, bin, "-upstream", network+":"+address)
		b.Run(network+"-upstream", func(b *testing.B) {
			direct, proxied := dial(b, network, address), dial(b, "unix", socket)
			buf := make([]byte, 64<<10)
			var straight, over []time.Duration
			for b.Loop() {
				straight = append(straight, exchange(b, direct, 's', buf, streamSize))
				over = append(over, exchange(b, proxied, 's', buf, streamSize))
			}
			mb := func(d time.Duration) float64 { return streamSize / 1e6 / d.Seconds() }
			b.ReportMetric(mb(median(straight)), "direct-MB/s")
			b.ReportMetric(mb(median(over)), "proxied-MB/s")
			b.ReportMetric(float64(median(straight))/float64(median(over)), "ratio")
			b.ReportMetric(0.8, "target-ratio")
		})
	}
}

// BenchmarkIdleMemory prints the proportional set size after a few requests.
// Target: at most 8 MB.
func BenchmarkIdleMemory(b *testing.B) {
	network, address := server(b, "tcp")
	cmd, socket, _ := launch(b, build(b), "-upstream", network+":"+address)
	buf := make([]byte, 64<<10)
	for range 20 {
		exchange(b, dial(b, "unix", socket), 'p', buf, answerSize)
	}
	var kb int
	for b.Loop() {
		if _, err := fmt.Sscanf(memory(b, cmd.Process.Pid), "%d kB", &kb); err != nil {
			b.Skip(memory(b, cmd.Process.Pid))
		}
	}
	b.ReportMetric(float64(kb)/1000, "PSS-MB")
	b.ReportMetric(8, "target-PSS-MB")
}
