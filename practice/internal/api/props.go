package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"boxmaker/practice/internal/chat"
	"boxmaker/practice/internal/template"
)

// params is the parameter list of /props and /slots. The practice model uses
// max_tokens alone; the others are the real server's defaults, or what a request
// asked for.
type params struct {
	Seed              int64    `json:"seed"`
	Temperature       number   `json:"temperature"`
	DynatempRange     number   `json:"dynatemp_range"`
	DynatempExponent  number   `json:"dynatemp_exponent"`
	TopK              int      `json:"top_k"`
	TopP              number   `json:"top_p"`
	MinP              number   `json:"min_p"`
	TopNSigma         number   `json:"top_n_sigma"`
	XTCProbability    number   `json:"xtc_probability"`
	XTCThreshold      number   `json:"xtc_threshold"`
	TypicalP          number   `json:"typical_p"`
	RepeatLastN       int      `json:"repeat_last_n"`
	RepeatPenalty     number   `json:"repeat_penalty"`
	PresencePenalty   number   `json:"presence_penalty"`
	FrequencyPenalty  number   `json:"frequency_penalty"`
	DryMultiplier     number   `json:"dry_multiplier"`
	DryBase           number   `json:"dry_base"`
	DryAllowedLength  int      `json:"dry_allowed_length"`
	DryPenaltyLastN   int      `json:"dry_penalty_last_n"`
	Mirostat          int      `json:"mirostat"`
	MirostatTau       number   `json:"mirostat_tau"`
	MirostatEta       number   `json:"mirostat_eta"`
	AdaptiveTarget    number   `json:"adaptive_target"`
	AdaptiveDecay     number   `json:"adaptive_decay"`
	MaxTokens         int      `json:"max_tokens"`
	NPredict          int      `json:"n_predict"`
	NKeep             int      `json:"n_keep"`
	NDiscard          int      `json:"n_discard"`
	IgnoreEOS         bool     `json:"ignore_eos"`
	Stream            bool     `json:"stream"`
	NProbs            int      `json:"n_probs"`
	MinKeep           int      `json:"min_keep"`
	ChatFormat        string   `json:"chat_format"`
	ReasoningFormat   string   `json:"reasoning_format"`
	ReasoningContent  bool     `json:"reasoning_in_content"`
	GenerationPrompt  string   `json:"generation_prompt"`
	Samplers          []string `json:"samplers"`
	Speculative       string   `json:"speculative.types"`
	TimingsPerToken   bool     `json:"timings_per_token"`
	PostSamplingProbs bool     `json:"post_sampling_probs"`
	BackendSampling   bool     `json:"backend_sampling"`
	Lora              []string `json:"lora"`
}

