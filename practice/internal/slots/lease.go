package slots

import (
	"time"

	"boxmaker/practice/internal/tokenizer"
)

// A Lease is one request's hold on one slot. Its methods are for that request's
// goroutine alone.
type Lease struct {
	pool *Pool
	id   int
}

// ID is the slot's number.
func (l *Lease) ID() int { return l.id }

// slot locks the pool and gives the slot; the caller unlocks.
func (l *Lease) slot() *slot {
	l.pool.mu.Lock()
	return l.pool.slots[l.id]
}

func (l *Lease) unlock() { l.pool.mu.Unlock() }

// Begin cuts the slot back to what it shares with the prompt and returns that
// number of tokens; the whole prompt counts as all but its last token. With
// cache false nothing is kept.
func (l *Lease) Begin(prompt []tokenizer.Token, cache bool) (cached int) {
	s := l.slot()
	defer l.unlock()
	if cache {
		cached = common(s.tokens, prompt)
	}
	if cached == len(prompt) && cached > 0 {
		cached--
	}
	s.tokens = s.tokens[:cached]
	s.state.Prompt, s.state.Cached = len(prompt), cached
	l.pool.stats.CachedTokens += int64(cached)
	return cached
}

// RollBack is what a request does to a slot whose client went away before its
// turn came: the slot keeps only what the prompt shares with it.
func (l *Lease) RollBack(prompt []tokenizer.Token) {
	s := l.slot()
	defer l.unlock()
	s.tokens = s.tokens[:common(s.tokens, prompt)]
}

// Process adds tokens of the prompt that have been processed.
func (l *Lease) Process(batch []tokenizer.Token) {
	s := l.slot()
	defer l.unlock()
	s.tokens = append(s.tokens, batch...)
	s.state.Processed += len(batch)
	l.pool.stats.PromptTokens += int64(len(batch))
	l.pool.stats.Decodes++
	l.largest(s)
}

// Generated says that there are now n generated tokens, the last of which is
// not in the slot yet: before holds the others that are new.
func (l *Lease) Generated(before []tokenizer.Token, n, remain int) {
	s := l.slot()
	defer l.unlock()
	s.tokens = append(s.tokens, before...)
	s.state.Prompt += n - s.state.Decoded
	s.state.Decoded, s.state.Remain = n, remain
	l.pool.stats.PredictedTokens++
	l.pool.stats.Decodes++
	l.largest(s)
}

// largest is called with mu held.
func (l *Lease) largest(s *slot) {
	l.pool.stats.Largest = max(l.pool.stats.Largest, int64(len(s.tokens)))
}

// Show sets what /slots says of the request's own settings.
func (l *Lease) Show(maxTokens int, stream bool, sampling map[string]float64) {
	s := l.slot()
	defer l.unlock()
	s.state.MaxTokens, s.state.Stream, s.state.Sampling = maxTokens, stream, sampling
}

// Spent adds the time that the request took.
func (l *Lease) Spent(prompt, predicted time.Duration) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.stats.PromptTime += prompt
	l.pool.stats.PredictedTime += predicted
}

// Evict empties the slot and says how many tokens it held.
func (l *Lease) Evict() int {
	s := l.slot()
	defer l.unlock()
	n := len(s.tokens)
	s.tokens = nil
	return n
}

// Release gives the slot back. The lease is of no use afterwards.
func (l *Lease) Release() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.release(l.id)
}
