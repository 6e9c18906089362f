package taint

import (
	"boxmaker/internal/proto"
)

// A Floor is what the audit log says of the sessions: their taint when calls
// were decided on, and the labels of what came back. A file here that was
// removed or edited while brokerd was down can't make a session cleaner.
type Floor struct {
	levels map[string]level
}

// NewFloor is that of an empty log.
func NewFloor() *Floor { return &Floor{levels: map[string]level{}} }

// Seen folds one record of the log, in any order.
func (f *Floor) Seen(r proto.AuditRecord) {
	switch r := r.(type) {
	case *proto.AuditDecision:
		f.join(r.Session, level{rank(r.Taint), r.Untrusted})
	case *proto.AuditOutcome:
		if id, err := proto.ParseCallID(r.ID); err == nil {
			f.join(id.Session, level{rank(r.Class), r.Untrusted})
		}
	}
}

func (f *Floor) join(session string, l level) {
	if l.join(start()) != start() { // what every session begins with takes no room
		f.levels[session] = f.levels[session].join(l)
	}
}

// Lift raises each session to its floor.
func (s *Store) Lift(f *Floor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, l := range f.levels {
		if err := s.raise(session, l); err != nil {
			return err
		}
	}
	return nil
}
