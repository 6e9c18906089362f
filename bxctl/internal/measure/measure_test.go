package measure

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/measure/api"
)

func clock() func() time.Time {
	return func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func verdict(points []Contract, start string) Contract {
	for _, p := range points {
		if strings.HasPrefix(p.Point, start) {
			return p
		}
	}
	return Contract{}
}

// Each fault of a server is seen, under the point of the contract that it breaks,
// with what to do; nothing else is called broken.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		fake    *fake
		point   string
		verdict Verdict
		seen    string
	}{
		{"a good server", &fake{}, "4 a later", Kept, "turn 2 reused"},
		{"no cache", &fake{noCache: true}, "4 a later", Broken, "turn 2 reused 0 of"},
		{"answers read again", &fake{forgets: true}, "4 a later", Doubt, "turn 2 reused"},
		{"no cache on the slot", &fake{noCache: true}, "7 a request stays", Broken, "a second turn reused 0 of"},
		{"another slot is used", &fake{wrongSlot: true}, "7 a request stays", Doubt, "slots [2] were seen at work, ours is 1"},
		{"another slot is touched", &fake{touches: true}, "7 other slots", Doubt, "slots [0] held something else"},
		{"the cap is ignored", &fake{noCap: true}, "9 the cap", Broken, "at most 60 tokens"},
		{"no thinking", &fake{noThought: true}, "9 the cap", Unclear, "did not think"},
		{"calls as text", &fake{markup: true}, "5 tool calls", Broken, "0 of 8 trials gave a call that parses; 0 called the tool that was asked for, 0 with the very arguments; in 8"},
		{"the wrong tool", &fake{wrongTool: true}, "5 tool calls", Doubt, "8 of 8 trials gave a call that parses; 2 called"},
		{"thinking dropped", &fake{drops: true}, "3 thinking", Doubt, "drops earlier thinking"},
		{"thinking dropped, rendering", &fake{drops: true}, "2 requests", Broken, "parts from the one before"},
		{"a template without tools", &fake{refuses: true}, "2 requests", Broken, "no tools please"},
		{"no progress", &fake{silent: true}, "8 the server shows", Doubt, "requests had none"},
		{"a small window", &fake{window: 9000}, "10 window", Broken, "3 slots of 9000"},
		{"a middling window", &fake{window: 16000}, "10 window", Doubt, "3 slots of 16000"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := c.fake
			res, err := Run(t.Context(), f.start(t))
			must(t, err)
			points := res.Judge(8192)
			p := verdict(points, c.point)
			if p.Verdict != c.verdict || !strings.Contains(p.Seen, c.seen) {
				t.Errorf("%s: %+v", p.Point, p)
			}
			for _, p := range points {
				if (p.Verdict == Broken || p.Verdict == Doubt) && p.Do == "" {
					t.Errorf("nothing to do: %+v", p)
				}
				if c.name == "a good server" && p.Verdict != Kept && p.Verdict != Unclear {
					t.Errorf("of a good server: %+v", p)
				}
			}
			if text := res.Markdown(8192); !strings.Contains(text, "context  = ") || strings.Count(text, "\n| ") < 30 {
				t.Errorf("report:\n%s", text)
			}
		})
	}
}

func TestFigures(t *testing.T) {
	f := &fake{}
	res, err := Run(t.Context(), f.start(t))
	must(t, err)
	if d := res.Depth; len(d.Points) != 3 || d.Points[0].At != 0 || d.Points[2].At < 7000 || d.Points[2].At > 9000 || d.Points[1].Prompt != 1000 || d.Points[1].Generate != 100 {
		t.Errorf("depth %+v", d)
	}
	rows := res.Cache.Rows
	for i := 1; i <= 2; i++ {
		if !rows[i].Exact || rows[i].Before != rows[i-1].CacheN+rows[i-1].PromptN+rows[i-1].GenN || rows[i].CacheN != rows[i].Before-1 {
			t.Errorf("row %d: %+v", i, rows[i])
		}
	}
	if len(rows) != 8 || rows[7].CacheN > 200 || rows[6].CacheN >= rows[5].PromptN+rows[5].CacheN-1 {
		t.Errorf("rows %+v", rows)
	}
	if res.Expect() != "[expect]\ncontext  = 40000\nslots    = 3\ntemplate = \"e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8\"\nbuild    = \"b11669\"\n" {
		t.Error(res.Expect())
	}
	// Only the background slot was used.
	if f.slots[0].last != 0 || f.slots[2].last != 0 {
		t.Errorf("slots %d, %d", f.slots[0].last, f.slots[2].last)
	}
}

