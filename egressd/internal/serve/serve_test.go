package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxmaker/egressd/internal/address"
	"boxmaker/egressd/internal/door"
	"boxmaker/egressd/internal/resolve"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// start serves on a socket of its own; end stops it.
func start(t *testing.T, doors int) (socket, dir string, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "e.sock")
	l, err := ipc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "doors")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	go func() {
		done <- Serve(ctx, l, Config{
			Door:  door.Config{Dir: dir, Lookup: resolve.New("").Lookup, Here: address.Here, Connections: 4, Attempts: 9, Bytes: 1 << 20, Idle: time.Minute, Head: time.Minute, Dial: time.Second, Log: log},
			Doors: doors, Log: log, Status: func() *proto.EgressStatus { return &proto.EgressStatus{Version: "v", Confinement: []proto.Check{}} },
		})
	}()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return socket, dir, end
}

// hold opens a door and keeps the connection.
func hold(t *testing.T, socket, call string) (*ipc.Conn, string) {
	t.Helper()
	c, err := ipc.Dial(t.Context(), socket, proto.EgressEvents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Send(request(call)); err != nil {
		t.Fatal(err)
	}
	m, err := c.Recv()
	d, ok := m.(*proto.Door)
	if err != nil || !ok {
		t.Fatalf("%+v %v", m, err)
	}
	return c, d.Path
}

func request(call string) *proto.OpenDoor {
	return &proto.OpenDoor{Call: call, Allow: []string{"a.example:443"}, Local: []string{}, Until: proto.Time(time.Now().Add(time.Hour))}
}

func refused(t *testing.T, err error, code proto.ErrCode) {
	t.Helper()
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v", err)
	}
}

func sockets(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestOpenAndClose(t *testing.T) {
	socket, dir, _ := start(t, 4)
	_, path := hold(t, socket, "s/1/2/0")
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("CONNECT evil.example:443 HTTP/1.1\r\n\r\n"))
	c.Read(make([]byte, 1))
	c.Close()
	if m, err := ipc.Ask(t.Context(), socket, proto.EgressEvents, &proto.GetEgress{}); err != nil || m.(*proto.EgressStatus).Doors != 1 {
		t.Errorf("%+v %v", m, err)
	}
	m, err := ipc.Ask(t.Context(), socket, proto.EgressEvents, &proto.CloseDoor{Call: "s/1/2/0"})
	if err != nil {
		t.Fatal(err)
	}
	r := m.(*proto.EgressReport)
	if len(r.Connections) != 1 || r.Connections[0].Host != "evil.example:443" || r.Connections[0].Verdict != proto.EgressNotAllowed {
		t.Errorf("%+v", r)
	}
	if n := sockets(t, dir); n != 0 {
		t.Errorf("%d sockets left", n)
	}
	_, err = ipc.Ask(t.Context(), socket, proto.EgressEvents, &proto.CloseDoor{Call: "s/1/2/0"})
	refused(t, err, proto.ErrBadRequest)
}

// When brokerd goes away its doors close, without a word from it.
func TestDoorsGoWithTheClient(t *testing.T) {
	socket, _, end := start(t, 4)
	c, path := hold(t, socket, "s/1/2/0")
	inside, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	c.Close()
	inside.Read(make([]byte, 1)) // ends with the door
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the door is still there")
	}
	end()
}

func TestDoorsGoWithTheProgram(t *testing.T) {
	socket, dir, end := start(t, 4)
	hold(t, socket, "s/1/2/0")
	hold(t, socket, "s/1/2/1")
	end()
	if n := sockets(t, dir); n != 0 {
		t.Errorf("%d sockets left", n)
	}
}

func TestRefused(t *testing.T) {
	socket, dir, _ := start(t, 2)
	hold(t, socket, "s/1/2/0")
	ask := func(m proto.Message) error {
		_, err := ipc.Ask(t.Context(), socket, proto.EgressEvents, m)
		return err
	}
	refused(t, ask(request("s/1/2/0")), proto.ErrNotReady) // a second door of one call
	bad := request("s/1/2/1")
	bad.Allow = []string{"*:443"}
	refused(t, ask(bad), proto.ErrBadRequest)
	hold(t, socket, "s/1/2/2")
	refused(t, ask(request("s/1/2/3")), proto.ErrNotReady) // one too many
	if n := sockets(t, dir); n != 2 {
		t.Errorf("%d sockets", n)
	}
}
