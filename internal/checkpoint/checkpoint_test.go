package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"boxmaker/internal/proto"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"
)

var head = proto.AuditHead{N: 18, Hash: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}

func newSigner(t testing.TB) *Signer {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignAndOpen(t *testing.T) {
	s := newSigner(t)
	rapid.Check(t, func(rt *rapid.T) {
		h := proto.AuditHead{N: rapid.Int64Min(0).Draw(rt, "n"), Hash: rapid.StringMatching(`[0-9a-f]{64}`).Draw(rt, "hash")}
		checkpoint, signature, err := s.Sign(h)
		if err != nil || !strings.HasSuffix(checkpoint, "\n\n"+signature+"\n") || !strings.HasPrefix(signature, "— "+Origin+" ") {
			rt.Fatalf("%q, %q, %v", checkpoint, signature, err)
		}
		if back, err := Open(checkpoint, s.Verifier()+"\n"); err != nil || back != h {
			rt.Fatalf("%v, %v", back, err)
		}
	})
}

// TestForm holds the text to the page.
func TestForm(t *testing.T) {
	if got, want := text(head), "boxmaker/audit\n18\nn4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=\n"; got != want {
		t.Errorf("%q", got)
	}
}

func TestEveryByteOfACheckpointCounts(t *testing.T) {
	s := newSigner(t)
	checkpoint, _, err := s.Sign(head)
	if err != nil {
		t.Fatal(err)
	}
	for i := range checkpoint {
		for _, bit := range []byte{1, 2, 0x20} {
			b := []byte(checkpoint)
			b[i] ^= bit
			// The last character of the signature has two bits that mean nothing.
			if h, err := Open(string(b), s.Verifier()); err == nil && (i != len(checkpoint)-3 || h != head) {
				t.Errorf("byte %d: %v", i, h)
			}
		}
		if h, err := Open(checkpoint[:i], s.Verifier()); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("cut at %d: %v, %v", i, h, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	checkpoint, _, err := s.Sign(head)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := Open(checkpoint, other.Verifier()); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("by another key: %v, %v", h, err)
	}
	_, foreign, err := note.GenerateKey(rand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "x", foreign, "PRIVATE+KEY+" + s.Verifier()} {
		if h, err := Open(checkpoint, key); !errors.Is(err, ErrKey) {
			t.Errorf("key %q: %v, %v", key, h, err)
		}
	}
	good := text(head)
	for _, bad := range []string{
		"x\n", strings.Replace(good, Origin, "example.com/log", 1), strings.Replace(good, "18", "018", 1), strings.Replace(good, "18", "-1", 1),
		strings.Replace(good, "18", "+18", 1), strings.Replace(good, "n4bQ", "n4b", 1), good + "extension\n", good[:len(good)-5] + "\n",
		strings.Replace(good, "Cgg=", "Cgh=", 1),
	} {
		b, err := note.Sign(&note.Note{Text: bad}, s.signer)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := Open(string(b), s.Verifier()); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%q: %v, %v", bad, h, err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	if c, _, err := newSigner(t).Sign(proto.AuditHead{N: 1, Hash: "x\ny"}); err == nil {
		t.Errorf("%q", c)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewSigner(key[:len(key)-4])
	if err == nil || strings.Contains(err.Error(), key[len(key)-20:len(key)-4]) {
		t.Errorf("%v", err)
	}
	foreign, _, err := note.GenerateKey(rand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	wrongHash := "PRIVATE+KEY+boxmaker/audit+7f08d9a4+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
	for _, k := range []string{"", "x", foreign, wrongHash} {
		if s, err := NewSigner(k); !errors.Is(err, ErrKey) {
			t.Errorf("%v, %v", s, err)
		}
	}
	s, err := NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	secret := key[strings.LastIndex(key, "+")+1:]
	if strings.Contains(fmt.Sprintf("%v %+v %#v", s, s, *s), secret) {
		t.Error("the key is printed")
	}
}

func FuzzOpen(f *testing.F) {
	s := newSigner(f)
	checkpoint, _, err := s.Sign(head)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(checkpoint, s.Verifier())
	f.Add(strings.Replace(checkpoint, "\n\n", "\n\n— other AAAAAAAA\n", 1), s.Verifier())
	f.Fuzz(func(t *testing.T, c, v string) {
		h, err := Open(c, v)
		if err == nil && (h.Validate() != nil || !strings.HasPrefix(c, text(h)+"\n")) {
			t.Fatalf("%q is %v", c, h)
		}
	})
}
