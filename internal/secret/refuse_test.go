package secret

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"filippo.io/age"
)

// TestRefusedFiles: each row does something to a store or its key that must not
// be taken.
func TestRefusedFiles(t *testing.T) {
	chmod := func(mode os.FileMode) func(string) error {
		return func(f string) error { return os.Chmod(f, mode) }
	}
	link := func(f string) error {
		return errors.Join(os.Rename(f, f+".real"), os.Symlink(f+".real", f))
	}
	fifo := func(f string) error { return errors.Join(os.Remove(f), syscall.Mkfifo(f, 0o600)) }
	folder := func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }
	foreign := func(f string) error { return os.Chown(f, 65534, -1) }
	openFolder := func(f string) error { return os.Chmod(filepath.Dir(f), 0o777) }
	text := func(b []byte) func(string) error {
		return func(f string) error { return os.WriteFile(f, b, 0o600) }
	}
	cut := func(f string) error { return os.Truncate(f, 150) }
	flip := func(f string) error {
		b, err := os.ReadFile(f)
		b[len(b)-3] ^= 1
		return errors.Join(err, os.WriteFile(f, b, 0o600))
	}
	otherKey, _ := age.GenerateX25519Identity()
	for _, c := range []struct {
		name      string
		do        func(string) error
		on        string
		key, part string
		root      bool
	}{
		{"key of the group", chmod(0o640), "key", "secret-permissions", "mode 0640", false},
		{"key of all", chmod(0o604), "key", "secret-permissions", "mode 0604", false},
		{"key that others write", chmod(0o602), "key", "secret-permissions", "mode 0602", false},
		{"key is a link", link, "key", "secret-permissions", "symbolic link", false},
		{"key is a pipe", fifo, "key", "secret-permissions", "not a plain file", false},
		{"key is a folder", folder, "key", "secret-permissions", "not a plain file", false},
		{"key of another", foreign, "key", "secret-permissions", "belongs to uid 65534", true},
		{"folder of the key open", openFolder, "key", "secret-permissions", "mode 0777", false},
		{"key empty", text(nil), "key", "secret-key", "damaged", false},
		{"key is text", text([]byte("AGE-SECRET-KEY-1NONSENSE\n")), "key", "secret-key", "line 1", false},
		{"key too large", text(bytes.Repeat([]byte("#\n"), maxKey)), "key", "secret-store", "larger", false},
		{"another key", text([]byte(otherKey.String() + "\n")), "key", "secret-key", "does not fit", false},
		{"store of the group", chmod(0o660), "store", "secret-permissions", "mode 0660", false},
		{"store is a link", link, "store", "secret-permissions", "symbolic link", false},
		{"store of another", foreign, "store", "secret-permissions", "belongs to uid 65534", true},
		{"store cut", cut, "store", "secret-store", "damaged", false},
		{"store flipped", flip, "store", "secret-store", "damaged", false},
		{"store empty", text(nil), "store", "secret-store", "damaged", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("NOT ROOT: a file can't be given to another user")
			}
			k := newKit(t).create()
			s := k.open()
			k.must(s.Set("a", NewText("a-good-value")))
			k.wants(s, "a", "a-good-value")
			file := k.cfg.Key.File
			if c.on == "store" {
				file = k.cfg.path()
			}
			k.must(c.do(file))
			_, err := Open(k.cfg)
			wantsKey(t, err, c.key, c.part)
			// Who had it open is not served from memory either, but for what only
			// a folder's mode can tell: it is looked at when a file changed.
			if v, err := s.Get("a"); err == nil && c.name != "folder of the key open" {
				t.Errorf("an open store still gives %q", v.Reveal())
			}
			if err := s.Set("b", NewText("a-good-value")); err == nil && c.name != "folder of the key open" {
				t.Error("and it can be written")
			}
		})
	}
}

// TestPlaintextOfOthers: a store that was made by someone who has the public key
// is decoded strictly.
func TestPlaintextOfOthers(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"another version", `{"v":2,"secrets":[]}`},
		{"unknown member", `{"v":1,"secrets":[],"x":1}`},
		{"null", `{"v":1,"secrets":null}`},
		{"twice", `{"v":1,"secrets":[{"name":"a","value":"YWFhYWFh"},{"name":"a","value":"YWFhYWFh"}]}`},
		{"not in order", `{"v":1,"secrets":[{"name":"b","value":"YWFhYWFh"},{"name":"a","value":"YWFhYWFh"}]}`},
		{"short", `{"v":1,"secrets":[{"name":"a","value":"YWFh"}]}`},
		{"name", `{"v":1,"secrets":[{"name":"A","value":"YWFhYWFh"}]}`},
		{"not canonical", `{"v": 1,"secrets":[]}`},
		{"trailing", `{"v":1,"secrets":[]} `},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t).create()
			ids, err := k.cfg.Key.open(os.Geteuid(), Text{})
			k.must(err)
			b, err := seal([]byte(c.text), ids.all[0].Recipient())
			k.must(err)
			k.must(os.WriteFile(k.cfg.path(), b, 0o600))
			_, err = Open(k.cfg)
			wantsKey(t, err, "secret-store", "damaged")
		})
	}
}

