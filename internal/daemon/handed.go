package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	firstFD   = 3 // SD_LISTEN_FDS_START of sd_listen_fds(3)
	maxHanded = 64
)

// A handedFD is a descriptor that the parent left open for us.
type handedFD struct {
	fd   int
	name string // empty if the parent gave no names
}

// handedFDs reads LISTEN_FDS and LISTEN_FDNAMES. LISTEN_PID counts if it is
// set: a supervisor that cannot know our pid leaves it out.
func handedFDs(getenv func(string) string, pid int) ([]handedFD, error) {
	count := getenv("LISTEN_FDS")
	if p := getenv("LISTEN_PID"); count == "" || p != "" && p != strconv.Itoa(pid) {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxHanded {
		return nil, fmt.Errorf("LISTEN_FDS is %q, want a number up to %d", count, maxHanded)
	}
	var names []string
	if s := getenv("LISTEN_FDNAMES"); s != "" {
		if names = strings.Split(s, ":"); len(names) != n {
			return nil, fmt.Errorf("LISTEN_FDNAMES has %d names for %d sockets", len(names), n)
		}
	}
	var handed []handedFD
	for i := range n {
		h := handedFD{fd: firstFD + i}
		if names != nil {
			h.name = names[i]
		}
		unix.CloseOnExec(h.fd)
		handed = append(handed, h)
	}
	return handed, nil
}

// listener takes the descriptor over. It checks what it is first: the parent
// may have been wrong about the number.
func (h handedFD) listener() (net.Listener, error) {
	for _, want := range []struct {
		option, value int
		what          string
	}{
		{unix.SO_ACCEPTCONN, 1, "it is not a listening socket"},
		{unix.SO_DOMAIN, unix.AF_UNIX, "it is not a Unix socket"},
		{unix.SO_TYPE, unix.SOCK_STREAM, "it is not a stream socket"},
	} {
		if v, err := unix.GetsockoptInt(h.fd, unix.SOL_SOCKET, want.option); err != nil {
			return nil, fmt.Errorf("it is not a socket: %w", err)
		} else if v != want.value {
			return nil, errors.New(want.what)
		}
	}
	f := os.NewFile(uintptr(h.fd), h.name)
	defer f.Close() // FileListener makes a copy
	return net.FileListener(f)
}
