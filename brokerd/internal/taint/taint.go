// Package taint remembers what each session has seen: the highest data class,
// and whether any of it was untrusted text. It is brokerd's own record, whatever
// loopd says.
//
// It guarantees that a session's taint never falls, also across a crash: what
// [Store.Raise] has returned nil for is on disk. A record that cannot be read
// counts as the worst, secret and untrusted, so that damage can only take
// rights away.
//
// It does not know what a session was told elsewhere than through brokerd. A
// session starts at private, because the owner's own words are in it.
package taint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"

	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
	"boxmaker/internal/strict"
)

const (
	folder  = "taint"
	version = 1
)

// A record is one session's file.
type record struct {
	V         int         `json:"v"`
	Session   string      `json:"session"`
	Class     proto.Class `json:"class"`
	Untrusted bool        `json:"untrusted,omitzero"`
}

// Validate checks all members.
func (r *record) Validate() error {
	if r.V != version {
		return fmt.Errorf("taint: a file of version %d", r.V)
	}
	return errors.Join(proto.CheckSession(r.Session), r.Class.Validate())
}

// A level is a taint. The zero value is the lowest.
type level struct {
	class     int
	untrusted bool
}

func (a level) join(b level) level {
	return level{max(a.class, b.class), a.untrusted || b.untrusted}
}

// classes in their order.
func classes() []proto.Class {
	return []proto.Class{proto.ClassPublic, proto.ClassPrivate, proto.ClassSecret}
}

// rank of a class that does not exist is the highest.
func rank(c proto.Class) int {
	for i, k := range classes() {
		if k == c {
			return i
		}
	}
	return len(classes()) - 1
}

func start() level { return level{class: rank(proto.ClassPrivate)} }
func worst() level { return level{class: rank(proto.ClassSecret), untrusted: true} }

// A Store holds all sessions' taint. Its methods may be called from several
// goroutines.
type Store struct {
	root *os.Root

	mu    sync.Mutex // guards what follows
	known map[string]*entry
	clean map[string]*entry // sessions that have no file, looked up lately
}

// maxClean bounds what is held of sessions that saw nothing, whose names loopd
// could make up. All of them are looked up again now and then.
const maxClean = 256

type entry struct {
	held   level // what counts
	stored level // what is on disk
	broken error // why the file counts as the worst
}

// Open uses the folder taint in brokerd's state, and makes it if need be.
func Open(root *os.Root) (*Store, error) {
	if err := durable.Mkdir(root, folder, 0o700); err != nil {
		return nil, fmt.Errorf("the sessions' taint cannot be kept: %w (see runbook: brokerd-state)", err)
	}
	return &Store{root: root, known: map[string]*entry{}, clean: map[string]*entry{}}, nil
}

// Get gives a session's taint. With an error it gives the worst, which is then
// what holds.
func (s *Store) Get(session string) (proto.Class, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(session)
	return classes()[e.held.class], e.held.untrusted, e.broken
}

// Raise makes a session's taint at least this. After an error it is raised all
// the same, but not for certain after a restart: what raised it must not reach
// the session.
func (s *Store) Raise(session string, class proto.Class, untrusted bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raise(session, level{rank(class), untrusted})
}

// Inherit makes the taint of child at least that of parent.
func (s *Store) Inherit(child, parent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raise(child, s.entry(parent).held)
}

// raise changes memory first, then the disk. Precondition: mu is held.
func (s *Store) raise(session string, to level) error {
	if err := proto.CheckSession(session); err != nil {
		return err
	}
	e := s.entry(session)
	if e.held = e.held.join(to); e.held != start() {
		s.known[session] = e
		delete(s.clean, session)
	}
	if e.broken != nil || e.held == e.stored {
		return nil // the file counts as the worst, or says it already
	}
	b, err := strict.Marshal(&record{V: version, Session: session, Class: classes()[e.held.class], Untrusted: e.held.untrusted})
	if err == nil {
		err = durable.WriteFile(s.root, name(session), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the taint of session %s cannot be kept: %w (see runbook: brokerd-state)", session, err)
	}
	e.stored = e.held
	return nil
}

// entry reads a session's file once, or that there is none. Precondition: mu is held.
func (s *Store) entry(session string) *entry {
	for _, held := range []map[string]*entry{s.known, s.clean} {
		if e := held[session]; e != nil {
			return e
		}
	}
	e := s.load(session)
	switch {
	case proto.CheckSession(session) != nil:
	case e.broken != nil || e.held != start():
		s.known[session] = e
	default:
		if len(s.clean) >= maxClean {
			clear(s.clean)
		}
		s.clean[session] = e
	}
	return e
}

func (s *Store) load(session string) *entry {
	if err := proto.CheckSession(session); err != nil {
		return &entry{held: worst(), broken: err}
	}
	b, err := s.root.ReadFile(name(session))
	if errors.Is(err, fs.ErrNotExist) {
		return &entry{held: start(), stored: start()}
	}
	r := new(record)
	if err == nil {
		err = strict.Unmarshal(b, r)
	}
	if err == nil && r.Session != session {
		err = errors.New("the file is of another session")
	}
	if err != nil {
		return &entry{held: worst(), broken: fmt.Errorf("the taint of session %s in %s cannot be read: %w; it counts as secret and untrusted (see runbook: taint-damaged)", session, name(session), err)}
	}
	l := start().join(level{rank(r.Class), r.Untrusted})
	return &entry{held: l, stored: l}
}

func name(session string) string { return path.Join(folder, session+".json") }
