package llama

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

func TestQueries(t *testing.T) {
	l := testkit.NewLlama(t)
	l.SetContext(4096)
	l.SetSlots(2)
	c := newClient(l, Limits{})
	ctx := t.Context()

	props, err := c.Props(ctx)
	want := Props{Build: "b11669-test", Model: "test-model", Slots: 2, Context: 4096, Template: testkit.ChatTemplate, Speculative: "none"}
	if d := cmp.Diff(want, props); d != "" || err != nil {
		t.Errorf("props: %v\n%s", err, d)
	}
	if h := (Props{Template: "abc"}).TemplateHash(); h != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("hash %s", h)
	}
	slots, err := c.Slots(ctx)
	if d := cmp.Diff([]Slot{{ID: 0, Context: 4096}, {ID: 1, Context: 4096}}, slots); d != "" || err != nil {
		t.Errorf("slots: %v\n%s", err, d)
	}
	models, err := c.Models(ctx)
	if d := cmp.Diff([]Model{{ID: "test-model", Aliases: []string{"test-model"}}}, models); d != "" || err != nil {
		t.Errorf("models: %v\n%s", err, d)
	}
	if tokens, err := c.Tokenize(ctx, "nine byte"); len(tokens) != 3 || err != nil {
		t.Errorf("tokens %v, %v", tokens, err)
	}
	if text, err := c.ApplyTemplate(ctx, []byte(body)); text != "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n" || err != nil {
		t.Errorf("template %q, %v", text, err)
	}
	if n, err := c.InputTokens(ctx, []byte(body)); n != 15 || err != nil {
		t.Errorf("%d input tokens, %v", n, err)
	}
	if ok, err := c.EndReasoning(ctx, "chatcmpl-none"); ok || err != nil {
		t.Errorf("end reasoning of nothing: %v, %v", ok, err)
	}
	if err := c.Ready(ctx, nil); err != nil {
		t.Error(err)
	}
}

// A router must not be made to load or evict a model by a look at it.
func TestQueriesNameTheModel(t *testing.T) {
	l := testkit.NewLlama(t)
	c := New(Config{Socket: l.Socket, Model: "a b&c"})
	_, _ = c.Props(t.Context())
	_, _ = c.Slots(t.Context())
	want := []string{"GET /props?model=a+b%26c&autoload=false", "GET /slots?model=a+b%26c&autoload=false"}
	if d := cmp.Diff(want, l.Paths()); d != "" {
		t.Error(d)
	}
}

func TestRealAnswers(t *testing.T) {
	l := testkit.NewLlama(t)
	give := func(path string, status int, text string) {
		l.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
	}
	c := newClient(l, Limits{})
	ctx := t.Context()

	give("/props", 200, `{"role":"router","max_instances":1,"models_autoload":true,"model_alias":"llama-server","model_path":"none","default_generation_settings":{"params":null,"n_ctx":0},"ui_settings":{},"build_info":"b11669-Debian","cors_proxy_enabled":false}`)
	if p, err := c.Props(ctx); err != nil || !p.Router || p.Build != "b11669-Debian" {
		t.Errorf("router: %+v, %v", p, err)
	}
	give("/props", 400, `{"error":{"code":400,"message":"model is not loaded","type":"invalid_request_error"}}`)
	if _, err := c.Props(ctx); !NotLoaded(err) {
		t.Errorf("not loaded: %v", err)
	}
	give("/slots", 200, `[{"id":0,"n_ctx":131072,"speculative":false,"is_processing":true,"id_task":0,"n_prompt_tokens":1466,"params":{"seed":1,"temperature":0.800000011920929,"top_k":40,"top_p":0.949999988079071,"speculative.types":"none"},"next_token":[{"n_decoded":1427}]},{"id":1,"n_ctx":131072,"speculative":false,"is_processing":false}]`)
	slots, err := c.Slots(ctx)
	want := []Slot{{ID: 0, Context: 131072, Busy: true, Sampling: &Sampling{Temperature: 0.800000011920929, TopP: 0.949999988079071, TopK: 40}}, {ID: 1, Context: 131072}}
	if d := cmp.Diff(want, slots); d != "" || err != nil {
		t.Errorf("busy slots: %v\n%s", err, d)
	}
	give("/slots", 501, `{"error":{"code":501,"message":"This server does not support slots endpoint. Start it with `+"`--slots`"+`","type":"not_supported_error"}}`)
	if _, err := c.Slots(ctx); err == nil || !strings.Contains(err.Error(), "HTTP 501") {
		t.Errorf("no slots: %v", err)
	}
	give("/v1/models", 200, `{"data":[{"id":"alpha","aliases":[],"tags":[],"status":{"value":"unloaded","args":["/usr/bin/llama-server","--cache-type-k","q8_0"]}}],"object":"list"}`)
	if m, err := c.Models(ctx); err != nil || len(m) != 1 || m[0].Status != "unloaded" || len(m[0].Args) != 3 {
		t.Errorf("models of a router: %+v, %v", m, err)
	}
	give("/v1/chat/completions/control", 200, `{"success":true}`)
	if ok, err := c.EndReasoning(ctx, "chatcmpl-1"); !ok || err != nil {
		t.Errorf("control: %v, %v", ok, err)
	}
}

func TestBadAnswersToQueries(t *testing.T) {
	tests := []struct {
		name, ctype, text string
		why               proto.Why
	}{
		{"HTML", "text/html", "<html>", proto.WhyBadData},
		{"not JSON", "application/json", "<html>", proto.WhyBadData},
		{"null", "application/json", "null", proto.WhyBadData},
		{"another shape", "application/json", "[1]", proto.WhyBadData},
		{"duplicate names", "application/json", `{"prompt":"a","prompt":"b"}`, proto.WhyBadData},
		{"invalid UTF-8", "application/json", "{\"prompt\":\"\xff\"}", proto.WhyBadData},
		{"without the member", "application/json", `{}`, proto.WhyBadData},
		{"too large", "application/json", `{"prompt":"` + strings.Repeat("x", maxAnswer) + `"}`, proto.WhyBadData},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := testkit.NewLlama(t)
			l.Handle("/apply-template", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.ctype)
				_, _ = w.Write([]byte(tt.text))
			})
			_, err := newClient(l, Limits{}).ApplyTemplate(t.Context(), []byte(body))
			var e *Error
			if !errors.As(err, &e) || e.Why != tt.why {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestReadyWaitsForTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		l.Loading(5)
		loading := 0
		err := newClient(l, Limits{}).Ready(t.Context(), func(ev Event) {
			if _, ok := ev.(Loading); ok {
				loading++
			}
		})
		if err != nil || loading != 5 {
			t.Errorf("%v, %d events", err, loading)
		}
	})
}

func TestQueryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.NewMemoryLlama(t)
		l.Handle("/props", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		_, err := newClient(l, Limits{}).Props(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Why != proto.WhyStalled || time.Since(start) != 3*time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}
