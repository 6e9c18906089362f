package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A start after a change: what holds, and what is kept for the next.
func TestCurrent(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	path := filepath.Join(t.TempDir(), "gatewayd.toml")
	at := time.Unix(1_000_000_000, 0)
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		for _, err := range []error{os.WriteFile(path+".new", []byte(text), 0o600), os.Chtimes(path+".new", at, at), os.Rename(path+".new", path)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	text := func(owners string) string {
		return "url = \"https://chat.example.com\"\nowners = [\"" + owners + "\"]\n"
	}
	other := strings.Repeat("x", 26)

	write("owners = [")
	if _, err := Read(path, root); err == nil {
		t.Fatal("a broken file is taken, and nothing was kept")
	}
	write(text(owner))
	c, err := Read(path, root)
	if err != nil || c.Changed() || c.Trouble != nil || c.Owners[0] != owner {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := c.Keep(root); err != nil {
		t.Fatal(err)
	}
	write("owners = [")
	if !c.Changed() {
		t.Error("a change is not seen")
	}
	for range 2 { // a start, and one after that
		if c, err = Read(path, root); err != nil || c.Trouble == nil || c.Owners[0] != owner || c.Changed() {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if err := c.Keep(root); err != nil { // of what holds, not of what the file says
		t.Fatal(err)
	}
	write(text(other))
	if c, err = Read(path, root); err != nil || c.Trouble != nil || c.Owners[0] != other {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !c.Changed() {
		t.Error("that the file is gone is not seen")
	}
	write("owners = [")
	if _, err := Read(path, root); err == nil {
		t.Error("what was kept for one start counts later")
	}
	write(text(owner))
	if c, err = Read(path, root); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text(other)+"\n"), 0o600); err != nil { // in its place
		t.Fatal(err)
	}
	if !c.Changed() {
		t.Error("a change in its place is not seen")
	}
	if err := c.Keep(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c, err = Read(path, root); err != nil || c.Trouble == nil || c.Changed() {
		t.Fatalf("%+v, %v", c, err)
	}
	write(text(owner))
	if !c.Changed() {
		t.Error("a file in the place of none is not seen")
	}
}

func TestStateThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "gatewayd.toml")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, keptName), nil, 0o600), os.Chmod(dir, 0o500),
		os.WriteFile(path, []byte("url = \"https://chat.example.com\"\nowners = [\""+owner+"\"]\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // or it could not be removed
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Read(path, root); err == nil || !strings.Contains(err.Error(), "gatewayd-state") {
		t.Error(err)
	}
}
