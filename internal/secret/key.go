package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/config"
	"boxmaker/internal/filestamp"

	"filippo.io/age"
)

// CredentialName is the systemd credential that brokerd takes its key from:
//
//	LoadCredentialEncrypted=boxmaker-brokerd-key
const CredentialName = "boxmaker-brokerd-key"

const (
	maxKey = 64 << 10
	// workFactor is age's own: about a second and 256 MiB. A file that asks for
	// more than maxWork is not ours.
	workFactor, maxWork = 18, 20
	ageHeader           = "age-encryption.org/v1\n"
)

// A Key says where the key of a store is: a file with an age identity, which may
// itself be encrypted with a passphrase (as `age-keygen | age -p` writes it).
type Key struct {
	File       string
	Credential bool // systemd made the file: root's, and not to be written
	// Passphrase is asked when the file is encrypted with one. nil: there is
	// nobody to ask.
	Passphrase func() (string, error)
	// Unlocked is the content of an encrypted file, from a program that has
	// asked (see [Unlock]). It is used in the place of such a file.
	Unlocked Text
}

// FindKey gives the key of a daemon: the systemd credential if there is one,
// else the file.
func FindKey(getenv func(string) string, file string) Key {
	if dir := getenv("CREDENTIALS_DIRECTORY"); filepath.IsAbs(dir) {
		path := filepath.Join(dir, CredentialName)
		if _, err := os.Lstat(path); err == nil {
			return Key{File: path, Credential: true}
		}
	}
	return Key{File: file}
}

// identities is an opened key: it encrypts for the first, and decrypts with any.
type identities struct {
	all   []*age.X25519Identity
	pass  Text // that the file is encrypted with; empty: none
	stamp filestamp.Stamp

	unlocked bool // from Key.Unlocked
}

func (k Key) trust(owner int) trust {
	t := trust{what: "the key", owner: owner, mode: 0o600}
	if k.Credential {
		t.mode = 0o440 // systemd grants the service's user by an access list, whose mask shows as the group's
	}
	return t
}

// open reads the key. known is the passphrase if it was asked for before.
func (k Key) open(owner int, known Text) (identities, error) {
	b, st, err := k.trust(owner).read(k.File, maxKey)
	if errors.Is(err, fs.ErrNotExist) {
		return identities{}, problem("secret-key", "the key "+k.File+" is not there", "put it back from where you keep a copy; without it the secrets can't be read, and the store must be moved away and made anew with bxctl init", nil) // not as if there were no store
	}
	if err != nil {
		return identities{}, err
	}
	ids := identities{stamp: st}
	switch locked := bytes.HasPrefix(b, []byte(ageHeader)); {
	case locked && k.Unlocked.Reveal() != "":
		b, ids.unlocked = []byte(k.Unlocked.Reveal()), true
	case locked:
		if ids.pass = known; ids.pass.Reveal() == "" {
			if ids.pass, err = k.ask(); err != nil {
				return identities{}, err
			}
		}
		if b, err = unwrap(b, ids.pass); err != nil {
			return identities{}, err
		}
	}
	if ids.all, err = parseKey(b); err != nil {
		return identities{}, problem("secret-key", "the key "+k.File+" is damaged", "put it back from where you keep a copy", err)
	}
	return ids, nil
}

func (k Key) ask() (Text, error) {
	if k.Passphrase == nil {
		return Text{}, problem("secret-passphrase", "the key "+k.File+" is encrypted with a passphrase, and there is nobody to ask for it", "start Boxmaker with bxctl up in a terminal, or with --passphrase-file; under systemd, make the key a credential", nil)
	}
	p, err := k.Passphrase()
	if err != nil {
		return Text{}, err
	}
	if p == "" {
		return Text{}, problem("secret-passphrase", "the passphrase is empty", "type it", nil)
	}
	return NewText(p), nil
}

// unwrap decrypts a key file with a passphrase.
func unwrap(b []byte, pass Text) ([]byte, error) {
	id, err := age.NewScryptIdentity(pass.Reveal())
	if err != nil {
		return nil, err
	}
	id.SetMaxWorkFactor(maxWork)
	r, err := age.Decrypt(bytes.NewReader(b), id)
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(r, maxKey))
	}
	if err != nil {
		return nil, problem("secret-passphrase", "the key can't be decrypted: a wrong passphrase, or a damaged file", "type the passphrase again", ErrPassphrase)
	}
	return b, nil
}

// parseKey reads identities, one a line, with comments. It never quotes a line.
func parseKey(b []byte) ([]*age.X25519Identity, error) {
	var all []*age.X25519Identity
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, err := age.ParseX25519Identity(line)
		if err != nil {
			return nil, fmt.Errorf("secret: line %d is no age identity", i+1)
		}
		all = append(all, id)
	}
	if len(all) == 0 || len(all) > 16 {
		return nil, errors.New("secret: a key file holds 1 to 16 identities")
	}
	return all, nil
}

// text gives the key file's content, encrypted if it has a passphrase.
func (ids identities) text(work int) ([]byte, error) {
	var b strings.Builder
	b.WriteString("# The key of Boxmaker's secrets. Keep it apart from them, and a copy in a safe place.\n")
	for _, id := range ids.all {
		b.WriteString(id.String() + "\n")
	}
	if ids.pass.Reveal() == "" {
		return []byte(b.String()), nil
	}
	r, err := age.NewScryptRecipient(ids.pass.Reveal())
	if err != nil {
		return nil, err
	}
	r.SetWorkFactor(work)
	return seal([]byte(b.String()), r)
}

func seal(plain []byte, r age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, r)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unseal decrypts a store.
func (ids identities) unseal(b []byte) ([]byte, error) {
	var all []age.Identity
	for _, id := range ids.all {
		all = append(all, id)
	}
	r, err := age.Decrypt(bytes.NewReader(b), all...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, &config.Error{What: "the key does not fit the store of the secrets", Do: "put back the key that belongs to it", Runbook: "secret-key", Err: ErrWrongKey}
	}
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxPlain+1))
	return plain, err
}

// ErrPassphrase reports a passphrase that does not open the key.
var ErrPassphrase = errors.New("secret: nothing was changed")

// ErrWrongKey reports a key that does not open the store.
var ErrWrongKey = errors.New("secret: wrong key")
