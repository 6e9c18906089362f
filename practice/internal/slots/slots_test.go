package slots

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"boxmaker/practice/internal/tokenizer"
	"pgregory.net/rapid"
)

type toks = []tokenizer.Token

func acquire(t *testing.T, p *Pool, want int, prompt toks) *Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), want, prompt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fill puts tokens into a slot as a request would.
func fill(t *testing.T, p *Pool, id int, prompt toks) {
	t.Helper()
	l := acquire(t, p, id, prompt)
	defer l.Release()
	n := l.Begin(prompt, true)
	l.Process(prompt[n:])
}

func TestBegin(t *testing.T) {
	tests := []struct {
		name         string
		held, prompt toks
		noCache      bool
		want         int
	}{
		{"empty slot", nil, toks{1, 2}, false, 0},
		{"strict extension", toks{1, 2, 3}, toks{1, 2, 3, 4, 5}, false, 3},
		{"the same again: one token is processed", toks{1, 2, 3}, toks{1, 2, 3}, false, 2},
		{"shorter", toks{1, 2, 3}, toks{1, 2}, false, 1},
		{"changed early", toks{1, 2, 3}, toks{1, 9, 3, 4}, false, 1},
		{"nothing in common", toks{1, 2}, toks{7, 8}, false, 0},
		{"cache_prompt false", toks{1, 2}, toks{1, 2, 3}, true, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := New(1, 100)
			if len(tc.held) > 0 {
				fill(t, p, 0, tc.held)
			}
			l := acquire(t, p, 0, tc.prompt)
			if got := l.Begin(tc.prompt, !tc.noCache); got != tc.want {
				t.Errorf("cached %d, want %d", got, tc.want)
			}
			if got := p.Held(0); got != tc.want {
				t.Errorf("the slot holds %d tokens, want %d", got, tc.want)
			}
		})
	}
}

// Whatever is sent, the cached part is the longest common prefix with the last
// prompt of that slot, and other slots do not matter.
func TestCacheIsTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := New(3, 1000)
		held := make([]toks, 3)
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			id := rapid.IntRange(0, 2).Draw(rt, "slot")
			prompt := append(toks{}, held[id][:rapid.IntRange(0, len(held[id])).Draw(rt, "kept")]...)
			for range rapid.IntRange(1, 5).Draw(rt, "new") {
				prompt = append(prompt, tokenizer.Token(rapid.IntRange(0, 2).Draw(rt, "token")))
			}
			want := min(common(held[id], prompt), len(prompt)-1)
			l := acquire(t, p, id, prompt)
			if got := l.Begin(prompt, true); got != want {
				rt.Fatalf("slot %d: cached %d, want %d", id, got, want)
			}
			l.Process(prompt[want:])
			l.Release()
			held[id] = prompt
		}
	})
}

func TestChooseSlot(t *testing.T) {
	p := New(3, 100)
	fill(t, p, 0, toks{1, 2, 3, 4})
	fill(t, p, 1, toks{5, 6, 7, 8})
	tests := []struct {
		name   string
		want   int
		prompt toks
		got    int
	}{
		{"named", 1, toks{1, 2, 3}, 1},
		{"unknown takes the most similar", 99, toks{5, 6, 9}, 1},
		{"none takes the most similar", -1, toks{1, 2, 9}, 0},
		{"nothing similar takes the least recently used", -1, toks{9}, 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := acquire(t, p, tc.want, tc.prompt)
			defer l.Release()
			if l.ID() != tc.got {
				t.Errorf("got slot %d, want %d", l.ID(), tc.got)
			}
		})
	}
}

// A busy slot is given on in the order of asking; one who wants any slot gets
// the first that is free.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2, 100)
		a, b := acquire(t, p, 0, nil), acquire(t, p, 1, nil)
		order := make(chan string, 3)
		wait := func(name string, want int) {
			go func() {
				l, err := p.Acquire(t.Context(), want, nil)
				if err != nil {
					t.Error(err)
					return
				}
				order <- name
				l.Release()
			}()
			synctest.Wait()
		}
		wait("first on 0", 0)
		wait("second on 0", 0)
		wait("any", -1)
		if st := p.Stats(); st.Deferred != 3 || st.Processing != 2 {
			t.Errorf("stats %+v", st)
		}
		b.Release()
		synctest.Wait()
		if got := <-order; got != "any" {
			t.Errorf("after slot 1 was free %q ran", got)
		}
		a.Release()
		if got := <-order; got != "first on 0" {
			t.Errorf("after slot 0 was free %q ran first", got)
		}
		if got := <-order; got != "second on 0" {
			t.Errorf("then %q", got)
		}
	})
}

func TestLeaveTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1, 100)
		a := acquire(t, p, 0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := p.Acquire(ctx, 0, nil)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		a.Release()
		acquire(t, p, 0, nil).Release() // would hang if the slot had been given to the one who left
	})
}

func TestRollBackEvictErase(t *testing.T) {
	p := New(2, 100)
	fill(t, p, 0, toks{1, 2, 3, 4})
	l := acquire(t, p, 0, nil)
	l.RollBack(toks{1, 2, 9})
	if got := p.Held(0); got != 2 {
		t.Errorf("after a roll back the slot holds %d", got)
	}
	if got := l.Evict(); got != 2 || p.Held(0) != 0 {
		t.Errorf("evicted %d, left %d", got, p.Held(0))
	}
	l.Release()
	fill(t, p, 1, toks{1, 2, 3})
	for _, tc := range []struct{ id, want int }{{1, 3}, {1, 0}, {9, 0}, {-1, 0}} {
		if got, err := p.Erase(t.Context(), tc.id); err != nil || got != tc.want {
			t.Errorf("Erase(%d) = %d, %v; want %d", tc.id, got, err, tc.want)
		}
	}
}
