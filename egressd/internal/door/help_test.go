package door

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/egressd/internal/address"
	"boxmaker/egressd/internal/resolve"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit/nameserver"
)

const call = "s/1/2/0"

// folder is short, since socket paths are.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "door")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// request is an OpenDoor for an hour.
func request(allow ...string) *proto.OpenDoor {
	return &proto.OpenDoor{Call: call, Allow: allow, Until: proto.Time(time.Now().Add(time.Hour))}
}

// locals is a request for hosts that are all local.
func locals(hosts ...string) *proto.OpenDoor {
	m := request(hosts...)
	m.Local = hosts
	return m
}

// open opens a door; ns may be nil if no name is looked up.
func open(t testing.TB, ns *nameserver.Server, m *proto.OpenDoor, change func(*Config)) *Door {
	t.Helper()
	cfg := Config{
		Dir: folder(t), Connections: 32, Attempts: 1000, Bytes: 1 << 30, Idle: time.Minute, Head: time.Minute, Dial: 5 * time.Second,
		Log: slog.New(slog.DiscardHandler), Here: address.Here,
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, fmt.Errorf("no names here") },
	}
	if ns != nil {
		cfg.Lookup = resolve.New(ns.Addr).Lookup
	}
	if change != nil {
		change(&cfg)
	}
	spec, err := Parse(m)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(context.Background(), cfg, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func dialDoor(t testing.TB, d *Door) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.Path(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// ask sends bytes and reads everything that comes back.
func ask(t testing.TB, d *Door, raw string) string {
	t.Helper()
	c := dialDoor(t, d)
	io.WriteString(c, raw)
	b, _ := io.ReadAll(c)
	return string(b)
}

// connect asks for a tunnel and reads the answer's head.
func connect(t testing.TB, d *Door, target string) *net.UnixConn {
	t.Helper()
	c := dialDoor(t, d)
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
	got := make([]byte, len(established))
	if n, err := io.ReadFull(c, got); string(got) != established {
		t.Fatalf("%q %v", got[:n], err)
	}
	return c
}

// only gives the one row of a door's report.
func only(t testing.TB, d *Door) proto.EgressConn {
	t.Helper()
	r := d.Close()
	if len(r.Connections) != 1 || r.More != 0 {
		t.Fatalf("report %+v", r)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	return r.Connections[0]
}

// A target is a TCP server on loopback; serve gets each connection.
type target struct {
	addr string
	l    net.Listener
}

func serveTCP(t testing.TB, serve func(c *net.TCPConn)) *target {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &target{addr: l.Addr().String(), l: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return s
}

// head reads up to the empty line.
func head(c io.Reader) string {
	var b strings.Builder
	one := make([]byte, 1)
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		if _, err := io.ReadFull(c, one); err != nil {
			break
		}
		b.Write(one)
	}
	return b.String()
}

// web answers each request with its own head, after a body of the length that
// the head names.
func web(t testing.TB) *target {
	return serveTCP(t, func(c *net.TCPConn) {
		h := head(c)
		if i := strings.Index(h, "Content-Length: "); i >= 0 {
			var n int64
			fmt.Sscanf(h[i:], "Content-Length: %d", &n)
			body := make([]byte, n)
			io.ReadFull(c, body)
			h += string(body)
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(h), h)
	})
}
