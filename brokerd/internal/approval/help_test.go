package approval

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/proto"
)

// A bench is a desk with clocks that a test can set.
type bench struct {
	t    *testing.T
	dir  string
	desk *Desk

	mu   sync.Mutex    // guards what follows
	skew time.Duration // of the owner's clock
	boot string
	born time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), boot: "boot-1", born: time.Now()}
	b.restart(time.Time{})
	return b
}

func (b *bench) clock() Clock {
	return Clock{
		Now: func() time.Time {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.skew != 0 { // a set clock: the monotonic reading goes on
				return time.Now().Round(0).Add(b.skew)
			}
			return time.Now()
		},
		Boot: func() (string, time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.boot, time.Since(b.born)
		},
	}
}

// sleep is an hour in which only the time since boot went on.
func (b *bench) sleep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.born = b.born.Add(-time.Hour)
}

func (b *bench) restart(floor time.Time) []string {
	b.t.Helper()
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { root.Close() })
	ended := map[string]proto.Answered{}
	if b.desk != nil {
		ended = b.desk.ended
	}
	d, bad, err := Open(Config{Root: root, Clock: b.clock(), Floor: floor, Most: 3, Ended: ended})
	if err != nil {
		b.t.Fatal(err)
	}
	b.desk = d
	return bad
}

func (b *bench) hold(call string) *Held {
	b.t.Helper()
	h, err := b.tryHold(call, "x")
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) tryHold(call, value string) (*Held, error) {
	now := time.Now().Add(b.skew)
	return b.desk.Hold(proto.Approval{
		Approval: NewID(), Asked: proto.Time(now), Expires: proto.Time(now.Add(15 * time.Minute)),
		Call: call, Session: "s", Tool: "write_file", Fields: []proto.Field{{Name: "content", Value: value}},
		Read: []string{}, Write: []string{"/w"}, Hosts: []string{}, Secrets: []string{},
		Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "10-write.toml",
	}, proto.Call{ID: call, Session: "s", Tool: "write_file", Args: `{}`}, "canonical of "+call, "")
}

func (b *bench) answer(h *Held, v proto.Verdict, by string) (*proto.Answered, error) {
	return b.desk.Answer(context.Background(), &proto.Answer{Approval: h.Approval.Approval, Digest: h.Approval.Digest, Verdict: v, Channel: "cli"}, by)
}

// settle waits for the end as the driver of a call does, and settles it.
func (b *bench) settle(h *Held) chan proto.Verdict {
	got := make(chan proto.Verdict, 1)
	go func() {
		end, err := b.desk.Wait(context.Background(), h.Approval.Approval)
		if err == nil {
			err = b.desk.Settled(end)
		}
		if err != nil {
			b.t.Error(err)
		}
		got <- end.Verdict
	}()
	return got
}

func code(err error) proto.ErrCode {
	var e *proto.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