func TestPassphrase(t *testing.T) {
	k := newKit(t)
	asked := 0
	pass := "correct horse"
	k.cfg.Key.Passphrase = func() (string, error) { asked++; return pass, nil }
	k.create()
	b, err := os.ReadFile(k.cfg.Key.File)
	if err != nil || !bytes.HasPrefix(b, []byte("age-encryption.org/v1\n-> scrypt ")) {
		t.Fatalf("the key file is %.40q, %v", b, err)
	}
	s := k.open()
	asked = 0
	k.must(s.Set("a", NewText("a-good-value")))
	k.must(s.Rotate())
	k.wants(s, "a", "a-good-value")
	if asked != 0 {
		t.Errorf("asked %d times again", asked)
	}
	if b, err = os.ReadFile(k.cfg.Key.File); err != nil || !bytes.HasPrefix(b, []byte(ageHeader)) {
		t.Errorf("after a rotation the key is not encrypted: %.40q, %v", b, err)
	}
	pass = "wrong"
	_, err = Open(k.cfg)
	wantsKey(t, err, "secret-passphrase", "wrong passphrase")
	pass = ""
	_, err = Open(k.cfg)
	wantsKey(t, err, "secret-passphrase", "empty")
	k.cfg.Key.Passphrase = nil
	_, err = Open(k.cfg)
	wantsKey(t, err, "secret-passphrase", "nobody to ask")
}

func TestCredential(t *testing.T) {
	k := newKit(t).create()
	k.must(k.open().Set("a", NewText("a-good-value")))
	dir := t.TempDir()
	env := func(v string) func(string) string {
		return func(name string) string {
			if name == "CREDENTIALS_DIRECTORY" {
				return v
			}
			return ""
		}
	}
	for _, v := range []string{"", dir, "relative"} { // nothing is there
		if got := FindKey(env(v), "f"); got.File != "f" || got.Credential {
			t.Errorf("%q gives %+v", v, got)
		}
	}
	b, err := os.ReadFile(k.cfg.Key.File)
	k.must(err)
	cred := filepath.Join(dir, CredentialName)
	k.must(os.WriteFile(cred, b, 0o600))
	k.must(os.Chmod(cred, 0o440))
	k.must(os.Remove(k.cfg.Key.File))
	k.cfg.Key = FindKey(env(dir), k.cfg.Key.File)
	s := k.open()
	k.wants(s, "a", "a-good-value")
	wantsKey(t, s.Rotate(), "secret-key", "credential")
	k.must(os.Chmod(cred, 0o444))
	_, err = Open(k.cfg)
	wantsKey(t, err, "secret-permissions", "mode 0444")
}

// TestOwner: what root writes for brokerd belongs to brokerd.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT ROOT: a file can't be given to another user")
	}
	k := newKit(t)
	k.cfg.Owner = 62105
	k.create()
	s := k.open()
	k.must(s.Set("a", NewText("a-good-value")))
	k.must(s.Rotate())
	for _, f := range []string{k.cfg.Key.File, k.cfg.path()} {
		var st syscall.Stat_t
		k.must(syscall.Stat(f, &st))
		if st.Uid != 62105 || st.Mode&0o7777 != 0o600 {
			t.Errorf("%s: uid %d, mode %o", f, st.Uid, st.Mode)
		}
	}
	k.wants(s, "a", "a-good-value")
}

// TestAgeReadsIt: files are as age describes them, so that an owner can open
// them without us.
func TestAgeReadsIt(t *testing.T) {
	tool, err := exec.LookPath("age")
	if err != nil {
		t.Skip("NO age(1) HERE: that it reads the store is not tried")
	}
	k := newKit(t).create()
	k.must(k.open().Set("a", NewText("a-good-value")))
	out, err := exec.Command(tool, "-d", "-i", k.cfg.Key.File, k.cfg.path()).CombinedOutput()
	if want := `{"v":1,"secrets":[{"name":"a","value":"YS1nb29kLXZhbHVl"}]}`; err != nil || string(out) != want {
		t.Errorf("age gives %s, %v", out, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"secrets":[]}`))
	f.Add([]byte(`{"v":1,"secrets":[{"name":"a","value":"YWFhYWFh"},{"name":"b","value":"YWFhYWFhYQ=="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		if again, err := encode(m); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q became %q, %v", b, again, err)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte("# c\nAGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseKey(b)
		if err != nil {
			return
		}
		text, err := identities{all: all}.text(2)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseKey(text); err != nil || len(again) != len(all) || again[0].String() != all[0].String() {
			t.Errorf("%q became %q, %v", b, text, err)
		}
	})
}
