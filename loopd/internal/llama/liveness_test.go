package llama

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// bubble runs f against a scripted server under a fake clock and gives the
// chat's outcome and how long it took.
func bubble(t *testing.T, serve func(s *testkit.Stream), check func(o outcome, took time.Duration, l *testkit.Llama)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		l.On(func(_ int, _ []byte, s *testkit.Stream) { serve(s) })
		start := time.Now()
		o := chatOnce(t, newClient(l, Limits{}))
		check(o, time.Since(start), l)
	})
}

func TestCase_P14_SlowFirstByteThenProgress(t *testing.T) {
	bubble(t, func(s *testkit.Stream) {
		time.Sleep(90 * time.Second)
		for i := range 5 {
			s.Progress(27000, 0, i*5400, i*7000)
			time.Sleep(7 * time.Second)
		}
		s.Answer("here")
	}, func(o outcome, took time.Duration, _ *testkit.Llama) {
		o.want(t, "", false)
		if o.count(Queued{}) != 1 || o.count(Progress{}) != 7 || took != 125*time.Second {
			t.Errorf("took %v, events %v", took, o.events)
		}
		if p, ok := o.events[2].(Progress); !ok || p != (Progress{Total: 27000, Processed: 5400, MS: 7000}) {
			t.Errorf("second progress %+v", o.events[2])
		}
	})
}

func TestCase_P15_TwoMinutesOfPromptProcessing(t *testing.T) {
	bubble(t, func(s *testkit.Stream) {
		for i := range 6 {
			s.Progress(100000, 0, i*16000, i*20000)
			time.Sleep(20 * time.Second)
		}
		s.Answer("here")
	}, func(o outcome, took time.Duration, l *testkit.Llama) {
		o.want(t, "", false)
		if took != 2*time.Minute || len(l.Bodies()) != 1 {
			t.Errorf("took %v, %d requests", took, len(l.Bodies()))
		}
	})
}

func TestCase_P16_SixMinutesOfDrip(t *testing.T) {
	bubble(t, func(s *testkit.Stream) {
		s.Role()
		for range 18 {
			time.Sleep(20 * time.Second)
			s.Text("x")
		}
		s.Finish("stop")
		s.TrueUsage()
		s.Done()
	}, func(o outcome, took time.Duration, _ *testkit.Llama) {
		o.want(t, "", false)
		if took != 6*time.Minute || len(o.shown()) != 18 || o.got.First != 20*time.Second {
			t.Errorf("took %v, shown %q, first after %v", took, o.shown(), o.got.First)
		}
	})
}

func TestCase_P17_NothingButReasoningForLong(t *testing.T) {
	bubble(t, func(s *testkit.Stream) {
		s.Role()
		for range 40 {
			time.Sleep(25 * time.Second)
			s.Reasoning("hm ")
		}
		s.Text("so.")
		s.Finish("stop")
		s.Done()
	}, func(o outcome, took time.Duration, _ *testkit.Llama) {
		o.want(t, "", false)
		if took != 1000*time.Second || o.count(Reasoning{}) != 40 {
			t.Errorf("took %v", took)
		}
	})
}

func TestSignsOfLife(t *testing.T) {
	signs := map[string]func(s *testkit.Stream){
		"pings":           func(s *testkit.Stream) { s.Ping() },
		"half an event":   func(s *testkit.Stream) { s.Raw("id") },
		"the head":        func(s *testkit.Stream) { s.Head() },
		"skipped fields":  func(s *testkit.Stream) { s.Raw("event: x\n\n") },
		"empty choices":   func(s *testkit.Stream) { s.Data(`{"choices":[]}`) },
		"call fragments":  func(s *testkit.Stream) { s.Call(0, "a", "f", "{") },
		"byte by byte":    func(s *testkit.Stream) { s.Raw("\n") },
		"repeated role":   func(s *testkit.Stream) { s.Role() },
		"prompt progress": func(s *testkit.Stream) { s.Progress(2, 1, 1, 1) },
	}
	for name, sign := range signs {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *testkit.Stream) {
				time.Sleep(9 * time.Minute)
				sign(s)
				time.Sleep(29 * time.Second)
				s.Ping()
				s.Hang()
			}, func(o outcome, took time.Duration, _ *testkit.Llama) {
				o.want(t, proto.WhyStalled, false)
				if want := 9*time.Minute + 59*time.Second; took != want {
					t.Errorf("stalled after %v, want %v: %v", took, want, o.err)
				}
			})
		})
	}
}

