package bridge

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
)

// The disk is full: that ends the bot, with nothing lost of what it promised.
func TestDiskFullInTheQueue(t *testing.T) {
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	r := newRig(t)
	stop := r.start()
	first := r.ask("", "first")
	r.one(first)
	_ = stop()
	end, stop := r.boot()
	r.until("it is there", func() bool { return r.run.Checks()[0].State == "ok" })
	small := limit
	small.Cur = 100
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	second := r.ask("", "second")
	var err error
	select {
	case err = <-end:
	case <-time.After(patience):
	}
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if !errors.Is(err, appendlog.ErrBroken) || !strings.Contains(err.Error(), "see runbook: disk-full") {
		t.Fatalf("a full disk gives %v", err)
	}
	end <- err
	_ = stop()
	r.start()
	r.one(first, second)
}

// A desk that cannot note an answer of the owner ends the bot: it was not taken.
func TestADeskThatFails(t *testing.T) {
	r := newRig(t)
	no := errors.New("the disk")
	r.desk.fail = no
	end, stop := r.boot()
	r.until("it is there", func() bool { return r.run.Checks()[0].State == "ok" })
	p := r.ask("", "approve K7M4PX")
	select {
	case err := <-end:
		if !errors.Is(err, no) {
			t.Error(err)
		}
		end <- err
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	_ = stop()
	r.desk.fail = nil
	r.start()
	r.until("it is taken then", func() bool {
		r.desk.mu.Lock()
		defer r.desk.mu.Unlock()
		return slices.Equal(r.desk.said, []string{p.ID})
	})
}

// New settings end the bot before it hears anybody by the old ones.
func TestNewSettingsEndIt(t *testing.T) {
	r := newRig(t)
	var changed atomic.Bool
	r.changed = changed.Load
	end, stop := r.boot()
	r.until("it is there", func() bool { return r.run.Checks()[0].State == "ok" })
	changed.Store(true)
	p := r.ask("", "hello")
	err := <-end
	if !errors.Is(err, ErrChanged) || len(r.said(p.ID)) != 0 {
		t.Errorf("%v, %q", err, r.said(p.ID))
	}
	end <- err
	_ = stop()
	changed.Store(false)
	r.start()
	r.one(p)
}
