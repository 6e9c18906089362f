package proto_test

import (
	"testing"

	"boxmaker/internal/proto"
)

func TestSummary(t *testing.T) {
	var s proto.Summary
	for _, r := range []proto.Record{
		&proto.Baseline{Model: "m", Slot: 1, Window: 100},
		&proto.User{Origin: "o1"},
		&proto.Queued{Origin: "o2"},
		&proto.Queued{Origin: "o3"},
		&proto.Completion{CacheN: 10, PromptN: 20, PredictedN: 3, PromptUS: 5000, PredictedUS: 7999},
		&proto.TurnEnd{Origin: "o1"},
		&proto.User{Origin: "o2"},
	} {
		s.Add(r)
	}
	d := s.Detail
	want := proto.Usage{Completions: 1, Prompt: 20, Cached: 10, Generated: 3, PromptMS: 5, GenerateMS: 7, Context: 33, Window: 100}
	if d.Model != "m" || d.Slot != 1 || d.Turns != 1 || d.Queued != 1 || d.Usage != want {
		t.Errorf("%+v", d)
	}
	s.Add(&proto.Baseline{Model: "n", Window: 50}) // a new epoch: sums go on, the window is another
	if d := s.Detail; d.Usage.Context != 0 || d.Usage.Window != 50 || d.Usage.Prompt != 20 {
		t.Errorf("%+v", d)
	}
}
