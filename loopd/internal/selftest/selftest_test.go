package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/llama"
	"boxmaker/loopd/internal/prompt"

	"github.com/go-json-experiment/json/jsontext"
)

// config is a test of l with everything that loopd would give.
func config(l *testkit.Llama) Config {
	return Config{
		Client: llama.New(llama.Config{Socket: l.Socket, Model: "test-model", Limits: llama.Limits{Load: time.Second, Reach: 200 * time.Millisecond}}),
		System: prompt.SystemMessage("You are a careful assistant. " + strings.Repeat("Be brief. ", 40)),
		Tools:  jsontext.Value(`[{"type":"function","function":{"name":"clock","description":"Time.","parameters":{"type":"object","properties":{}}}}]`),
		Sampling: jsontext.Value(`{"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"cache_prompt":true,` +
			`"temperature":0.6,"top_p":0.95,"top_k":20,"max_tokens":8192,"reasoning_budget_tokens":4096,"reasoning_budget_message":" (enough)"}`),
		Main: 0, Background: 1,
	}
}

// run gives the report and, by name, how each check came out.
func run(t *testing.T, cfg Config) (Report, map[string]proto.Check, error) {
	t.Helper()
	var seen []proto.Check
	cfg.On = func(c proto.Check) { seen = append(seen, c) }
	report, err := Run(t.Context(), cfg)
	if !slices.Equal(seen, report.Checks) {
		t.Errorf("told of %v, reported %v", seen, report.Checks)
	}
	checks := map[string]proto.Check{}
	for _, c := range report.Checks {
		checks[c.Name] = c
	}
	return report, checks, err
}

