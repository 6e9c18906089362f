package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunroot(t *testing.T) {
	place, err := os.MkdirTemp("/tmp", "rr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(place) })
	long := "/home/somebody/.local/share/boxmaker/run/runnerd/bundles/podman/run"
	if got, err := runroot("/run/x", place); got != "/run/x" || err != nil {
		t.Errorf("a short one: %s, %v", got, err)
	}
	got, err := runroot(long, filepath.Join(place, "none"), place)
	if err != nil || filepath.Dir(got) != place || len(got) > maxRunroot {
		t.Fatalf("%s, %v", got, err)
	}
	if st, err := os.Stat(got); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	if again, err := runroot(long, place); again != got || err != nil {
		t.Errorf("a second time: %s, %v", again, err)
	}
	if other, err := runroot(long+"2", place); other == got || err != nil {
		t.Errorf("another home: %s, %v", other, err)
	}
	for name, plant := range map[string]func() error{
		"open to others": func() error { return os.Chmod(got, 0o711) },
		"a link":         func() error { return os.Symlink(place, got) },
		"a file":         func() error { return os.WriteFile(got, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "open to others" {
				if err := os.RemoveAll(got); err != nil {
					t.Fatal(err)
				}
			}
			if err := plant(); err != nil {
				t.Fatal(err)
			}
			if at, err := runroot(long, place); err == nil || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("taken: %s, %v", at, err)
			}
		})
	}
	if at, err := runroot(long); err == nil {
		t.Errorf("nowhere: %s", at)
	}
}
