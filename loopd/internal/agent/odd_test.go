package agent

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"boxmaker/internal/frame"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"
)

// TestAnAnswerThatNoRecordHolds: text that grows beyond a line of the log when it
// is encoded ends the turn, and neither the session nor loopd.
func TestAnAnswerThatNoRecordHolds(t *testing.T) {
	for _, tc := range []struct {
		name string
		cut  bool
	}{{"whole", false}, {"cut off", true}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t).start()
			var mended atomic.Bool
			r.llm.On(func(_ int, _ []byte, s *testkit.Stream) {
				if mended.Load() {
					s.Answer("ok")
					return
				}
				s.Role()
				for range 30 { // 1.8 MiB that JSON makes 11 MiB of
					s.Raw(`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat(`\u0001`, 30<<10) +
						`","reasoning_content":"` + strings.Repeat(`\u0002`, 30<<10) + `"}}]}` + "\n\n")
				}
				if tc.cut {
					s.Cut()
				}
				s.Finish("stop")
				s.TrueUsage()
				s.Done()
			})
			s, ctx := r.submit("chat-a", "o1", "go"), t.Context()
			for ended := false; !ended; {
				all, err := s.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range all {
					b, err := proto.Encode(m)
					if err != nil || len(b) > frame.MaxBytes {
						t.Fatalf("%s of %d bytes (%v)", m.Tag(), len(b), err)
					}
					if ended = proto.Terminal(m); ended {
						if d, ok := m.(*proto.Done); !ok || d.Outcome != proto.TurnFailed {
							t.Fatalf("%#v", m)
						}
					}
				}
			}
			for _, rec := range r.records("chat-a") {
				if inc, ok := rec.(*proto.Incomplete); ok && (inc.Text == "" || inc.Thinking == "") {
					t.Error("nothing is kept")
				}
			}
			mended.Store(true)
			r.say("chat-a", "o2", "and on")
		})
	}
}

func TestBoundsAreInclusive(t *testing.T) {
	if err := checkText("1234", 4); err != nil {
		t.Error(err)
	}
	if err := checkText("12345", 4); code(err) != proto.ErrMessageLarge {
		t.Error(err)
	}
	// Of a prompt that is shorter than what was there, only that much can be lost.
	recs := (&Agent{}).outcome(t.Context(), llama.Completion{Content: "x", Timings: llama.Timings{PromptN: 500, CacheN: 100}}, nil, 1000, 0)
	if got := recs[0].(*proto.Completion).Lost; got != 500 {
		t.Errorf("lost %d", got)
	}
}

// TestResultsShareTheRoomThatIsLeft: many calls in one message near the end of the
// window do not each take what there is for one.
func TestResultsShareTheRoomThatIsLeft(t *testing.T) {
	r := newRig(t)
	r.window = 32 << 10
	r.start()
	r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic, Text: strings.Repeat("z", 100<<10)}
	})
	const used, calls = 20 << 10, 8
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n > 0 {
			s.Answer("ok")
			return
		}
		s.Role()
		for i := range calls {
			s.Call(i, fmt.Sprint("id", i), "call_tool", callTool("t", fmt.Sprintf(`{"n":%d}`, i)))
		}
		s.Finish("tool_calls")
		s.Usage(0, used-100, 100)
		s.Done()
	})
	r.say("chat-a", "o1", "go")
	total := 0
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok {
			total += len(tool.Message)
		}
	}
	if left := int(r.window) - used; total > left+calls*minRoom || total < left/2 {
		t.Errorf("results of %d bytes where %d tokens are left", total, left)
	}
}

// TestWhatANewEpochTakesOver: cut between runes, and with nothing that a template
// could take for its own.
func TestWhatANewEpochTakesOver(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		switch n {
		case 0:
			s.Answer("<|im_start|>system " + strings.Repeat("☃", 1000))
		case 1:
			s.Overflow(40000, 32768)
		default:
			s.Answer("ok")
		}
	})
	r.say("chat-a", "o1", "first")
	r.done(r.submit("chat-a", "o2", strings.Repeat("ä☃", 1000)))
	r.say("chat-a", "o3", "third")
	for _, rec := range r.records("chat-a") {
		b, ok := rec.(*proto.Baseline)
		if !ok || len(b.Carry) == 0 {
			continue
		}
		text, err := prompt.ParseUser(b.Carry[0])
		if err != nil || strings.ContainsRune(text, utf8.RuneError) || strings.Contains(text, "<|im_start|>") || !strings.Contains(text, "☃ […]") {
			t.Errorf("%v: %s", err, text)
		}
		return
	}
	t.Error("nothing was taken over")
}

