package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
)

// P58: keys and secrets that everybody can read. Doctor names each and fails,
// and what is open is refused and not used. That no role listens on a network
// is P57; that doctor finds a listener is TestRealListener of its package.
func TestCase_P58_DoctorFindsOpenSecrets(t *testing.T) {
	s := stack.New(t)
	s.Must("", "init")
	s.Must("a-value-of-the-test\n", "secret", "set", "token")
	for name, file := range map[string]string{"the store": filepath.Join(s.Layout.Secrets, "brokerd.age"), "the key": filepath.Join(s.Layout.Keys, "brokerd.key")} {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := s.Bxctl("", "doctor"); r.Code != 6 || !strings.Contains(r.Stdout, file) || !strings.Contains(r.Stdout, "chmod") {
			t.Errorf("%s: doctor ended with %d and says\n%s", name, r.Code, r.Stdout)
		}
		if r := s.Bxctl("", "secret", "list"); name == "the key" && r.Code == 0 {
			t.Errorf("the open key was used: %s", r.Stdout)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.Bxctl("", "doctor"); r.Code == 6 {
		t.Errorf("mended, and doctor still says\n%s", r.Stdout)
	}
}