// The window bounds the depth; nothing is ever asked for that does not fit.
func TestSmallWindow(t *testing.T) {
	res, err := Run(t.Context(), (&fake{window: 4096}).start(t))
	must(t, err)
	for _, p := range res.Depth.Points {
		if p.At+p.PromptN+p.Predicted > 4096 {
			t.Errorf("%+v", p)
		}
	}
	if res.Depth.Bounded == "" {
		t.Error("not told")
	}
}

// A server that goes away, and an interrupt, leave what was measured; the next
// run measures only the rest. --fresh begins anew.
func TestResume(t *testing.T) {
	f := &fake{dies: 16}
	o := f.start(t)
	res, err := Run(t.Context(), o)
	if err == nil || res == nil || res.Cache == nil || res.Tools == nil || res.Tools.Complete {
		t.Fatalf("%v, %d requests, %+v", err, f.chats, res.Tools)
	}
	trials, rows := len(res.Tools.Trials), res.Cache.Rows
	f.mu.Lock()
	f.dies = 0
	chats := f.chats
	f.mu.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	o.Tell = func(s string) {
		if strings.Contains(s, "trial 8") {
			cancel(stop)
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, stop) {
		t.Fatalf("%v", err)
	}
	saved, err := Read(o.State)
	must(t, err)
	if n := len(saved.Tools.Trials); n != trials+1 {
		t.Errorf("%d trials, then %d", trials, n)
	}
	o.Tell = nil
	res, err = Run(t.Context(), o)
	must(t, err)
	if !res.Tools.Complete || len(res.Tools.Trials) != 8 || res.Depth == nil || res.Ended.IsZero() || !slices.Equal(res.Cache.Rows, rows) {
		t.Errorf("%+v", res)
	}
	seen := 0
	for _, row := range res.Raw {
		if row.Step == "cache" {
			seen++
		}
	}
	if seen != 8 || f.chats <= chats {
		t.Errorf("%d requests of the cache", seen)
	}
	// It is finished: the next run is a new one.
	again, err := Run(t.Context(), o)
	must(t, err)
	if len(again.Raw) == 0 || f.chats < chats+20 {
		t.Error("not measured anew")
	}
}

// Figures of one server are never mixed with those of another.
func TestOtherServer(t *testing.T) {
	f := &fake{dies: 12}
	o := f.start(t)
	if _, err := Run(t.Context(), o); err == nil {
		t.Fatal("it should have died")
	}
	f.mu.Lock()
	f.dies, f.window = 0, 30000
	f.mu.Unlock()
	var told []string
	o.Tell = func(s string) { told = append(told, s) }
	res, err := Run(t.Context(), o)
	must(t, err)
	if res.Server.Window != 30000 || !slices.Contains(told, "an earlier run was of another server: all is measured anew") {
		t.Errorf("%q", told[:2])
	}
	must(t, os.WriteFile(o.State, []byte("{"), 0o600))
	if _, err = Run(t.Context(), o); err != nil {
		t.Errorf("after a broken state: %v", err)
	}
}

// Somebody's work on the slot is evicted only with consent; without it nothing
// is sent.
func TestConsent(t *testing.T) {
	f := &fake{}
	o := f.start(t)
	no := errors.New("no")
	asked := ""
	o.Consent = func(what string) error { asked = what; return no }
	o.User = func(context.Context) string { return "chat-a" }
	if _, err := Run(t.Context(), o); !errors.Is(err, no) || !strings.Contains(asked, "the session chat-a") || !strings.Contains(asked, "evicted") {
		t.Errorf("%v, %q", err, asked)
	}
	o.User = nil
	f.slots[1].busy = true
	if _, err := Run(t.Context(), o); !errors.Is(err, no) || !strings.Contains(asked, "another program") {
		t.Errorf("%v, %q", err, asked)
	}
	if f.chats != 0 {
		t.Errorf("%d completions were asked for", f.chats)
	}
	f.slots[1].busy, f.slots[1].last = false, 700
	told := ""
	o.Note = func(s string) { told += s + "\n" }
	if _, err := Run(t.Context(), o); err != nil || !strings.Contains(told, "slot 1 holds 700 tokens") {
		t.Errorf("%v, %q", err, told)
	}
}

// A router is asked for nothing that would make it load a model, and with that
// unload another.
func TestRouter(t *testing.T) {
	const other = `{"id":"big","status":{"value":"loaded"}}`
	for _, c := range []struct {
		name, models string
		want         []string
	}{
		{"not loaded, another one is", `{"data":[{"id":"m","status":{"value":"unloaded"}},` + other + `]}`, []string{`"m" is unloaded`, "loaded now: big", "load it yourself"}},
		{"by its other name", `{"data":[` + other + `,{"id":"x","aliases":["m"],"status":{"value":"loading"}}]}`, []string{"is loading"}},
		{"nothing loaded", `{"data":[{"id":"m","status":{"value":"unloaded"}}]}`, []string{"no model is loaded now"}},
		{"loaded", `{"data":[{"id":"m","status":{"value":"loaded"}},` + other + `]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{models: c.models}
			o := f.start(t)
			o.Settings.Upstream.Model = "m"
			_, err := Run(t.Context(), o)
			if (err != nil) != (c.want != nil) {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in %v", w, err)
				}
			}
			if c.want != nil && f.chats != 0 {
				t.Errorf("%d completions were asked for", f.chats)
			}
		})
	}
}

// A slot that the server does not have would be ignored without a word.
func TestNoSuchSlot(t *testing.T) {
	o := (&fake{}).start(t)
	o.Settings.Slots.Background = 3
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "slots.background is 3, and the server has 3 slots") {
		t.Errorf("%v", err)
	}
}

func TestJudge(t *testing.T) {
	all := targets()
	call := func(name, args string) *api.Completion {
		return &api.Completion{Finish: "tool_calls", Calls: []api.Call{{ID: "1", Name: name, Arguments: args}}}
	}
	two := call("add", `{"a":17,"b":25}`)
	two.Calls = append(two.Calls, api.Call{Name: "add", Arguments: `{"a":`})
	cut := call("add", `{"a":17,"b":25}`)
	cut.Finish = "length"
	for _, c := range []struct {
		name                          string
		got                           *api.Completion
		err                           error
		parsed, right, exact, markups bool
	}{
		{"the very call", call("add", `{"a":17,"b":25}`), nil, true, true, true, false},
		{"other order and space", call("add", ` { "b": 25, "a": 17 }`), nil, true, true, true, false},
		{"other arguments", call("add", `{"a":1,"b":2}`), nil, true, true, false, false},
		{"another tool", call("clock", `{}`), nil, true, false, false, false},
		{"a tool that was not declared", call("rm", `{}`), nil, false, false, false, false},
		{"no JSON", call("add", `{"a":`), nil, false, false, false, false},
		{"no object", call("add", `[1]`), nil, false, false, false, false},
		{"a key twice", call("add", `{"a":1,"a":2}`), nil, false, false, false, false},
		{"a second call that is cut", two, nil, false, false, false, false},
		{"cut off", cut, nil, false, false, false, false},
		{"none", &api.Completion{Finish: "stop", Content: "I call add"}, nil, false, false, false, false},
		{"as text", &api.Completion{Finish: "stop", Content: "<tool_call>add"}, nil, false, false, false, true},
		{"an error", call("add", `{"a":17,"b":25}`), api.ErrCut, false, false, false, false},
	} {
		got := judge(all[2], all, c.got, c.err)
		if got.Parsed != c.parsed || got.Right != c.right || got.Exact != c.exact || got.Markup != c.markups || (got.Error != "") != (c.err != nil) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestServingFlags(t *testing.T) {
	for _, c := range []struct {
		args   string
		drafts bool
		want   Verdict
	}{
		{"", false, Unclear},
		{"-m x-q4_0.gguf -np 2", false, Kept},
		{"-ctk q8_0 -ctv f16", false, Kept},
		{"--cache-type-k q4_0", false, Doubt},
		{"-ctv q5_1 -np 2", false, Doubt},
		{"-np 2", true, Broken},
		{"-np 2 -ctk", false, Kept},
	} {
		r := Results{Server: Server{Args: strings.Fields(c.args), Drafts: c.drafts, Template: "t"}}
		if got := r.judgeServing(); got.Verdict != c.want {
			t.Errorf("%q: %+v", c.args, got)
		}
	}
}

func TestDepths(t *testing.T) {
	for deepest, want := range map[int64][]int64{0: {0}, 1000: {0}, 4096: {0, 4096}, 5000: {0, 4096, 5000}, 32768: {0, 4096, 8192, 16384, 32768}} {
		if got := depths(deepest); !slices.Equal(got, want) {
			t.Errorf("%d: %v", deepest, got)
		}
	}
}

// Text of a server can't break the report or the terminal.
func TestHostileText(t *testing.T) {
	r := &Results{
		Server: Server{Model: "m|x\n# y<script>", Build: "b\x1b[2J\"\n[other]", Template: "t"}, Tools: &Tools{Trials: []Trial{{Tool: "clock", Called: "a|b\n|"}}},
		Raw: []Raw{{Step: "s", Error: "e`\n|x"}},
	}
	text := r.Markdown(8192)
	for _, bad := range []string{"\x1b", "<script>", "\n# y", "\n[other]"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q in the report:\n%s", bad, text)
		}
	}
}

// Inside the throughput and the thinking a run goes on with the next request, also
// when somebody else used the slot meanwhile; the figures are those of a run that
// nobody interrupted.
func TestResumeInsideSteps(t *testing.T) {
	whole := &fake{}
	want, err := Run(t.Context(), whole.start(t))
	must(t, err)
	first := whole.chats - len(rowsOf(want, "throughput")) // requests before the throughput, without those of the busy slot that have no row
	for dies := first + 1; dies < whole.chats; dies++ {
		f := &fake{dies: dies}
		o := f.start(t)
		_, err := Run(t.Context(), o)
		if err == nil {
			t.Fatalf("%d: it did not die", dies)
		}
		saved, err := Read(o.State)
		must(t, err)
		if saved.Going == nil || saved.Going.Depth == nil || saved.Depth != nil {
			t.Fatalf("%d: nothing is kept of the throughput", dies)
		}
		f.mu.Lock()
		f.dies = 0
		f.slots[o.Settings.Slots.Background].words = []string{"another", "conversation"}
		before := f.chats
		f.mu.Unlock()
		got, err := Run(t.Context(), o)
		must(t, err)
		if n := f.chats - before; n > whole.chats-dies+1 { // one to read again
			t.Errorf("%d: %d requests more, of %d", dies, n, whole.chats)
		}
		if got.Going != nil || len(got.Depth.Points) != len(want.Depth.Points) {
			t.Fatalf("%d: %+v", dies, got.Depth)
		}
		for i, p := range got.Depth.Points {
			w := want.Depth.Points[i]
			if p.PromptN != w.PromptN || p.Predicted != w.Predicted || p.Lost != w.Lost || p.At < w.At || p.At > w.At+64 {
				t.Errorf("%d: point %+v, uninterrupted %+v", dies, p, w)
			}
		}
		for _, row := range got.Raw {
			if row.Error != "" {
				t.Errorf("%d: the row of what was tried again is still there: %+v", dies, row)
			}
		}
	}
}

func rowsOf(r *Results, step string) (out []Raw) {
	for _, row := range r.Raw {
		if row.Step == step {
			out = append(out, row)
		}
	}
	return out
}

// The parts of the thinking that are there are not asked again.
func TestResumeThinking(t *testing.T) {
	f := &fake{}
	o := f.start(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	o.Tell = func(s string) {
		if strings.Contains(s, "a cap of zero") {
			cancel(stop)
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, stop) {
		t.Fatalf("%v", err)
	}
	o.Tell = nil
	got, err := Run(t.Context(), o)
	must(t, err)
	var asked []string
	for _, row := range rowsOf(got, "thinking") {
		asked = append(asked, row.What)
	}
	if want := []string{"capped, try 1", "the turn after", "without a cap", "a cap of zero"}; !slices.Equal(asked, want) || !got.Thinking.Thinks || got.Thinking.Free != 60 {
		t.Errorf("asked %q, %+v", asked, got.Thinking)
	}
}
