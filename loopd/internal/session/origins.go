package session

import (
	"fmt"
	"slices"

	"boxmaker/internal/proto"
)

// An Origin is what the logs know of one message of the owner.
type Origin struct {
	Epoch   int   // where its turn started or, before that, where it was queued
	Record  int64 // number of that record
	Started bool  // it has a user record
	End     *proto.TurnEnd
}

// origins is the fold of all epochs' user, queued and turn records.
type origins struct {
	known   map[string]Origin
	pending []proto.Queued // queued and not started, in order
}

// originOf gives the origin that a record is about, or "".
func originOf(r proto.Record) string {
	switch r := r.(type) {
	case *proto.Queued:
		return r.Origin
	case *proto.User:
		return r.Origin
	case *proto.TurnEnd:
		return r.Origin
	default:
		return ""
	}
}

// step gives what is known of r's origin after r stands at that place. It
// refuses what would start an origin twice.
func step(old Origin, known bool, epoch int, n int64, r proto.Record) (Origin, error) {
	switch r := r.(type) {
	case *proto.Queued:
		if known {
			return old, fmt.Errorf("%w: message %s is queued but known already", proto.ErrRecord, r.Origin)
		}
		return Origin{Epoch: epoch, Record: n}, nil
	case *proto.User:
		if old.Started || old.End != nil {
			return old, fmt.Errorf("%w: message %s starts a second turn", proto.ErrRecord, r.Origin)
		}
		return Origin{Epoch: epoch, Record: n, Started: true}, nil
	case *proto.TurnEnd:
		if !known {
			old = Origin{Epoch: epoch, Record: n}
		}
		end := *r
		old.End = &end
		return old, nil
	default:
		return old, nil
	}
}

// add folds one record.
func (o *origins) add(epoch int, n int64, r proto.Record) error {
	id := originOf(r)
	if id == "" {
		return nil
	}
	old, known := o.known[id]
	next, err := step(old, known, epoch, n, r)
	if err != nil {
		return err
	}
	o.known[id] = next
	if q, ok := r.(*proto.Queued); ok {
		o.pending = append(o.pending, *q)
	} else {
		o.drop(id) // a message can also be given up before its turn
	}
	return nil
}

// check says whether add would take all of recs, the first at number n.
func (o *origins) check(epoch int, n int64, recs []proto.Record) error {
	batch := map[string]Origin{}
	for i, r := range recs {
		id := originOf(r)
		if id == "" {
			continue
		}
		old, known := batch[id]
		if !known {
			old, known = o.known[id]
		}
		next, err := step(old, known, epoch, n+int64(i), r)
		if err != nil {
			return err
		}
		batch[id] = next
	}
	return nil
}

func (o *origins) drop(origin string) {
	i := slices.IndexFunc(o.pending, func(q proto.Queued) bool { return q.Origin == origin })
	if i >= 0 {
		o.pending = slices.Delete(o.pending, i, i+1)
	}
}

// index reads one line of an older epoch for its origins alone.
func (o *origins) index(epoch int) func(int64, []byte) error {
	return func(n int64, line []byte) error {
		h, kind, err := proto.RecordKind(line)
		if err != nil {
			return err
		}
		if err := checkPlace(n, h, kind); err != nil {
			return err
		}
		switch kind {
		case "user", "queued", "turn":
			_, r, err := decodeRecord(line)
			if err != nil {
				return err
			}
			return o.add(epoch, n, r)
		default:
			return nil
		}
	}
}
