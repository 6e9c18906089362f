package forward

import (
	"context"
	"time"
)

// A bucket holds up to rate tokens and gains rate tokens a second. It is used
// by one goroutine.
type bucket struct {
	rate, tokens float64
	last         time.Time
}

func newBucket(rate float64) *bucket {
	return &bucket{rate: rate, tokens: max(rate, 1), last: time.Now()}
}

// take waits for a token; it reports false if ctx ends first.
func (b *bucket) take(ctx context.Context) bool {
	now := time.Now()
	b.tokens = min(max(b.rate, 1), b.tokens+b.rate*now.Sub(b.last).Seconds())
	b.last = now
	b.tokens--
	if b.tokens >= 0 {
		return ctx.Err() == nil
	}
	return pause(ctx, time.Duration(-b.tokens/b.rate*float64(time.Second)))
}

// pause waits; it reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