func TestAServerThatFits(t *testing.T) {
	l := testkit.NewLlama(t)
	busy := false
	l.Handle("/slots", func(w http.ResponseWriter, _ *http.Request) { // as if it were always at work
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `[{"id":0,"n_ctx":32768,"speculative":false,"is_processing":false},{"id":1,"n_ctx":32768,"speculative":false,"is_processing":true,"params":{"temperature":0.6000000238418579,"top_p":0.949999988079071,"top_k":20}}]`)
		busy = true
	})
	report, checks, err := run(t, config(l))
	if err != nil || !busy {
		t.Fatal(err)
	}
	for _, name := range Names() {
		want := stateOK
		if name == checkKV { // a server with one model does not tell
			want = stateSkipped
		}
		if c := checks[name]; c.State != want || c.Runbook != "" || c.Detail == "" {
			t.Errorf("%+v", c)
		}
	}
	want := proto.Server{Model: "test-model", Build: "b11669-test", Context: 32768, Slots: 3, Template: llama.Props{Template: testkit.ChatTemplate}.TemplateHash()}
	if report.Server != want || report.Template != testkit.ChatTemplate || report.Baseline == 0 || !report.Thinks {
		t.Errorf("%+v", report)
	}
	for i, b := range l.Bodies() {
		if !strings.Contains(string(b), `{"model":"test-model","id_slot":1,`) {
			t.Errorf("request %d is not on the background slot: %s", i, b)
		}
	}
	if n := len(l.Bodies()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// Each row spoils one thing; the check of that name must fail, all others pass.
func TestFault_ServersThatDoNotFit(t *testing.T) {
	answer := func(s *testkit.Stream) { s.Default() }
	tests := []struct {
		name   string
		spoil  func(l *testkit.Llama, c *Config)
		check  string
		detail []string // words in the detail
	}{
		{"other model", func(_ *testkit.Llama, c *Config) { c.Expect.Model = "qwen" }, checkModel, []string{`expected model "qwen"; found "test-model"`, "upstream.model"}},
		{"other build", func(_ *testkit.Llama, c *Config) { c.Expect.Build = "b9000" }, checkServer, []string{`"b9000"`, `"b11669-test"`}},
		{"fewer slots than expected", func(_ *testkit.Llama, c *Config) { c.Expect.Slots = 4 }, checkSlots, []string{"at least 4", "found 3", "-np 4"}},
		{"no background slot", func(l *testkit.Llama, _ *Config) { l.SetSlots(1) }, checkSlots, []string{"at least 2", "found 1"}},
		{"smaller context than expected", func(_ *testkit.Llama, c *Config) { c.Expect.Context = 65536 }, checkContext, []string{"65536", "found 32768", "-c 196608"}},
		{"context too small for one completion", func(l *testkit.Llama, _ *Config) { l.SetContext(8192) }, checkContext, []string{"11192", "found 8192"}},
		{"other template", func(_ *testkit.Llama, c *Config) { c.Expect.Template = strings.Repeat("0", 64) }, checkTemplate, []string{"0000", "expect.template"}},
		{"no template", func(l *testkit.Llama, _ *Config) { l.SetProps(map[string]any{"chat_template": ""}) }, checkTemplate, []string{"--jinja"}},
		{"speculative decoding", func(l *testkit.Llama, _ *Config) {
			l.SetProps(map[string]any{"default_generation_settings": map[string]any{"n_ctx": 32768, "params": map[string]any{"speculative.types": "draft"}}})
		}, checkSpeculative, []string{`"draft"`}},
		{"a coarse cache", router(`"llama-server","-np","3","-ctk","q8_0","-ctv","q4_0"`), checkKV, []string{`"q4_0"`}},
		{"a unified cache", router(`"llama-server","--parallel","3","--kv-unified"`), checkKV, []string{"--kv-unified"}},
		{"no fixed number of slots", router(`"llama-server"`), checkKV, []string{"with -np"}},
		{"baseline too long", func(_ *testkit.Llama, c *Config) { c.System = prompt.SystemMessage(strings.Repeat("word", 3000)) }, checkBaseline, []string{"at most 3000 tokens", "prompt.system"}},
		{"a template that cannot do tools", func(l *testkit.Llama, _ *Config) {
			l.SetRender(func(body []byte) (string, error) {
				if strings.Contains(string(body), `"role":"tool"`) {
					return "", errors.New("Jinja Exception: Unexpected message role.")
				}
				return "fine", nil
			})
		}, checkExtension, []string{"Unexpected message role", "HTTP 500"}},
		{"a template that wants answers in between", func(l *testkit.Llama, _ *Config) {
			render := testkit.RenderChatML
			l.SetRender(func(body []byte) (string, error) {
				if strings.Contains(string(body), `{"role":"user","content":"selftest-question-one"},{"role":"user"`) {
					return "", errors.New("roles must alternate")
				}
				return render(body)
			})
		}, checkExtension, []string{"in a row", "roles must alternate"}},
		{"text instead of a call", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) { s.Think("Hm.", "It is late.") })
		}, checkToolCall, []string{"an answer without a call"}},
		{"a call of something else", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				if s.Request.ToolChoice == nil {
					answer(s)
					return
				}
				s.CallTool("a", "rm", "{}")
			})
		}, checkToolCall, []string{`"rm"`}},
		{"calls that do not parse", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				if s.Request.ToolChoice == nil {
					answer(s)
					return
				}
				s.CallTool("a", "clock", `{"x":`)
			})
		}, checkToolCall, []string{"not one JSON object"}},
		{"another temperature", working(`"temperature":0.8,"top_p":0.95,"top_k":20`), checkSampling, []string{"temperature 0.8"}},
		{"another top_p", working(`"temperature":0.6,"top_p":0.9,"top_k":20`), checkSampling, []string{"top_p 0.9"}},
		{"another top_k", working(`"temperature":0.6,"top_p":0.95,"top_k":40`), checkSampling, []string{"top_k 40"}},
		{"a cap that is ignored", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				if s.Request.ToolChoice != nil {
					answer(s)
					return
				}
				s.Think(strings.Repeat("hm, and then, ", 20), "ok")
			})
		}, checkThinkingCap, []string{"cap of 4 tokens", "found 70 tokens"}},
		{"thinking in the content", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				if s.Request.ToolChoice != nil {
					answer(s)
					return
				}
				s.Answer("<think>hm</think>ok")
			})
		}, checkThinkingCap, []string{"thinking inside of it"}},
		{"a cache that never hits", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				if s.Request.ToolChoice != nil {
					answer(s)
					return
				}
				l.Evict(1)
				s.Text("ok")
				s.Finish("stop")
				s.Usage(0, s.CacheN+s.PromptN, 2)
				s.Done()
			})
		}, checkCache, []string{"found 0 of the", "b11669-test", "-np"}},
		{"no timings", func(l *testkit.Llama, _ *Config) {
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				if s.Request.ToolChoice != nil {
					answer(s)
					return
				}
				s.Text("ok")
				s.Finish("stop")
				s.Done()
			})
		}, checkCache, []string{"no timings"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := testkit.NewLlama(t)
			cfg := config(l)
			tt.spoil(l, &cfg)
			_, checks, err := run(t, cfg)
			var f *Failure
			if !errors.As(err, &f) || len(f.Checks) != 1 || f.Checks[0].Name != tt.check {
				t.Fatalf("error %v", err)
			}
			c := checks[tt.check]
			if c.State != stateFailed || c.Runbook != "selftest-"+tt.check {
				t.Errorf("%+v", c)
			}
			for _, words := range append(tt.detail, "expected ", "; found ") {
				if !strings.Contains(c.Detail, words) {
					t.Errorf("detail %q lacks %q", c.Detail, words)
				}
			}
			if !strings.Contains(err.Error(), tt.check+": ") || !strings.Contains(err.Error(), "(see runbook: selftest-"+tt.check+")") {
				t.Errorf("error %q", err)
			}
			// The owner can take it upon himself.
			cfg.Skip = []string{tt.check}
			_, checks, err = run(t, cfg)
			if err != nil || checks[tt.check].State != stateSkipped || !strings.HasPrefix(checks[tt.check].Detail, "by the owner") {
				t.Errorf("skipped: %v, %+v", err, checks[tt.check])
			}
		})
	}
}

