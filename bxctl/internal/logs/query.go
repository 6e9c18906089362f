package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// All is [Query.Last] for every line.
const All = -1

// A Query says which lines are wanted.
type Query struct {
	Dir    string
	Roles  []string  // none: all that have a file
	Last   int       // lines in all, newest; All for every one
	Since  time.Time // only lines of this time and later; zero for all
	Follow bool      // go on with what comes, until ctx ends
	Poll   <-chan time.Time
}

// Roles lists the roles that have a log.
func Roles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			name, _, ok = strings.Cut(e.Name(), suffix+".") // only its older files are left
			if ok && (len(e.Name()) != len(name)+len(suffix)+2 || e.Name()[len(e.Name())-1] < '1' || e.Name()[len(e.Name())-1] > '0'+Kept) {
				continue
			}
		}
		if ok && name != "" && e.Type().IsRegular() && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Each visits the lines in the order of their time, lines of one role in the
// order in which they stand. It returns the error of visit, if there is one;
// the end of ctx while following is none.
func (q Query) Each(ctx context.Context, visit func(Entry) error) error {
	r := &reading{q: q}
	defer r.close()
	if err := r.add(true); err != nil {
		return err
	}
	if err := r.merge(visit); err != nil || !q.Follow {
		return err
	}
	for {
		if err := r.poll(visit); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-q.Poll:
		}
	}
}

// reading is one query at work.
type reading struct {
	q       Query
	sources []*source
}

func (r *reading) close() {
	for _, s := range r.sources {
		s.close()
	}
}

// add opens the logs of roles that it has not yet. At the first call it skips
// what is surely not wanted.
func (r *reading) add(first bool) error {
	roles := r.q.Roles
	if len(roles) == 0 {
		var err error
		if roles, err = Roles(r.q.Dir); err != nil {
			return err
		}
	}
	for _, role := range roles {
		if slices.ContainsFunc(r.sources, func(s *source) bool { return s.role == role }) {
			continue
		}
		s, err := openSource(r.q.Dir, role)
		if err != nil {
			return fmt.Errorf("opening the log of %s: %w", role, err)
		}
		r.sources = append(r.sources, s)
		if first && r.q.Last >= 0 {
			if err := s.tail(r.q.Last); err != nil {
				return fmt.Errorf("reading the log of %s: %w", role, err)
			}
		}
	}
	return nil
}

// merge visits what there is now.
func (r *reading) merge(visit func(Entry) error) error {
	heads := make([]*Entry, len(r.sources))
	pull := func(i int) error {
		s := r.sources[i]
		e, ok, err := s.next()
		if err != nil {
			return fmt.Errorf("reading the log of %s: %w", s.role, err)
		}
		if !ok && !r.q.Follow {
			e, ok = s.rest()
		}
		if heads[i] = nil; ok {
			heads[i] = &e
		}
		return nil
	}
	for i := range r.sources {
		if err := pull(i); err != nil {
			return err
		}
	}
	var last []Entry
	for {
		best := -1
		for i, h := range heads {
			if h != nil && (best < 0 || h.Time.Before(heads[best].Time)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		e := *heads[best]
		if err := pull(best); err != nil {
			return err
		}
		switch {
		case e.Time.Before(r.q.Since):
		case r.q.Last < 0:
			if err := visit(e); err != nil {
				return err
			}
		default:
			if last = append(last, e); len(last) > r.q.Last {
				last = last[1:]
			}
		}
	}
	for _, e := range last {
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// poll visits what has come since.
func (r *reading) poll(visit func(Entry) error) error {
	if err := r.add(false); err != nil {
		return err
	}
	fresh := make([][]Entry, len(r.sources))
	for i, s := range r.sources {
		var err error
		if fresh[i], err = s.rush(); err != nil {
			return fmt.Errorf("following the log of %s: %w", s.role, err)
		}
	}
	for {
		best := -1
		for i, f := range fresh {
			if len(f) > 0 && (best < 0 || f[0].Time.Before(fresh[best][0].Time)) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		if err := visit(fresh[best][0]); err != nil {
			return err
		}
		fresh[best] = fresh[best][1:]
	}
}

// ParseSince reads a time that the owner gave: how long ago (90s, 15m, 2h, 3d),
// a time of today (14:30), a day (2026-01-31), both, or RFC 3339.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if h, err := time.ParseDuration(days + "h"); err == nil && h >= 0 && !strings.ContainsAny(days, "hmsuµn") {
			return now.Add(-24 * h), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.ParseInLocation(time.DateOnly+" "+layout, now.Format(time.DateOnly)+" "+s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: give how long ago (15m, 2h, 3d), 14:30, 2026-01-31, \"2026-01-31 14:30\", or RFC 3339", s)
}
