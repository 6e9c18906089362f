// Package stats sums a session's log up, turn by turn: tokens, times, and what
// cold caches cost.
//
// It guarantees that every figure is one that the inference server or loopd
// wrote into the log; what is derived says so. It never writes, and it does not
// judge.
package stats

import (
	"context"
	"time"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/internal/proto"
)

// Stats is one session. Tokens are counts, times milliseconds.
type Stats struct {
	Session string `json:"session"`
	Model   string `json:"model"`
	Slot    int    `json:"slot"`
	Epochs  int    `json:"epochs"`
	Window  int64  `json:"window"`  // tokens that the newest epoch may hold
	Context int64  `json:"context"` // tokens that it holds
	Sum     Sum    `json:"sum"`
	Turns   []Turn `json:"turns"`
	Colds   []Cold `json:"cold_caches"`
	// Unread is what of the session's log is not in the figures.
	Unread []archive.Unread `json:"unread,omitzero"`
}

// Sum is the whole of what was computed.
type Sum struct {
	Completions int   `json:"completions"`
	Processed   int64 `json:"processed"`
	Reused      int64 `json:"reused"`
	Generated   int64 `json:"generated"`
	PromptMS    int64 `json:"prompt_ms"`
	GenerateMS  int64 `json:"generate_ms"`
	Calls       int   `json:"calls"`
	Lost        int64 `json:"lost"`    // tokens processed again after cold caches
	LostMS      int64 `json:"lost_ms"` // derived: their share of the time of their prompts
}

// Turn is one turn.
type Turn struct {
	N       int               `json:"n"` // from 1
	Epoch   int               `json:"epoch"`
	Time    string            `json:"time"`
	Outcome proto.TurnOutcome `json:"outcome,omitzero"` // empty: not ended
	Sum
	FirstMS int64 `json:"first_ms"` // of its first completion: request sent to first token
	TookMS  int64 `json:"took_ms"`  // from its message to its end
	Context int64 `json:"context"`  // tokens in the window behind it
	Capped  bool  `json:"capped,omitzero"`
}

// Cold is a cold cache: tokens that were there and had to be processed again.
type Cold struct {
	Turn   int    `json:"turn"`
	Time   string `json:"time"`
	Lost   int64  `json:"lost"`
	LostMS int64  `json:"lost_ms"`
}

// Read sums up the session id in the folder dir, as far as its log can be read.
func Read(ctx context.Context, dir, id string) (*Stats, error) {
	s := &Stats{Session: id, Turns: []Turn{}, Colds: []Cold{}}
	var began time.Time
	bad, err := archive.Files{Dir: dir}.Records(ctx, id, func(epoch int, h proto.Header, r proto.Record) error {
		s.Epochs = epoch
		switch r := r.(type) {
		case *proto.User:
			began = h.Time
			s.Turns = append(s.Turns, Turn{N: len(s.Turns) + 1, Epoch: epoch, Time: proto.Time(h.Time), Context: s.Context})
		case *proto.TurnEnd:
			if t := s.last(); t != nil {
				t.Outcome, t.TookMS = r.Outcome, h.Time.Sub(began).Milliseconds()
			}
		default:
			s.add(h, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Unread = bad
	return s, nil
}

func (s *Stats) last() *Turn {
	if len(s.Turns) == 0 {
		return nil
	}
	return &s.Turns[len(s.Turns)-1]
}

func (s *Stats) add(h proto.Header, r proto.Record) {
	switch r := r.(type) {
	case *proto.Baseline:
		s.Model, s.Slot, s.Window, s.Context = r.Model, r.Slot, r.Window, 0
	case *proto.Tool:
		s.Sum.Calls++
		if t := s.last(); t != nil {
			t.Calls++
		}
	case *proto.Completion:
		s.completion(h, r)
	}
}

func (s *Stats) completion(h proto.Header, r *proto.Completion) {
	s.Context = r.CacheN + r.PromptN + r.PredictedN
	one := Sum{
		Completions: 1, Processed: r.PromptN, Reused: r.CacheN, Generated: r.PredictedN,
		PromptMS: r.PromptUS / 1000, GenerateMS: r.PredictedUS / 1000, Lost: r.Lost,
	}
	if r.PromptN > 0 {
		one.LostMS = r.PromptUS * min(r.Lost, r.PromptN) / r.PromptN / 1000
	}
	s.Sum.plus(one)
	t := s.last()
	if t == nil {
		return
	}
	if t.Completions == 0 {
		t.FirstMS = r.FirstMS
	}
	t.plus(one)
	t.Context = s.Context
	t.Capped = t.Capped || r.Capped
	if r.Lost > 0 {
		s.Colds = append(s.Colds, Cold{Turn: t.N, Time: proto.Time(h.Time), Lost: r.Lost, LostMS: one.LostMS})
	}
}

func (s *Sum) plus(o Sum) {
	s.Completions += o.Completions
	s.Processed += o.Processed
	s.Reused += o.Reused
	s.Generated += o.Generated
	s.PromptMS += o.PromptMS
	s.GenerateMS += o.GenerateMS
	s.Lost += o.Lost
	s.LostMS += o.LostMS
}
