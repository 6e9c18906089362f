package secret

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"boxmaker/internal/config"
	"boxmaker/internal/filestamp"
)

// FileName is the store of brokerd in its folder.
const FileName = "brokerd.age"

// Config says where a store is.
type Config struct {
	Dir   string // folder of the store
	File  string // name of the store in it; "": FileName
	Key   Key
	Owner int // uid whose files store and key are; 0 or less: that of this process

	work int  // of scrypt, for tests; 0: workFactor
	step step // what fails in tests; nil: nothing
}

// A step does one thing to the disk. Tests put one in that fails.
type step func(name string, f func() error) error

func (c Config) owner() int {
	if c.Owner > 0 {
		return c.Owner
	}
	return os.Geteuid()
}

func (c Config) path() string { return filepath.Join(c.Dir, cmp.Or(c.File, FileName)) }

// A Named is one secret.
type Named struct {
	Name  string
	Value Text
}

// A Store gives the values. It reads files anew when they changed. Its methods
// may be called from several goroutines.
type Store struct {
	cfg Config

	mu     sync.Mutex // guards what follows
	ids    identities
	stamp  filestamp.Stamp
	values map[string]Text
	past   []Named // every value that was ever there; see All
}

// Open reads the store. One that is missing is an error that is [fs.ErrNotExist];
// one whose key is missing is an error that is not.
func Open(c Config) (*Store, error) {
	s := &Store{cfg: c}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fresh(); err != nil {
		return nil, err
	}
	return s, nil
}

// fresh reads what changed. Precondition: mu is held. After an error the old
// values are not given any more.
func (s *Store) fresh() error {
	st, err := statFile(s.cfg.path())
	kst, kerr := statFile(s.cfg.Key.File)
	if err == nil && kerr == nil && s.values != nil && st == s.stamp && kst == s.ids.stamp {
		return nil
	}
	values, ids, st, err := s.cfg.load(s.ids)
	for range 3 { // a rotation may have come between the two files
		if !errors.Is(err, ErrWrongKey) {
			break
		}
		values, ids, st, err = s.cfg.load(s.ids)
	}
	if err != nil {
		s.values = nil
		return err
	}
	s.values, s.ids, s.stamp = values, ids, st
	for _, n := range sorted(values) {
		if !slices.ContainsFunc(s.past, func(p Named) bool { return p.Name == n.Name && p.Value.Reveal() == n.Value.Reveal() }) {
			s.past = append(s.past, n)
		}
	}
	return nil
}

// load reads store and key; last is the key as it was the last time.
func (c Config) load(last identities) (map[string]Text, identities, filestamp.Stamp, error) {
	t := trust{what: "the store of the secrets", owner: c.owner(), mode: 0o600}
	b, st, err := t.read(c.path(), 2*maxPlain)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, identities{}, filestamp.Stamp{}, problem("secret-store", "the store of the secrets "+c.path()+" is not there", "bxctl init makes an empty one", fs.ErrNotExist)
	}
	if err != nil {
		return nil, identities{}, filestamp.Stamp{}, err
	}
	ids := last
	if kst, kerr := statFile(c.Key.File); kerr != nil || kst != last.stamp || last.all == nil {
		if ids, err = c.Key.open(c.owner(), last.pass); err != nil {
			return nil, identities{}, filestamp.Stamp{}, err
		}
	}
	plain, err := ids.unseal(b)
	if errors.Is(err, ErrWrongKey) && ids.unlocked {
		err = &config.Error{What: "the key of the secrets, which is encrypted with a passphrase, is another one since Boxmaker was started", Do: "start Boxmaker again, which asks for the passphrase: bxctl down, then bxctl up", Runbook: "secret-passphrase", Err: ErrWrongKey}
	}
	if errors.Is(err, ErrWrongKey) {
		return nil, identities{}, filestamp.Stamp{}, err
	}
	var values map[string]Text
	if err == nil {
		values, err = decode(plain)
	}
	if err != nil {
		return nil, identities{}, filestamp.Stamp{}, problem("secret-store", "the store of the secrets "+c.path()+" is damaged", "put it back from a copy, or move it away, run bxctl init, and set the secrets again", err)
	}
	return values, ids, st, nil
}

func sorted(m map[string]Text) []Named {
	var out []Named
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Named{name, m[name]})
	}
	return out
}

// ErrUnknown reports a name that no secret has.
var ErrUnknown = errors.New("secret: there is no secret of that name")

// Get gives a value. A name that is not there is an error that is [ErrUnknown].
func (s *Store) Get(name string) (Text, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fresh(); err != nil {
		return Text{}, err
	}
	v, ok := s.values[name]
	if !ok {
		return Text{}, unknown(name, "bxctl secret set "+clip(name))
	}
	return v, nil
}

func unknown(name, do string) error {
	return &config.Error{What: "there is no secret " + clip(name), Do: do, Runbook: "secret-unknown", Err: ErrUnknown}
}

// clip makes a name fit to be shown; it may be anything.
func clip(name string) string {
	if CheckName(name) != nil {
		return "of that name"
	}
	return name
}

// Names gives all names in order.
func (s *Store) Names() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fresh(); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(s.values)), nil
}

// All gives every value of now and every one that was there before, since the
// store was opened: a call that runs may still hold what was replaced, and its
// result must be searched for that too. Those come with an error as well.
func (s *Store) All() ([]Named, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.fresh()
	return slices.Clone(s.past), err
}
