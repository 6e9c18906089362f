package realllama

import (
	"slices"
	"strings"
	"testing"
)

// The tests of this file ask the server alone. They pin what loopd relies on, so
// that a new build that behaves otherwise is noticed by name.

func TestServerTellsWhatLoopdAsks(t *testing.T) {
	each(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		var props struct {
			Build    string `json:"build_info"`
			Slots    int    `json:"total_slots"`
			Template string `json:"chat_template"`
			Settings struct {
				Context int `json:"n_ctx"`
			} `json:"default_generation_settings"`
		}
		s.get("/props", &props)
		t.Logf("build %s, %d slots of %d tokens", props.Build, props.Slots, props.Settings.Context)
		if props.Build == "" || props.Template == "" || props.Slots != 3 || props.Settings.Context != 32768 {
			t.Errorf("props: %+v", props)
		}
		var count struct {
			N int `json:"input_tokens"`
		}
		k := newTalk(s, 1)
		if code := s.post("/v1/chat/completions/input_tokens", k.body(nil), &count); code != 200 || count.N == 0 {
			t.Errorf("input_tokens of a system message alone: status %d, %d tokens", code, count.N)
		}
		if s.busy(1) {
			t.Error("counting tokens keeps a slot busy")
		}
	})
}

func TestCase_P08_ToolChainRendersAsAnExtension(t *testing.T) {
	each(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		render := func(k *talk) string {
			var out struct {
				Prompt string `json:"prompt"`
			}
			if code := s.post("/apply-template", k.body(nil), &out); code != 200 {
				t.Fatalf("apply-template: status %d", code)
			}
			return out.Prompt
		}
		k := newTalk(s, 1).user("What time is it?")
		first := render(k)
		k.messages = append(k.messages, object{"role": "assistant", "content": "", "reasoning_content": "I look.\n", "tool_calls": []object{
			{"id": "a", "type": "function", "function": object{"name": "clock", "arguments": "{}"}},
		}}, object{"role": "tool", "tool_call_id": "a", "content": "12:00"})
		second := render(k)
		k.messages = append(k.messages, object{"role": "assistant", "content": "It is noon.", "reasoning_content": "Noon.\n"})
		third := render(k.user("Thanks.").user("Two messages in a row."))
		if !strings.HasPrefix(second, first) || !strings.HasPrefix(third, second) {
			t.Errorf("no extensions:\n%q\n%q\n%q", first, second, third)
		}
	})
}

func TestServerGivesScriptedReplies(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		for _, name := range replyNames() {
			want := replies()[name]
			st := newTalk(s, 0).user("Say something.").scripted(name)
			var calls []string
			for _, c := range st.Calls {
				n, args := splitCall(c)
				calls = append(calls, n)
				if !strings.HasPrefix(args, "{") || !strings.HasSuffix(args, "}") {
					t.Errorf("%s: arguments %q", name, args)
				}
			}
			var wantCalls []string
			finish := "stop"
			for _, c := range want.calls {
				wantCalls, finish = append(wantCalls, c.name), "tool_calls"
			}
			if strings.TrimSpace(st.Reasoning) != strings.TrimSpace(want.think) || strings.TrimSpace(st.Content) != strings.TrimSpace(want.say) ||
				!slices.Equal(calls, wantCalls) || st.Finish != finish {
				t.Errorf("%s: %+v", name, st)
			}
		}
	})
}

// Random replies have the form of the template, so the figures are exact with
// them too; the noise sees to it that much is tried.
func TestServerCacheFiguresAreExact(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		for seed := range 3 {
			k := newTalk(s, 0)
			checked := 0
			for turn := range 4 {
				k.user("Question %d of conversation %d?", turn, seed)
				for round := 0; ; round++ {
					before := k.last
					st := k.reply(object{"seed": 100*seed + 10*turn + round})
					if st.Finish == "length" {
						t.Fatalf("a reply of %d tokens; the chain in the model does not end", st.Timings.Predicted)
					}
					if before != nil {
						wantExact(t, *before.Timings, st)
						checked++
					}
					if st.Calls == nil {
						break
					}
				}
			}
			t.Logf("conversation %d: %d figures exact", seed, checked)
		}
	})
}

func TestServerFallsBackOnALooseReply(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		k := newTalk(s, 0).user("Be sloppy.")
		first := *k.scripted("loose").Timings
		st := k.user("And now?").scripted("hello")
		prompt := first.Cache + first.Prompt
		if c := st.Timings.Cache; c >= first.next() || c < prompt-8 {
			t.Errorf("cache_n %d after a prompt of %d and a reply to %d", c, prompt, first.next())
		}
	})
}

// The wording of the thinking cap's message decides whether the next request hits
// the cache: the server tokenises it apart from the line end that follows.
func TestServerThinkingCap(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		tests := []struct {
			name, message string
			exact         bool
		}{
			{"letter last", " I have thought long enough and answer now", m.style == "xml"},
			{"full stop last", " I have thought long enough.", false},
		}
		for _, tt := range tests {
			k := newTalk(s, 0).user("Think (%s).", tt.name)
			tk := m.tokens
			first := k.reply(object{
				"reasoning_budget_tokens": 9, "reasoning_budget_message": tt.message, "max_tokens": 200,
				"logit_bias": [][2]int{{tk["think-stop"], -100}, {tk["think-end"], -100}},
			})
			if !strings.HasSuffix(strings.TrimSpace(first.Reasoning), strings.TrimSpace(tt.message)) {
				t.Errorf("%s: the reasoning does not show the cap: %q", tt.name, first.Reasoning)
			}
			st := k.user("And now?").scripted("hello")
			if exact := st.Timings.Cache == first.Timings.next(); exact != tt.exact {
				t.Errorf("%s: cache_n %d, %d in the cache before", tt.name, st.Timings.Cache, first.Timings.next())
			}
		}
	})
}

func TestServerRequiredCallComes(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		s := startServer(t, m)
		for seed := range 8 {
			st := newTalk(s, 1).user("Call the clock.").reply(object{"tool_choice": "required", "max_tokens": 400, "seed": seed})
			if !slices.Equal(st.Calls, []string{"clock{}"}) || st.Finish != "tool_calls" {
				t.Errorf("seed %d: %+v", seed, st)
			}
		}
	})
}

func TestServerRefusesWhatDoesNotFit(t *testing.T) {
	eachTiny(t, func(t *testing.T, m model) {
		s := startServer(t, m, "-c", "3072")
		var out struct {
			Error struct {
				Type    string `json:"type"`
				Prompt  int    `json:"n_prompt_tokens"`
				Context int    `json:"n_ctx"`
			} `json:"error"`
		}
		k := newTalk(s, 0).user("%s", strings.Repeat("too much ", 2000))
		code := s.post("/v1/chat/completions", k.body(nil), &out)
		if code != 400 || out.Error.Type != "exceed_context_size_error" || out.Error.Context != 1024 || out.Error.Prompt <= 1024 {
			t.Errorf("status %d, %+v", code, out)
		}
	})
}
