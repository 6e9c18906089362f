package up

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/reach"

	"golang.org/x/sys/unix"
)

// A socket of root's opens for one uid, and stays closed to others.
func TestOpenSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give rights")
	}
	dir, err := os.MkdirTemp("", "acl-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "l.sock")
	if changed, err := openSocket(path, 62101); changed || err != nil {
		t.Errorf("not there yet: %v, %v", changed, err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openSocket(path, 62101); fault.Code(err) != fault.Failed || !strings.Contains(err.Error(), "its folder") {
		t.Errorf("in a closed folder: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if changed, err := openSocket(path, 62101); errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("no access lists here")
	} else if !changed || err != nil {
		t.Fatalf("%v, %v", changed, err)
	}
	if changed, err := openSocket(path, 62101); changed || err != nil {
		t.Errorf("a second time: %v, %v", changed, err)
	}
	if reach.MayUse(path, 62101, unix.W_OK) != nil || reach.MayUse(path, 62102, unix.W_OK) == nil {
		t.Error("the wrong one may use it")
	}
}
