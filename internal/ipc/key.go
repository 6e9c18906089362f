package ipc

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"boxmaker/internal/frame"

	"golang.org/x/sys/unix"
)

// Where all roles have one user, the kernel's word on who the peer is tells
// nothing, and before ABI 9 Landlock does not limit whom a process may dial.
// What it limits from its first version on is what files a process may read. So
// beside such a socket lies a key: a client proves that it may enter the folder
// by sending the key in front of its request. A role with a user of its own
// needs none.

const keyBytes = 32

// KeyOf is where the key of a socket lies: 32 random bytes, for its user only.
func KeyOf(path string) string { return path + ".key" }

// Keyed makes the socket at path ask its clients for the key beside it, which
// it makes if there is none yet. ln listens there; it may have been handed over.
func Keyed(ln net.Listener, path string) (net.Listener, error) {
	key, err := ensureKey(path)
	if err != nil {
		return nil, err
	}
	return &keyed{ln, key}, nil
}

// EnsureKey makes the key of the socket at path if there is none. Who listens
// for a program that is started later makes it first, or a client that is early
// finds none.
func EnsureKey(path string) error {
	_, err := ensureKey(path)
	return err
}

func ensureKey(path string) ([]byte, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the socket %s: %w; remove %s and start again (see runbook: socket-key)", path, err, KeyOf(path))
	}
	return key, nil
}

type keyed struct {
	net.Listener
	key []byte
}

// readKey reads a whole key of this user that nobody else can read.
func readKey(path string) ([]byte, error) {
	f, err := os.OpenFile(KeyOf(path), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != keyBytes {
		return nil, errors.New("it is no key")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, errors.New("other users can read it")
	}
	key := make([]byte, keyBytes)
	_, err = f.ReadAt(key, 0)
	return key, err
}

// makeKey puts a new key in its place, whole or not at all. It does not outlive
// a crash of the machine for certain; nor need it.
func makeKey(path string) ([]byte, error) {
	key := make([]byte, keyBytes)
	rand.Read(key)
	tmp := fmt.Sprintf("%s.%d", KeyOf(path), os.Getpid())
	if err := os.WriteFile(tmp, key, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, KeyOf(path)); err != nil {
		return nil, errors.Join(err, os.Remove(tmp))
	}
	return key, nil
}

// preface is what a client sends in front of its request: the key as a frame,
// or nothing if the socket has none.
func preface(path string) ([]byte, error) {
	key, err := readKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the key of the socket %s: %w (see runbook: socket-key)", path, err)
	}
	return frame.Append(nil, key)
}

// checkKey reads the preface of a connection.
func (s *Server) checkKey(conn net.Conn) error {
	k, ok := s.Listener.(*keyed)
	if !ok {
		return nil
	}
	got, err := frame.Read(conn)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(got, k.key) != 1 {
		return errors.New("the key of this socket did not come first")
	}
	return nil
}