// router lists the model with a command line, as a router does.
func router(args string) func(*testkit.Llama, *Config) {
	return func(l *testkit.Llama, _ *Config) {
		l.Handle("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"data":[{"id":"test-model","status":{"value":"loaded","args":[%s]}}]}`, args)
		})
	}
}

// working shows the background slot at work with those parameters.
func working(params string) func(*testkit.Llama, *Config) {
	return func(l *testkit.Llama, _ *Config) {
		l.Handle("/slots", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `[{"id":0,"is_processing":true,"params":{"temperature":9}},{"id":1,"n_ctx":32768,"is_processing":true,"params":{%s}}]`, params)
		})
	}
}

func TestCacheOfARouter(t *testing.T) {
	l := testkit.NewLlama(t)
	cfg := config(l)
	router(`"llama-server","--parallel","3","--cache-type-k","q8_0","--cache-type-v","f16"`)(l, &cfg)
	_, checks, err := run(t, cfg)
	if c := checks[checkKV]; err != nil || c.State != stateOK || c.Detail != "q8_0, f16" {
		t.Errorf("%v: %+v", err, c)
	}
}

func TestFailureNamesEveryCheck(t *testing.T) {
	l := testkit.NewLlama(t)
	l.SetSlots(1)
	l.SetContext(4096)
	_, _, err := run(t, config(l))
	want := "self-test: the inference server does not fit; slots: expected at least 2 slots (slots.main is 0, slots.background is 1); found 1; " +
		"start llama-server with -np 2 or more, and -c for all slots together (see runbook: selftest-slots); context failed too (see runbook: selftest-context)"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}

// Servers that cannot be looked at any further. Nothing can be skipped there.
func TestFault_NoServer(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(l *testkit.Llama)
		why   proto.Why
		words string
	}{
		{"not there", func(l *testkit.Llama) { l.Close() }, proto.WhyUnreachable, "start llama-server"},
		{"loading for too long", func(l *testkit.Llama) { l.Loading(-1) }, proto.WhyUnreachable, "upstream.load"},
		{"wants a key", func(l *testkit.Llama) {
			l.Handle("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(401)
				fmt.Fprint(w, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`)
			})
		}, proto.WhyUnauthorised, "--api-key"},
		{"a web site", func(l *testkit.Llama) {
			l.Handle("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
		}, proto.WhyBadData, "point Boxmaker at a llama-server"},
		{"another API", func(l *testkit.Llama) {
			l.Handle("/props", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{}`)
			})
		}, "", "no build and no slots"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := testkit.NewLlama(t)
			tt.spoil(l)
			cfg := config(l)
			cfg.Skip = []string{checkServer}
			report, _, err := run(t, cfg)
			var e *llama.Error
			switch {
			case err == nil || !strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), "selftest-server"):
				t.Errorf("error %v", err)
			case errors.As(err, &e) != (tt.why != "") || e != nil && e.Why != tt.why:
				t.Errorf("cause %v", e)
			}
			if len(report.Checks) != 1 {
				t.Errorf("checks %v", report.Checks)
			}
		})
	}
}

