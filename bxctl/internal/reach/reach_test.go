package reach

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/bxctl/internal/fault"

	"golang.org/x/sys/unix"
)

const another = 62199

// folder makes one that everybody can pass through to.
func folder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT ROOT: another user's rights can't be asked for")
	}
	dir, err := os.MkdirTemp("", "reach-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMayUse(t *testing.T) {
	dir := folder(t)
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, another, -1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		uid, mode  uint32
		may        bool
	}{
		{"owner reads", file, another, unix.R_OK, true},
		{"owner does not run", file, another, unix.X_OK, false},
		{"other reads not", file, another + 1, unix.R_OK, false},
		{"pass", dir, another, unix.X_OK, true},
		{"list not", dir, another, unix.R_OK, false},
		{"not there", file + "x", another, unix.R_OK, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := MayUse(c.path, c.uid, c.mode); (err == nil) != c.may {
				t.Error(err)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "own"), nil, 0o600); err != nil {
		t.Errorf("this program lost its own rights: %v", err)
	}
}

// TestHome: no folder above a home may be closed, however far up, and the home
// need not be there yet.
func TestHome(t *testing.T) {
	dir := folder(t)
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "open"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for home, ok := range map[string]bool{
		filepath.Join(dir, "home"): true, closed: true,
		filepath.Join(dir, "not", "there", "yet"): true,
		filepath.Join(closed, "home"):             false,
		filepath.Join(closed, "open", "home"):     false,
		filepath.Join(closed, "not", "there"):     false,
	} {
		err := Home(home, another)
		if (err == nil) != ok {
			t.Errorf("%s: %v", home, err)
		}
		if err != nil && !strings.Contains(fault.Text(err), "chmod o+x "+closed+",") {
			t.Errorf("%s: the mend is %s", home, fault.Text(err))
		}
	}
}
