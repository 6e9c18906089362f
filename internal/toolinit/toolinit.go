// Package toolinit makes the first process of a container fit to be that: nobody
// inside can read or trace it, no descriptor of it reaches a child, and what
// was mounted is what was granted.
package toolinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"boxmaker/internal/tool"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// Harden shuts this process against those that it will start. They have the
// same uid, and without this could read its memory, or open its standard output
// through /proc and write a result of their own.
//
// As process 1 of a container it also dies with its parent, the runtime: a
// runtime that is killed must not leave the container behind.
func Harden() error {
	if os.Getpid() == 1 {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("toolinit: end with the parent: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("toolinit: not dumpable: %w", err)
	}
	if err := unix.CloseRange(3, ^uint(0)>>1&0x7fffffff, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("toolinit: close on exec: %w", err)
	}
	if os.Getpid() == 1 {
		// The runtime's process outside is the parent: when it is killed, so is all
		// of the container. No child of ours can take this back.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("toolinit: death signal: %w", err)
		}
	}
	unix.Umask(0o022)
	return nil
}

// ProbeEntry is the entry that needs no input: it says in one line how the
// container holds this process.
const ProbeEntry = "probe"

// secretsFD is the descriptor on which secrets come, as a pipe.
const secretsFD = 3

// maxSecrets bounds them, in bytes.
const maxSecrets = 1 << 20

// Secrets reads the secrets of the call, a JSON object of name and value, and
// closes their descriptor. Without a pipe there are none. It must be called
// before anything else opens a file.
func Secrets() (map[string]string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(secretsFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, nil
	}
	f := os.NewFile(secretsFD, "secrets")
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecrets+1))
	if err != nil || len(b) > maxSecrets {
		return nil, errors.New("toolinit: the secrets cannot be read")
	}
	if len(b) == 0 {
		return nil, nil
	}
	var secrets map[string]string
	if err := json.Unmarshal(b, &secrets); err != nil {
		return nil, errors.New("toolinit: the secrets are no JSON object of strings") // never what was read
	}
	return secrets, nil
}

// A Check is a mounted path and the file or folder that must stand there.
type Check struct {
	Path     string
	Dev, Ino uint64
}

// ParseCheck reads PATH=DEV:INO, both in decimal.
func ParseCheck(s string) (Check, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 || !strings.HasPrefix(s, "/") {
		return Check{}, fmt.Errorf("mount: %q is not PATH=DEV:INO", s)
	}
	dev, ino, _ := strings.Cut(s[i+1:], ":")
	d, err := strconv.ParseUint(dev, 10, 64)
	n, err2 := strconv.ParseUint(ino, 10, 64)
	if err != nil || err2 != nil {
		return Check{}, fmt.Errorf("mount: %q is not PATH=DEV:INO", s)
	}
	return Check{Path: s[:i], Dev: d, Ino: n}, nil
}

// Verify reports a path at which something else was mounted: somebody changed
// the path between the check of the grant and the mount.
func (c Check) Verify() error {
	var st unix.Stat_t
	if err := unix.Lstat(c.Path, &st); err != nil {
		return fmt.Errorf("mount: %s: %w", c.Path, err)
	}
	if st.Dev != c.Dev || st.Ino != c.Ino {
		return fmt.Errorf("mount: %s is %d:%d, and %d:%d was granted", c.Path, st.Dev, st.Ino, c.Dev, c.Ino)
	}
	return nil
}

// maxInput is more than any input that brokerd makes: arguments as JSON in JSON.
const maxInput = 4 << 20

// Input reads what to do and checks the arguments once more.
func Input(entry string, r io.Reader) (tool.Input, *tool.Call, error) {
	t := tool.Find(entry)
	if t == nil {
		return tool.Input{}, nil, fmt.Errorf("toolinit: there is no tool %q", entry)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil || len(b) > maxInput {
		return tool.Input{}, nil, fmt.Errorf("toolinit: input of %d bytes: %w", len(b), err)
	}
	in, err := tool.DecodeInput(b)
	if err != nil {
		return in, nil, fmt.Errorf("toolinit: input: %w", err)
	}
	call, err := t.Decode(in.Args)
	if err != nil {
		return in, nil, fmt.Errorf("toolinit: arguments: %w", err)
	}
	if call.Canonical != in.Args {
		return in, nil, errors.New("toolinit: the arguments are not in canonical form")
	}
	if in.Output == 0 {
		in.Output = tool.DefaultOutput
	}
	return in, call, nil
}
