package realllama

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// The owner's way: a model file, three commands. Every role is a process of its
// own here, under a uid of its own if the test runs as root, llama-server too.
func TestUpWithAModelFile(t *testing.T) {
	m := firstTiny(t)
	dir := openDir(t)
	server := shared.server
	if os.Geteuid() == 0 && !reachable(server) {
		// the cache of root is closed to the uid that the server gets
		if _, err := os.Stat(filepath.Join(filepath.Dir(server), "root")); err != nil {
			t.Skip("other users cannot reach LLAMA_SERVER, and as root Boxmaker runs it as another user")
		}
		if _, err := command("cp", "-r", filepath.Dir(server), filepath.Join(dir, "server")); err != nil {
			t.Fatal(err)
		}
		server = filepath.Join(dir, "server", filepath.Base(server))
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(server, filepath.Join(bin, "llama-server")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tiny.gguf")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	s := stack.New(t)
	s.Must("", "init", "--model", file)
	s.Must("", "up", "--detach")
	for _, text := range []string{"What can you do?", "What time is it?"} {
		r := s.Bxctl("", "ask", "--session", "chat-file", text)
		// a tiny model may ask for the time until the turn is ended
		if r.Code == 0 && strings.TrimSpace(r.Stdout) == "" || r.Code != 0 && !strings.Contains(r.Stderr, "runaway-stopped") {
			t.Errorf("ask: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	}
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("server %+v", st.Server)
	for _, c := range st.Checks {
		if c.State == "failed" {
			t.Errorf("check %s: %s", c.Name, c.Detail)
		}
	}
	s.Must("", "down")
}

// openDir is a temporary folder that every user can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reachable tells whether every user can enter the folders above a file.
func reachable(file string) bool {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