func defaultParams() params {
	return params{
		Seed: 4294967295, Temperature: 0.800000011920929, DynatempExponent: 1, TopK: 40, TopP: 0.949999988079071,
		MinP: 0.05000000074505806, TopNSigma: -1, XTCThreshold: 0.10000000149011612, TypicalP: 1, RepeatLastN: 64, RepeatPenalty: 1,
		DryBase: 1.75, DryAllowedLength: 2, DryPenaltyLastN: 64, MirostatTau: 5, MirostatEta: 0.10000000149011612,
		AdaptiveTarget: -1, AdaptiveDecay: 0.8999999761581421, MaxTokens: -1, NPredict: -1,
		ChatFormat: "Content-only", ReasoningFormat: "none", Speculative: "none",
		Samplers: []string{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"},
	}
}

// ask sets what a request asked for. The real server keeps these in 32 bits,
// which shows in the digits.
func (p *params) ask(sampling map[string]float64) {
	for name, to := range map[string]*number{
		"temperature": &p.Temperature, "top_p": &p.TopP, "min_p": &p.MinP, "typical_p": &p.TypicalP,
		"repeat_penalty": &p.RepeatPenalty, "presence_penalty": &p.PresencePenalty, "frequency_penalty": &p.FrequencyPenalty,
	} {
		if v, ok := sampling[name]; ok {
			*to = number(float32(v))
		}
	}
	if v, ok := sampling["top_k"]; ok {
		p.TopK = int(v)
	}
	if v, ok := sampling["seed"]; ok {
		p.Seed = int64(v)
	}
}

type propsBody struct {
	Defaults struct {
		Params params `json:"params"`
		NCtx   int    `json:"n_ctx"`
	} `json:"default_generation_settings"`
	TotalSlots  int               `json:"total_slots"`
	Alias       string            `json:"model_alias"`
	FType       string            `json:"model_ftype"`
	Path        string            `json:"model_path"`
	Modalities  modalities        `json:"modalities"`
	MediaMarker string            `json:"media_marker"`
	Slots       bool              `json:"endpoint_slots"`
	Props       bool              `json:"endpoint_props"`
	Metrics     bool              `json:"endpoint_metrics"`
	UI          bool              `json:"ui"`
	UISettings  map[string]string `json:"ui_settings"`
	Template    string            `json:"chat_template"`
	Caps        templateCaps      `json:"chat_template_caps"`
	BOS         string            `json:"bos_token"`
	EOS         string            `json:"eos_token"`
	Build       string            `json:"build_info"`
	Sleeping    bool              `json:"is_sleeping"`
	CORS        bool              `json:"cors_proxy_enabled"`
}

type modalities struct {
	Vision bool `json:"vision"`
	Video  bool `json:"video"`
	Audio  bool `json:"audio"`
}

type templateCaps struct {
	ObjectArguments   bool `json:"supports_object_arguments"`
	ParallelCalls     bool `json:"supports_parallel_tool_calls"`
	PreserveReasoning bool `json:"supports_preserve_reasoning"`
	ReasoningEffort   bool `json:"supports_reasoning_effort"`
	StringContent     bool `json:"supports_string_content"`
	SystemRole        bool `json:"supports_system_role"`
	ToolCalls         bool `json:"supports_tool_calls"`
	Tools             bool `json:"supports_tools"`
	TypedContent      bool `json:"supports_typed_content"`
}

func (s *Server) props() propsBody {
	p := propsBody{
		TotalSlots: s.Pool.Len(), Alias: Alias, FType: "rules, no weights", Path: "practice (not a language model)",
		MediaMarker: "<__media__>", Slots: true, Props: true, Metrics: true, Template: template.Source,
		Caps: templateCaps{ObjectArguments: true, ParallelCalls: true, PreserveReasoning: true, StringContent: true, SystemRole: true, ToolCalls: true, Tools: true},
		BOS:  template.EndOfText, EOS: template.End, Build: Build,
	}
	p.Defaults.Params = defaultParams()
	p.Defaults.NCtx = s.Pool.Context()
	return p
}

type idleSlot struct {
	ID          int  `json:"id"`
	NCtx        int  `json:"n_ctx"`
	Speculative bool `json:"speculative"`
	Processing  bool `json:"is_processing"`
}

type busySlot struct {
	ID          int         `json:"id"`
	NCtx        int         `json:"n_ctx"`
	Speculative bool        `json:"speculative"`
	Processing  bool        `json:"is_processing"`
	Task        int         `json:"id_task"`
	Prompt      int         `json:"n_prompt_tokens"`
	Processed   int         `json:"n_prompt_tokens_processed"`
	Cached      int         `json:"n_prompt_tokens_cache"`
	Params      params      `json:"params"`
	Next        []nextToken `json:"next_token"`
}

type nextToken struct {
	HasNext bool `json:"has_next_token"`
	NewLine bool `json:"has_new_line"`
	Remain  int  `json:"n_remain"`
	Decoded int  `json:"n_decoded"`
}

func (s *Server) slotList() []any {
	out := []any{}
	for _, st := range s.Pool.States() {
		if !st.Busy {
			out = append(out, idleSlot{ID: st.ID, NCtx: s.Pool.Context()})
			continue
		}
		p := defaultParams()
		p.ask(st.Sampling)
		p.MaxTokens, p.NPredict, p.Stream = st.MaxTokens, st.MaxTokens, st.Stream
		p.ChatFormat, p.ReasoningFormat = "peg-native", "deepseek"
		p.GenerationPrompt = template.Start + "assistant\n" + template.Think + "\n"
		out = append(out, busySlot{
			ID: st.ID, NCtx: s.Pool.Context(), Processing: true, Task: st.Task, Prompt: st.Prompt, Processed: st.Processed, Cached: st.Cached,
			Params: p, Next: []nextToken{{HasNext: true, Remain: st.Remain, Decoded: st.Decoded}},
		})
	}
	return out
}

// slotAction does "erase" alone; a real server without --slot-save-path does not
// even that.
func (s *Server) slotAction(w http.ResponseWriter, r *http.Request, id string) {
	n, err := strconv.Atoi(id)
	if err != nil || r.URL.Query().Get("action") != "erase" {
		fail(w, &chat.Error{Status: http.StatusNotImplemented, Type: "not_supported_error", Message: "This server does not support slots action. Start it with `--slot-save-path`"})
		return
	}
	erased, err := s.Pool.Erase(r.Context(), n)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, struct {
		Slot   int `json:"id_slot"`
		Erased int `json:"n_erased"`
	}{n, erased})
}

// metrics writes the counters in Prometheus' text form.
func (s *Server) metrics(w http.ResponseWriter) {
	st := s.Pool.Stats()
	var b strings.Builder
	metric := func(name, kind, help string, value float64) {
		fmt.Fprintf(&b, "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\nllamacpp:%s %s\n", name, help, name, kind, name, strconv.FormatFloat(value, 'g', -1, 64))
	}
	metric("prompt_tokens_total", "counter", "Number of prompt tokens processed, excluding cached tokens", float64(st.PromptTokens))
	metric("prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache", float64(st.CachedTokens))
	metric("prompt_seconds_total", "counter", "Total time spent processing prompts", st.PromptTime.Seconds())
	metric("tokens_predicted_total", "counter", "Number of generation tokens processed", float64(st.PredictedTokens))
	metric("tokens_predicted_seconds_total", "counter", "Total time spent generating tokens", st.PredictedTime.Seconds())
	metric("n_decode_total", "counter", "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding", float64(st.Decodes))
	metric("n_tokens_max", "counter", "Largest observed sequence length (prompt + generation)", float64(st.Largest))
	metric("prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s", rate(st.PromptTokens, st.PromptTime))
	metric("predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s", rate(st.PredictedTokens, st.PredictedTime))
	metric("requests_processing", "gauge", "Number of requests processing", float64(st.Processing))
	metric("requests_deferred", "gauge", "Number of requests deferred", float64(st.Deferred))
	w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(s.started.Unix(), 10))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write([]byte(b.String()))
}

func rate(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