func TestFirstListedModel(t *testing.T) {
	l := testkit.NewLlama(t)
	l.SetModel("the-only-one")
	cfg := config(l)
	cfg.Client = cfg.Client.For("")
	report, _, err := run(t, cfg)
	if err != nil || report.Server.Model != "the-only-one" {
		t.Errorf("%v, %+v", err, report.Server)
	}
}

// A router loads the model for a chat and not for a look.
func TestRouterWithTheModelUnloaded(t *testing.T) {
	l := testkit.NewLlama(t)
	props := 0
	l.Handle("/props", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if props++; len(l.Bodies()) == 0 {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":{"code":400,"message":"model is not loaded","type":"invalid_request_error"}}`)
			return
		}
		fmt.Fprint(w, `{"build_info":"b1","total_slots":3,"chat_template":"x","default_generation_settings":{"n_ctx":32768,"params":{"speculative.types":"none"}}}`)
	})
	if _, _, err := run(t, config(l)); err != nil || props != 2 {
		t.Errorf("%v after %d looks", err, props)
	}
	if b := string(l.Bodies()[0]); !strings.Contains(b, `"max_tokens":1,`) {
		t.Errorf("the first request: %s", b)
	}
}

// One miss may be another program's doing; the next turn decides.
func TestCacheMayBeLostOnce(t *testing.T) {
	l := testkit.NewLlama(t)
	l.On(func(n int, _ []byte, s *testkit.Stream) {
		if n == 2 { // tool call, first turn, second turn
			s.Text("ok")
			s.Finish("stop")
			s.Usage(0, s.CacheN+s.PromptN, 2)
			s.Done()
			return
		}
		s.Default()
	})
	_, checks, err := run(t, config(l))
	if err != nil || checks[checkCache].State != stateOK || len(l.Bodies()) != 4 {
		t.Errorf("%v, %+v, %d requests", err, checks[checkCache], len(l.Bodies()))
	}
}

func TestWhatCannotBeSeenIsSkipped(t *testing.T) {
	l := testkit.NewLlama(t)
	l.Handle("/slots", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(501)
		fmt.Fprint(w, `{"error":{"code":501,"message":"This server does not support slots endpoint.","type":"not_supported_error"}}`)
	})
	_, checks, err := run(t, config(l))
	if err != nil || checks[checkSampling].State != stateSkipped || !strings.Contains(checks[checkSampling].Detail, "does not support slots") {
		t.Errorf("%v, %+v", err, checks[checkSampling])
	}
	cfg := config(testkit.NewLlama(t))
	cfg.Tools = jsontext.Value(`[]`)
	_, checks, err = run(t, cfg)
	if err != nil || checks[checkToolCall].State != stateSkipped || checks[checkSampling].State != stateSkipped {
		t.Errorf("%v, %+v, %+v", err, checks[checkToolCall], checks[checkSampling])
	}
}

func TestOlderServerWithoutACounter(t *testing.T) {
	l := testkit.NewLlama(t)
	l.Handle("/v1/chat/completions/input_tokens", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(404)
		fmt.Fprint(w, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`)
	})
	report, _, err := run(t, config(l))
	if err != nil || report.Baseline < 100 {
		t.Errorf("%v, baseline %d", err, report.Baseline)
	}
}

func TestConfigThatCannotBe(t *testing.T) {
	l := testkit.NewLlama(t)
	tests := map[string]func(c *Config){
		"unknown check": func(c *Config) { c.Skip = []string{"cahce"} },
		"no client":     func(c *Config) { c.Client = nil },
		"no sampling":   func(c *Config) { c.Sampling = nil },
		"no system":     func(c *Config) { c.System = jsontext.Value(`"x"`) },
		"tools":         func(c *Config) { c.Tools = jsontext.Value(`{}`) },
	}
	for name, spoil := range tests {
		cfg := config(l)
		spoil(&cfg)
		if _, err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := len(l.Paths()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestCancelled(t *testing.T) {
	l := testkit.NewLlama(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.On(func(_ int, _ []byte, s *testkit.Stream) {
		cancel()
		s.Hang()
	})
	var f *Failure
	if _, err := Run(ctx, config(l)); !errors.Is(err, context.Canceled) || errors.As(err, &f) {
		t.Errorf("error %v", err)
	}
}
