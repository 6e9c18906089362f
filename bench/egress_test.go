package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"boxmaker/internal/testkit/realegress"
)

// egress measures what a door of egressd costs: against direct connections to
// the same server on this machine, taking turns. A name is looked up each time
// on both ways, so that what is left is egressd.
func egress(t *testing.T) []row {
	bulk := int64(pick(200<<20, 1<<20)) // a door lets 256 MiB through
	ln := must[net.Listener](t)(net.Listen("tcp4", "127.0.0.1:0"))
	defer ln.Close()
	go serveBulk(ln, bulk)
	e := realegress.Start(t, nil)
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	target := "bulk.example:" + port
	names := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, e.Names.Addr)
	}}

	direct := func() net.Conn {
		all := must[[]netip.Addr](t)(names.LookupNetIP(t.Context(), "ip", "bulk.example."))
		return must[net.Conn](t)(net.Dial("tcp", net.JoinHostPort(all[0].Unmap().String(), port)))
	}
	calls := 50 // connections of one door, which has a limit
	var door string
	closeDoor := func() {}
	used := 0
	via := func() net.Conn {
		if used%calls == 0 {
			closeDoor()
			path, closed := e.Door(t, fmt.Sprintf("bench/1/%d/0", used), target)
			door, closeDoor = path, func() { closed() }
		}
		used++
		c := must[net.Conn](t)(net.Dial("unix", door))
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n", target)
		answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		return c
	}
	exchange := func(dial func() net.Conn, what byte, n int64) time.Duration {
		return took(func() {
			c := dial()
			defer c.Close()
			c.Write([]byte{what})
			if got, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, make([]byte, 256<<10)); got != n {
				t.Fatalf("%d bytes, %v", got, err)
			}
		})
	}
	var d, v []time.Duration
	for range pick(500, 3) {
		d, v = append(d, exchange(direct, 's', 1)), append(v, exchange(via, 's', 1))
	}
	added := median(v) - median(d)
	d, v = nil, nil
	calls = 1
	for range pick(15, 1) {
		d, v = append(d, exchange(direct, 'b', bulk)), append(v, exchange(via, 'b', bulk))
	}
	ratio := float64(median(d)) / float64(median(v))
	closeDoor()
	mb, note := pss(t, e.Pid)
	return []row{
		{"egressd, throughput against a direct connection", fmt.Sprintf("%.2f", ratio), ">= 0.7", ratio >= 0.7, fmt.Sprintf("%.0f MiB/s", float64(bulk)/(1<<20)/median(v).Seconds())},
		{"egressd, added to a new connection and one byte", us(added), "<= 1000 us", added <= time.Millisecond, "name looked up on both ways"},
		{"egressd, PSS after that", fmt.Sprintf("%.1f MB", mb), "<= 12 MB", mb <= 12, note},
	}
}

// serveBulk answers "s" with one byte and "b" with many.
func serveBulk(ln net.Listener, bulk int64) {
	block := make([]byte, 256<<10)
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			what := make([]byte, 1)
			if _, err := io.ReadFull(c, what); err != nil {
				return
			}
			left := int64(1)
			if what[0] == 'b' {
				left = bulk
			}
			for left > 0 {
				n, err := c.Write(block[:min(left, int64(len(block)))])
				if err != nil {
					return
				}
				left -= int64(n)
			}
		}()
	}
}