// TestAClockThatGoesBack: no record is refused for it.
func TestAClockThatGoesBack(t *testing.T) {
	r := newRig(t).start()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { now = now.Add(-time.Hour); return now }
	r.agent.cfg.Now, r.store.Now = clock, clock
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id", "clock", "{}")
			return
		}
		s.Answer("ok")
	})
	r.say("chat-a", "o1", "go")
}

// TestFiguresOfALyingServer: absurd numbers of the server reach nobody as an event
// that cannot be sent.
func TestFiguresOfALyingServer(t *testing.T) {
	r := newRig(t).start()
	r.llm.On(func(_ int, _ []byte, s *testkit.Stream) {
		s.Role()
		s.Text("ok")
		s.Finish("stop")
		s.Data(`{"choices":[],"timings":{"cache_n":0,"prompt_n":9223372036854775807,"prompt_ms":1e300,"predicted_n":9223372036854775807,"predicted_ms":1e300}}`)
		s.Done()
	})
	for i := range 3 {
		_, all := r.done(r.submit("chat-a", fmt.Sprint("o", i), "go"))
		for _, m := range all {
			if _, err := proto.Encode(m); err != nil {
				t.Errorf("turn %d: %v", i, err)
			}
		}
	}
}

// TestANewEpochIsTold: a second epoch with its reason, and the first one not, also
// if a crash came between its baseline and its message.
func TestANewEpochIsTold(t *testing.T) {
	r := newRig(t).start()
	_, all := r.done(r.submit("chat-a", "o1", "hi"))
	if has(all, notice(proto.NoticeNewEpoch)) {
		t.Error("told of the first epoch")
	}
	r.kill()
	raw, err := os.ReadFile(sessionFile(r, "chat-a", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sessionFile(r, "chat-a", 1), raw[:bytes.IndexByte(raw, '\n')+1], 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	if _, all := r.done(r.submit("chat-a", "o1", "hi")); has(all, notice(proto.NoticeNewEpoch)) {
		t.Error("told of the first epoch after a crash")
	}
}

// TestASlotThatTheServerNoLongerHas: it would let each request wait for ever, so the
// session goes on in an epoch of its own on a slot that there is.
func TestASlotThatTheServerNoLongerHas(t *testing.T) {
	r := newRig(t)
	r.set.Slots.Main, r.slots = 5, 6
	r.start()
	r.say("chat-a", "o1", "one")
	r.kill()
	r.set.Slots.Main = 0
	r.start()
	r.say("chat-a", "o2", "the old slot is still there")
	r.kill()
	r.slots = 3
	r.start()
	_, all := r.done(r.submit("chat-a", "o3", "now it is gone"))
	if !has(all, func(m proto.Message) bool {
		n, ok := m.(*proto.Notice)
		return ok && n.Kind == proto.NoticeNewEpoch && strings.Contains(n.Text, "slot 5")
	}) {
		t.Error(names(all))
	}
	for i, want := range []string{`"id_slot":5`, `"id_slot":5`, `"id_slot":0`} {
		if !bytes.Contains(r.llm.Bodies()[i], []byte(want)) {
			t.Errorf("request %d has no %s", i, want)
		}
	}
}

// TestAnHonestErrorAlwaysFits: even where the window has no room left.
func TestAnHonestErrorAlwaysFits(t *testing.T) {
	r := newRig(t)
	r.window = 1000
	r.start()
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n > 0 {
			s.Answer("ok")
			return
		}
		s.Role()
		s.Call(0, "a", "nonsense", "{}")
		s.Finish("tool_calls")
		s.Usage(0, 990, 9)
		s.Done()
	})
	r.say("chat-a", "o1", "go")
	if _, text, err := prompt.ParseTool(toolMessage(t, r)); err != nil || !strings.Contains(text, "run them with call_tool") {
		t.Errorf("%q %v", text, err)
	}
}

// TestWhatIsDroppedIsCounted: by the tool, and by the cap.
func TestWhatIsDroppedIsCounted(t *testing.T) {
	r := newRig(t)
	r.set.Limits.Result = 2 << 10
	r.start()
	r.broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic, Text: strings.Repeat("z", 4<<10), Dropped: 1 << 20}
	})
	r.llm.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 0 {
			s.CallTool("id", "call_tool", callTool("t", "{}"))
			return
		}
		s.Answer("ok")
	})
	r.say("chat-a", "o1", "go")
	for _, rec := range r.records("chat-a") {
		if tool, ok := rec.(*proto.Tool); ok && tool.Dropped < 1<<20+2<<10 {
			t.Errorf("%d bytes dropped", tool.Dropped)
		}
	}
}
