package secret

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"boxmaker/internal/config"
)

// Locked reports whether the key is a file that is encrypted with a passphrase.
// One that is not there, or can't be read, is not: whoever opens it says why.
func (c Config) Locked() bool {
	b, _, err := c.Key.trust(c.owner()).read(c.Key.File, maxKey)
	return err == nil && bytes.HasPrefix(b, []byte(ageHeader))
}

// Unlock asks for the passphrase of an encrypted key and gives what is in it:
// for a program that runs long, started by one that can ask. A key that does
// not open the store, if there is one, is refused.
func Unlock(c Config) (Text, error) {
	ids, err := c.Key.open(c.owner(), Text{})
	if err != nil {
		return Text{}, err
	}
	t := trust{what: "the store of the secrets", owner: c.owner(), mode: 0o600}
	b, _, err := t.read(c.path(), 2*maxPlain)
	if err == nil {
		_, err = ids.unseal(b)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Text{}, err
	}
	ids.pass = Text{}
	plain, err := ids.text(0)
	return NewText(string(plain)), err
}

// ReadUnlocked reads what [Unlock] gave from a file that was handed over. Others
// may read from the same one: its place does not matter, and is not changed.
func ReadUnlocked(f *os.File) (Text, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxKey))
	if err == nil {
		_, err = parseKey(b)
	}
	if err != nil {
		return Text{}, problem("secret-passphrase", "the key that was handed over can't be read", "start Boxmaker again with bxctl up", err)
	}
	return NewText(string(b)), nil
}

// Source says in a few words where the key is from.
func (s *Store) Source() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch k := s.cfg.Key; {
	case k.Credential:
		return "a systemd credential"
	case s.ids.unlocked:
		return k.File + ", unlocked with its passphrase at the start"
	case s.ids.pass.Reveal() != "":
		return k.File + ", encrypted with a passphrase"
	default:
		return k.File
	}
}

// SetPassphrase encrypts the key file with another passphrase, or, with an empty
// one, with none. The key itself stays.
func (s *Store) SetPassphrase(pass Text) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Key.Credential {
		return &config.Error{What: "the key is a systemd credential, which systemd encrypts", Do: "name the key file with --key", Runbook: "secret-key"}
	}
	done, err := s.cfg.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := s.fresh(); err != nil {
		return err
	}
	ids := s.ids
	ids.pass = pass
	if err := s.cfg.writeKey("key", ids); err != nil {
		return err
	}
	s.ids.pass = pass // the file is read again, by its stamp
	return nil
}
