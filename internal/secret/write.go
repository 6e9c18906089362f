package secret

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"boxmaker/internal/durable"

	"filippo.io/age"
)

// lockName is held by who changes the store. Readers need no lock: a file is
// replaced whole.
const lockName = ".brokerd.lock"

// lock waits until no other program changes the store. The kernel takes the
// lock away from a program that dies.
func (c Config) lock() (func() error, error) {
	f, err := os.OpenFile(filepath.Join(c.Dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, problem("secret-store", "the folder of the secrets can't be written", "run bxctl as the owner of "+c.Dir, err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// Create makes a key and an empty store, where they are missing. made tells
// which files are new. A store whose key is gone is an error: a new key could
// not open it.
func Create(c Config) (made []string, err error) {
	done, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	_, keyErr := os.Lstat(c.Key.File)
	_, storeErr := os.Lstat(c.path())
	if err := errors.Join(unexpected(keyErr), unexpected(storeErr)); err != nil {
		return nil, err
	}
	var ids identities
	switch {
	case keyErr == nil:
		if ids, err = c.Key.open(c.owner(), Text{}); err != nil {
			return nil, err
		}
	case storeErr == nil:
		return nil, problem("secret-key", "the key "+c.Key.File+" is not there, but the store that it opens is", "put it back from where you keep a copy, or move the store away, run bxctl init, and set the secrets again", fs.ErrNotExist)
	default:
		if ids, err = c.newKey(); err != nil {
			return nil, err
		}
		if err := c.writeKey("key", ids); err != nil {
			return nil, err
		}
		made = append(made, c.Key.File)
	}
	if storeErr == nil {
		return made, nil
	}
	if err := c.writeStore(map[string]Text{}, ids); err != nil {
		return made, err
	}
	return append(made, c.path()), nil
}

func unexpected(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// newKey makes an identity; if the key has somebody to ask, the file will be
// encrypted with a passphrase.
func (c Config) newKey() (identities, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return identities{}, err
	}
	ids := identities{all: []*age.X25519Identity{id}}
	if c.Key.Passphrase != nil {
		ids.pass, err = c.Key.ask()
	}
	return ids, err
}

// change reads the store, lets f change the values, and writes them.
func (s *Store) change(f func(map[string]Text) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, err := s.cfg.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := s.fresh(); err != nil {
		return err
	}
	values := maps.Clone(s.values)
	if err := f(values); err != nil {
		return err
	}
	return s.cfg.writeStore(values, s.ids)
}

// Set keeps a value under a name, in place of the one before.
func (s *Store) Set(name string, value Text) error {
	if err := errors.Join(CheckName(name), CheckValue(value.Reveal())); err != nil {
		return err
	}
	// Only what is set newly: a store that has one must open all the same.
	if strings.TrimSpace(value.Reveal()) == "" {
		return problem("secret-value", "the value is nothing but blank space, which every honest text has", "look at where it comes from", nil)
	}
	return s.change(func(m map[string]Text) error {
		m[name] = value
		if len(m) > MaxCount {
			return problem("secret-value", "there are too many secrets", "remove one with bxctl secret rm", nil)
		}
		return nil
	})
}

// Remove takes a secret away. A name that is not there is [ErrUnknown].
func (s *Store) Remove(name string) error {
	return s.change(func(m map[string]Text) error {
		if _, ok := m[name]; !ok {
			return unknown(name, "bxctl secret list shows the names")
		}
		delete(m, name)
		return nil
	})
}

// Rotate makes a new key and encrypts the store with it. The passphrase of the
// key file, if it has one, stays. Whatever step is the last before a crash, the
// files fit together:
//
//  1. key file: new key, old keys
//  2. store, for the new key
//  3. key file: new key
func (s *Store) Rotate() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Key.Credential {
		return problem("secret-key", "the key is a systemd credential, which only its maker can change", "rotate with the key in a file (--key), and make the credential anew from it", nil)
	}
	done, err := s.cfg.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := s.fresh(); err != nil {
		return err
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	ids := s.ids
	ids.all = append([]*age.X25519Identity{id}, s.ids.all...)
	if len(ids.all) > 8 { // of rotations that were cut off
		return problem("secret-key", "the key file holds too many keys", "put it back from a copy", nil)
	}
	if err := s.cfg.writeKey("both keys", ids); err != nil {
		return err
	}
	if err := s.cfg.writeStore(s.values, ids); err != nil {
		return err
	}
	ids.all = ids.all[:1]
	return s.cfg.writeKey("new key", ids)
}

func (c Config) writeKey(name string, ids identities) error {
	work := c.work
	if work == 0 {
		work = workFactor
	}
	b, err := ids.text(work)
	if err != nil {
		return err
	}
	return c.write(name, c.Key.File, b)
}

func (c Config) writeStore(values map[string]Text, ids identities) error {
	plain, err := encode(values)
	if err != nil {
		return err
	}
	b, err := seal(plain, ids.all[0].Recipient())
	if err != nil {
		return err
	}
	return c.write("store", c.path(), b)
}

func (c Config) write(name, file string, b []byte) error {
	do := func() error {
		root, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			return err
		}
		defer root.Close()
		if err := durable.WriteFileAs(root, filepath.Base(file), b, 0o600, c.owner()); err != nil {
			return problem("secret-store", file+" can't be written", "run bxctl as the owner of "+filepath.Dir(file)+", and see that the disk is not full", err)
		}
		return nil
	}
	if c.step != nil {
		return c.step(name, do)
	}
	return do()
}
