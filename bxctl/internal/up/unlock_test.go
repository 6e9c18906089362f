package up

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/secret"
)

// lockKey encrypts the key of the box with a passphrase.
func (b *box) lockKey(pass string) {
	b.t.Helper()
	c := secret.Config{Dir: b.layout.Secrets, Key: secret.Key{File: setup.KeyFile(b.layout)}}
	if os.Geteuid() == 0 {
		s, _, err := setup.Load(b.layout)
		if err != nil {
			b.t.Fatal(err)
		}
		c.Owner = int(s.UID(roleBroker))
	}
	s, err := secret.Open(c)
	if err == nil {
		err = s.SetPassphrase(secret.NewText(pass))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestPassphraseIsAskedOnce: up asks before it starts anything, and a brokerd
// that is started again gets the key as the first one did.
func TestPassphraseIsAskedOnce(t *testing.T) {
	b := newBox(t)
	b.lockKey("correct horse")
	b.mark("crash-broker")
	asked := 0
	b.o.Retry = true
	b.o.Passphrase = func() (string, error) {
		if asked++; asked == 1 {
			return "wrong horse", nil
		}
		return "correct horse", nil
	}
	if err := Detach(t.Context(), b.o, time.Minute); err != nil {
		t.Fatal(fault.Text(err))
	}
	if r := b.role("brokerd"); asked != 2 || r.Restarts != 1 {
		t.Errorf("asked %d times, %+v", asked, r)
	}
	seen, err := os.ReadFile(filepath.Join(b.layout.Home, "keys-seen"))
	if err != nil || string(seen) != "true <nil>\ntrue <nil>\n" {
		t.Errorf("brokerd got %q, %v", seen, err)
	}
	if !strings.Contains(b.out.String(), "That is not the passphrase.") {
		t.Error(b.out.String())
	}
	if err := Detach(t.Context(), b.o, time.Minute); err != nil || asked != 2 {
		t.Errorf("with one that runs: asked %d times, %v", asked, err)
	}
}

// TestNoPassphraseStartsNothing, and what is there stays as it is.
func TestNoPassphraseStartsNothing(t *testing.T) {
	gone := &fault.Fault{Code: fault.Usage, What: "there is no terminal", Key: "secret-passphrase"}
	for _, tc := range []struct {
		name     string
		detached bool
		ask      func() (string, error)
		retry    bool
		want     string
	}{
		{"nobody to ask", false, nil, true, "there is nobody to ask for it"},
		{"nobody to ask in the background", true, nil, true, "there is nobody to ask for it"},
		{"no terminal", false, func() (string, error) { return "", gone }, true, "there is no terminal"},
		{"a wrong file", true, func() (string, error) { return "wrong horse", nil }, false, "a wrong passphrase"},
		{"three times wrong", false, func() (string, error) { return "wrong horse", nil }, true, "a wrong passphrase"},
		{"empty", false, func() (string, error) { return "", nil }, true, "the passphrase is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			b.lockKey("correct horse")
			before, err := os.ReadFile(setup.KeyFile(b.layout))
			if err != nil {
				t.Fatal(err)
			}
			b.o.Passphrase, b.o.Retry = tc.ask, tc.retry
			if tc.detached {
				err = Detach(t.Context(), b.o, time.Minute)
			} else {
				err = Run(t.Context(), b.o)
			}
			text := ""
			if err != nil {
				text = fault.Text(err)
			}
			if fault.Code(err) != fault.Usage || !strings.Contains(text, tc.want) || !strings.Contains(text, "(see runbook: secret-passphrase)") {
				t.Errorf("%s", text)
			}
			after, err := os.ReadFile(setup.KeyFile(b.layout))
			if err != nil || string(after) != string(before) {
				t.Errorf("the key was changed, %v", err)
			}
			if pid, _ := Holder(b.layout); pid != 0 {
				t.Errorf("something runs: %d", pid)
			}
		})
	}
}

// TestSealedKeyStays: nobody who gets the descriptor can change the key for the
// next one.
func TestSealedKeyStays(t *testing.T) {
	f, err := sealed(secret.NewText("AGE"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	if !errors.Is(err, os.ErrPermission) || f.Truncate(0) == nil {
		t.Errorf("%v", err)
	}
}
