package queue

import (
	"cmp"
	"fmt"
	"slices"
)

// overlap is how far behind a mark a message can still come to light, in
// milliseconds: of two posts the later one may be readable first, and clocks of
// several servers differ.
const overlap = int64(10 * 60 * 1000)

// An Item is a message that is not done with.
type Item struct {
	Heard
	Parts  []Part            // of its answer; nil: there is none yet
	Placed map[string]string // by key, the post that is on the server
	Final  map[string]bool   // by key, it has its last text
}

// Posted reports that all of the answer is on the server.
func (i *Item) Posted() bool {
	return i.Parts != nil && !slices.ContainsFunc(i.Parts, func(p Part) bool { return !i.Final[p.Key] && !p.Stays() })
}

// State is what the records add up to. It is pure: [State.Apply] is the only way
// to change it.
type State struct {
	first   int64
	started bool
	marks   map[string]int64
	open    map[string]*Item
	order   []string       // of open, as heard
	past    map[string]was // messages that are done with
}

// was is what is kept of a message that is done with.
type was struct {
	channel string
	at      int64
}

// NewState is the state before the first record.
func NewState() *State {
	return &State{marks: map[string]int64{}, open: map[string]*Item{}, past: map[string]was{}}
}

// First is the time before which nothing is heard; false if it is not known yet.
func (s *State) First() (int64, bool) { return s.first, s.started }

// Mark is the time up to which a channel was read.
func (s *State) Mark(channel string) int64 { return max(s.marks[channel], s.first) }

// Get gives a message that is not done with.
func (s *State) Get(post string) (*Item, bool) { i, ok := s.open[post]; return i, ok }

// Open gives all messages that are not done with, in the order in which they were
// heard.
func (s *State) Open() []*Item {
	out := make([]*Item, 0, len(s.order))
	for _, id := range s.order {
		out = append(out, s.open[id])
	}
	return out
}

// Len is the number of those.
func (s *State) Len() int { return len(s.order) }

// Last is the message that was heard last of those; "" if there is none.
func (s *State) Last() string {
	if len(s.order) == 0 {
		return ""
	}
	return s.order[len(s.order)-1]
}

// Fresh reports whether a post of that time could be a message that is not known:
// it is not among those that are, nor so old that it would have been.
func (s *State) Fresh(post, channel string, at int64) bool {
	_, open := s.open[post]
	_, past := s.past[post]
	return !open && !past && at > s.first && at > s.marks[channel]-overlap
}

// Apply adds a record. What does not fit is an error, and changes nothing.
func (s *State) Apply(r Record) error {
	switch r := r.(type) {
	case *First:
		if s.started {
			return fmt.Errorf("queue: a second start")
		}
		s.first, s.started = r.At, true
	case *Mark:
		s.marks[r.Channel] = max(s.marks[r.Channel], r.At)
		s.forget(r.Channel)
	case *Heard:
		if _, ok := s.past[r.Post]; ok || s.open[r.Post] != nil {
			return fmt.Errorf("queue: message %s is heard twice", r.Post)
		}
		s.open[r.Post] = &Item{Heard: *r, Placed: map[string]string{}, Final: map[string]bool{}}
		s.order = append(s.order, r.Post)
	case *Reply:
		i, err := s.item(r.Post)
		if err != nil {
			return err
		}
		if r.Parts[0].Key != i.Key {
			return fmt.Errorf("queue: the answer to %s does not begin in its place", r.Post)
		}
		i.Parts = r.Parts
	case *Placed:
		i, err := s.item(r.Post)
		if err != nil {
			return err
		}
		i.Placed[r.Key] = r.ID
		i.Final[r.Key] = i.Final[r.Key] || r.Final
	case *Done:
		old := was{r.Channel, r.At}
		if i := s.open[r.Post]; i != nil {
			old = was{i.Channel, i.At}
		} else if r.Channel == "" {
			return fmt.Errorf("queue: message %s is done and was not heard", r.Post)
		}
		delete(s.open, r.Post)
		s.order = slices.DeleteFunc(s.order, func(id string) bool { return id == r.Post })
		if old.at > s.marks[old.channel]-overlap { // see forget
			s.past[r.Post] = old
		}
	default:
		return fmt.Errorf("queue: no rule for %T", r)
	}
	return nil
}

func (s *State) item(post string) (*Item, error) {
	i := s.open[post]
	if i == nil {
		return nil, fmt.Errorf("queue: message %s is not there", post)
	}
	return i, nil
}

// forget drops messages of the past that can't come to light again.
func (s *State) forget(channel string) {
	for post, old := range s.past {
		if old.channel == channel && old.at <= s.marks[channel]-overlap {
			delete(s.past, post)
		}
	}
}

// records gives the shortest log that adds up to the same.
func (s *State) records() []Record {
	var out []Record
	if s.started {
		out = append(out, &First{s.first})
	}
	for _, post := range sortedKeys(s.past) {
		out = append(out, &Done{Post: post, Channel: s.past[post].channel, At: s.past[post].at})
	}
	for _, c := range sortedKeys(s.marks) {
		out = append(out, &Mark{c, s.marks[c]})
	}
	for _, i := range s.Open() {
		out = append(out, &i.Heard)
		if i.Parts != nil {
			out = append(out, &Reply{i.Post, i.Parts})
		}
		for _, k := range sortedKeys(i.Placed) {
			out = append(out, &Placed{Post: i.Post, Key: k, ID: i.Placed[k], Final: i.Final[k]})
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}
