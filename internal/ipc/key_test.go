package ipc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
)

// serveKeyed answers every status request on a socket that has a key.
func serveKeyed(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Keyed(ln, path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	srv := Server{Listener: k, Requests: proto.LoopRequests, Handle: func(_ context.Context, _ proto.Message, s *Stream) {
		_ = s.Send(&proto.Stopped{})
	}}
	go func() { ended <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return path
}

func TestKeyIsAskedFor(t *testing.T) {
	path := serveKeyed(t)
	if info, err := os.Stat(KeyOf(path)); err != nil || info.Mode().Perm() != 0o600 || info.Size() != keyBytes {
		t.Fatalf("the key: %v, %v", info, err)
	}
	if m, err := Ask(t.Context(), path, proto.LoopEvents, &proto.GetStatus{}); err != nil {
		t.Fatalf("a client that can read the key: %+v, %v", m, err)
	}
	request, err := proto.Encode(&proto.GetStatus{})
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string][]byte{
		"no key": nil, "another key": []byte(strings.Repeat("k", keyBytes)), "a shorter one": []byte("k"), "a part of it": key(t, path)[:keyBytes-1],
		"more than it": append(key(t, path), 0), "the request twice": request,
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, f := range [][]byte{first, request} {
				if f != nil {
					if err := frame.Write(conn, f); err != nil {
						return // closed already: refused
					}
				}
			}
			b, err := frame.Read(conn)
			if err != nil {
				return // closed without a word
			}
			m, err := proto.LoopEvents.Decode(b)
			if no, ok := m.(*proto.Error); err != nil || !ok || no.Code != proto.ErrBadRequest {
				t.Errorf("the answer is %+v, %v", m, err)
			}
		})
	}
}

func key(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(KeyOf(path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKeyStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	a, err := Keyed(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Keyed(nil, path)
	if err != nil || string(a.(*keyed).key) != string(b.(*keyed).key) {
		t.Errorf("a new start gave another key: %v", err)
	}
}

func TestBadKeys(t *testing.T) {
	for name, spoil := range map[string]func(at string) error{
		"empty": func(at string) error { return os.WriteFile(at, nil, 0o600) },
		"short": func(at string) error { return os.WriteFile(at, []byte("k"), 0o600) },
		"read by all": func(at string) error {
			return errors.Join(os.WriteFile(at, make([]byte, keyBytes), 0o600), os.Chmod(at, 0o644))
		},
		"a link":   func(at string) error { return os.Symlink("/dev/zero", at) },
		"a folder": func(at string) error { return os.Mkdir(at, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.sock")
			if err := spoil(KeyOf(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := Keyed(nil, path); err == nil || !strings.Contains(err.Error(), "see runbook: socket-key") {
				t.Errorf("the server: %v", err)
			}
			if _, err := preface(path); err == nil {
				t.Error("the client took it")
			}
		})
	}
}
