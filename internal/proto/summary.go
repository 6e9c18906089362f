package proto

// A Summary sums up a session while its records are read in order, all epochs.
// The zero value is ready; Info is left to the caller.
type Summary struct {
	Detail SessionDetail

	waiting map[string]bool // origins that are queued and not started
}

// Add takes the next record. Window and Context are those of the newest epoch.
func (s *Summary) Add(r Record) {
	d := &s.Detail
	switch r := r.(type) {
	case *Baseline:
		d.Model, d.Slot, d.Usage.Window, d.Usage.Context = r.Model, r.Slot, r.Window, 0
	case *Queued:
		if s.waiting == nil {
			s.waiting = map[string]bool{}
		}
		s.waiting[r.Origin] = true
	case *User:
		delete(s.waiting, r.Origin)
	case *TurnEnd:
		d.Turns++
	case *Completion:
		u := &d.Usage
		u.Completions++
		u.Prompt += r.PromptN
		u.Cached += r.CacheN
		u.Generated += r.PredictedN
		u.PromptMS += r.PromptUS / 1000
		u.GenerateMS += r.PredictedUS / 1000
		u.Context = r.CacheN + r.PromptN + r.PredictedN
	}
	d.Queued = len(s.waiting)
}
