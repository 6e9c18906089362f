package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// The environment of a process that is a clerk: the folder that it works in.
const clerkIn = "BOXMAKER_BENCH_CLERK"

// clerk appends and syncs a line for each request, and decides nothing: what a
// record costs any process that is asked for it over a socket.
func clerk(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "clerk.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	ln, err := ipc.Listen(filepath.Join(dir, "clerk.sock"))
	if err != nil {
		return err
	}
	srv := ipc.Server{Listener: ln, Requests: proto.BrokerRequests, Peers: []uint32{uint32(os.Getuid())}, MaxConns: 4, Handle: func(_ context.Context, req proto.Message, out *ipc.Stream) {
		if appendLine(f) == nil {
			_ = out.Send(&proto.Unknown{ID: req.(*proto.Fate).ID})
		}
	}}
	return srv.Serve(context.Background())
}

// appendLine writes a line that is as long as the record of the denial, and syncs it.
func appendLine(f *os.File) error {
	if _, err := f.WriteString(strings.Repeat("x", 400) + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

// startClerk gives the socket of a clerk in a process of its own.
func startClerk(t *testing.T, dir string) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clerkIn+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	sock := filepath.Join(dir, "clerk.sock")
	for range 500 {
		if conn, err := net.Dial("unix", sock); err == nil {
			_ = conn.Close()
			return sock
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the clerk does not listen")
	return ""
}

// denial compares a decision that lets nothing run with the append and the sync
// that its record needs at least: made by a process that does only that, for the
// same client over the same kind of socket. Beside it stand the parts: the append
// in the client itself, and the way over the socket, found by a question that
// needs no record.
func denial(t *testing.T, d *desk) []row {
	f := must[*os.File](t)(os.OpenFile(filepath.Join(d.Home, "bare.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))
	defer f.Close()
	sock := startClerk(t, d.Home)
	ask := func(conn net.Conn) time.Duration {
		return took(func() {
			must[proto.Message](t)(stack.Exchange(t.Context(), conn, &proto.Fate{ID: "chat-bench-never/1/1/0"}, nil))
		})
	}
	var ours, theirs, bare, way []time.Duration
	for range pick(500, 2) {
		bare = append(bare, took(func() {
			if err := appendLine(f); err != nil {
				t.Fatal(err)
			}
		}))
		ours = append(ours, d.read("/etc/hostname", proto.CallDenied))
		theirs = append(theirs, ask(must[net.Conn](t)(net.Dial("unix", sock))))
		way = append(way, ask(must[net.Conn](t)(d.DialBroker())))
	}
	a, b, c, w := median(ours), median(theirs), median(bare), median(way)
	ratio := float64(a) / float64(b)
	return []row{denialInside(t), {
		"  seen by loopd, against a process that only appends and syncs", fmt.Sprintf("%.2f", ratio), "<= 1.3", ratio <= 1.3,
		fmt.Sprintf("%s against %s; less its way of %s, against an append in the client of %s: %.2f", us(a), us(b), us(w), us(c), float64(a-w)/float64(c)),
	}}
}

// denialInside has brokerd's own benchmark compare a denial, from the call to its
// result, with an append and a sync of as many bytes, in turns: the same in one
// program, without the way to it.
func denialInside(t *testing.T) row {
	cmd := exec.CommandContext(t.Context(), "go", "test", "../brokerd/internal/driver", "-run", "^$", "-bench", "^BenchmarkDeny$", "-benchtime", fmt.Sprintf("%dx", pick(2000, 2)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	figure := func(unit string) float64 { // the field before its unit, see go doc testing.B.ReportMetric
		f := strings.Fields(string(out))
		i := slices.Index(f, unit)
		if i < 1 {
			t.Fatalf("no %s in: %s", unit, out)
		}
		return must[float64](t)(strconv.ParseFloat(f[i-1], 64))
	}
	ratio := figure("ratio")
	note := us(time.Duration(figure("ns/deny"))) + " against " + us(time.Duration(figure("ns/bare")))
	return row{"a denied call, from the call to its result, against a bare append + fsync", fmt.Sprintf("%.2f", ratio), "<= 1.3", ratio <= 1.3, note}
}