func TestFault_NoFirstByte(t *testing.T) {
	bubble(t, func(s *testkit.Stream) { s.Hang() }, func(o outcome, took time.Duration, l *testkit.Llama) {
		o.want(t, proto.WhyStalled, false)
		if took != 10*time.Minute || o.err.Message != "no answer within 10m0s" || len(l.Bodies()) != 1 {
			t.Errorf("after %v: %v", took, o.err)
		}
	})
}

func TestFault_StallKeepsThePartialText(t *testing.T) {
	bubble(t, func(s *testkit.Stream) {
		s.Reasoning("let me ")
		s.Text("It is ")
		s.Call(0, "a", "f", `{"x"`)
		s.Hang()
	}, func(o outcome, took time.Duration, _ *testkit.Llama) {
		o.want(t, proto.WhyStalled, false)
		if took != 30*time.Second || o.got.Complete || o.got.Finish != "" || o.got.Content != "It is " || o.got.Reasoning != "let me " || len(o.got.Calls) != 1 {
			t.Errorf("after %v: %+v", took, o.got)
		}
	})
}

// A server that takes the connection and never reads.
func TestFault_RequestNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		o := chatOnce(t, New(Config{Dial: unread}))
		o.want(t, proto.WhyStalled, false)
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("after %v: %v", took, o.err)
		}
	})
}

func TestCancelClosesTheStreamAtOnce(t *testing.T) {
	stages := map[string]func(s *testkit.Stream, reached func()){
		"before the first byte": func(s *testkit.Stream, reached func()) { reached() },
		"in the prompt":         func(s *testkit.Stream, reached func()) { s.Progress(9, 0, 1, 1); reached() },
		"in the answer":         func(s *testkit.Stream, reached func()) { s.Text("a"); reached() },
	}
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.NewMemoryLlama(t)
				owner := errors.New("the owner typed /stop")
				ctx, cancel := context.WithCancelCause(t.Context())
				gone := make(chan struct{})
				l.On(func(_ int, _ []byte, s *testkit.Stream) {
					stage(s, func() { time.AfterFunc(time.Second, func() { cancel(owner) }) })
					<-s.Gone()
					close(gone)
				})
				start := time.Now()
				o := chatWith(t, ctx, newClient(l, Limits{}))
				<-gone
				o.want(t, proto.WhyStopped, false)
				if took := time.Since(start); took != time.Second || !errors.Is(o.err, owner) {
					t.Errorf("after %v: %v", took, o.err)
				}
			})
		})
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	waits := map[string]func(l *testkit.Llama) *Client{
		"for the model":  func(l *testkit.Llama) *Client { l.Loading(-1); return newClient(l, Limits{}) },
		"for the server": func(l *testkit.Llama) *Client { l.Close(); return newClient(l, Limits{}) },
	}
	for name, make := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
				defer cancel()
				start := time.Now()
				o := chatWith(t, ctx, make(testkit.NewMemoryLlama(t)))
				o.want(t, proto.WhyStopped, false)
				if took := time.Since(start); took != 7*time.Second || !errors.Is(o.err, context.DeadlineExceeded) {
					t.Errorf("after %v: %v", took, o.err)
				}
			})
		})
	}
}

func TestCancelledBefore(t *testing.T) {
	l := testkit.NewLlama(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := chatWith(t, ctx, newClient(l, Limits{}))
	o.want(t, proto.WhyStopped, false)
	if n := len(l.Bodies()); n != 0 {
		t.Errorf("%d requests", n)
	}
}
