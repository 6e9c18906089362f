package boot

import (
	"cmp"
	"context"
	"sync"
	"time"

	"boxmaker/internal/proto"
)

// A Look asks a part outside brokerd how it is.
type Look struct {
	Name string // of the row that stands while nothing is known
	Ask  func(ctx context.Context) []proto.Check
	Each time.Duration // how old its rows may get; 0: lookEach
	Most time.Duration // how long an answer may take; 0: lookTime
}

const (
	// lookEach is how old rows may get. A container is tried by runnerd for them,
	// so they are not asked for with each status.
	lookEach = 30 * time.Second
	lookTime = 15 * time.Second
	// eager is how soon a part is asked again that was not well.
	eager = 2 * time.Second
)

// health keeps rows of the status that take time to get.
type health struct {
	looks []Look
	now   func() time.Time

	mu   sync.Mutex
	rows [][]proto.Check // guarded by mu
}

func newHealth(looks []Look, now func() time.Time) *health {
	h := &health{looks: looks, now: now, rows: make([][]proto.Check, len(looks))}
	for i, l := range looks {
		h.rows[i] = []proto.Check{{Name: l.Name, State: "pending", Detail: "not asked yet"}}
	}
	return h
}

// watch asks until ctx ends.
func (h *health) watch(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range h.looks {
		wg.Go(func() {
			for ctx.Err() == nil {
				pause := time.After(h.look(ctx, i))
				select {
				case <-pause:
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
}

// look asks one part and says when to ask again.
func (h *health) look(ctx context.Context, i int) time.Duration {
	asking, cancel := context.WithTimeout(ctx, cmp.Or(h.looks[i].Most, lookTime))
	defer cancel()
	rows := h.looks[i].Ask(asking)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows[i] = rows
	for _, r := range rows {
		if r.State != "ok" && r.State != "skipped" {
			return eager
		}
	}
	return cmp.Or(h.looks[i].Each, lookEach)
}

func (h *health) checks() []proto.Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []proto.Check
	for _, rows := range h.rows {
		all = append(all, rows...)
	}
	return all
}
