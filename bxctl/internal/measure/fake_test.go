package measure

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"boxmaker/bxctl/internal/loopdconf"
	"boxmaker/bxctl/internal/measure/api"
	"boxmaker/bxctl/internal/setup"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fake is a small server with a real prompt cache: a token is a word, a slot holds
// the words of its last request and answer. Its faults are those that a server of
// an owner's may have.
type fake struct {
	models    string // of a router
	noCache   bool   // the cache never hits
	wrongSlot bool   // id_slot is ignored
	touches   bool   // another program uses slot 0 meanwhile
	noCap     bool   // the cap of thinking is ignored
	noThought bool   // the model does not think
	markup    bool   // calls come as text
	wrongTool bool   // clock, whatever was asked for
	drops     bool   // the template drops thinking before the newest message of the owner
	refuses   bool   // the template refuses a history with calls
	forgets   bool   // an answer does not come back as the same tokens
	silent    bool   // no events of prompt processing
	deaf      bool   // a stream that is closed goes on
	dies      int    // the server is gone after so many completions; 0: never
	window    int

	mu    sync.Mutex
	slots [3]struct {
		words []string
		last  int
		busy  bool
	}
	turn  [3]sync.Mutex // one request at a time
	chats int
	looks chan struct{} // one for each look at the slots
}

type fakeBody struct {
	Slot     int              `json:"id_slot"`
	Max      int              `json:"max_tokens"`
	Think    *int             `json:"reasoning_budget_tokens"`
	Mark     string           `json:"reasoning_budget_message"`
	Choice   string           `json:"tool_choice"`
	Forever  bool             `json:"ignore_eos"`
	Prompt   *bool            `json:"add_generation_prompt"`
	Tools    []jsontext.Value `json:"tools"`
	Messages []message        `json:"messages"`
	Content  string           `json:"content"`
}

func (f *fake) render(b fakeBody) string {
	var s strings.Builder
	for _, t := range b.Tools {
		fmt.Fprintf(&s, "%s ", t)
	}
	newest := 0
	for i, m := range b.Messages {
		if m.Role == "user" {
			newest = i
		}
	}
	for i, m := range b.Messages {
		s.WriteString("<" + m.Role + "> ")
		if m.Reasoning != "" && (!f.drops || i > newest) {
			s.WriteString(m.Reasoning + " </think> ")
		}
		if m.Content != nil && *m.Content != "" {
			s.WriteString(*m.Content + " ")
		}
		for _, c := range m.Calls {
			s.WriteString("CALL " + c.Function.Name + " " + c.Function.Arguments + " ")
		}
	}
	if b.Prompt == nil || *b.Prompt {
		s.WriteString("<assistant> ")
	}
	return s.String()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var b fakeBody
	if q.Method == http.MethodPost {
		if err := json.UnmarshalRead(q.Body, &b); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	switch q.URL.Path {
	case "/health":
		fmt.Fprint(w, `{"status":"ok"}`)
	case "/v1/models":
		if f.models != "" {
			fmt.Fprint(w, f.models)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"m","meta":{"n_params":5}}]}`)
	case "/props":
		fmt.Fprintf(w, `{"build_info":"b11669-fake","total_slots":3,"chat_template":"t","default_generation_settings":{"n_ctx":%d}}`, f.window)
	case "/slots":
		select {
		case f.looks <- struct{}{}:
		default:
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		var rows []string
		for i, s := range f.slots {
			rows = append(rows, fmt.Sprintf(`{"id":%d,"n_ctx":%d,"is_processing":%v,"n_prompt_tokens":%d}`, i, f.window, s.busy, s.last))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(rows, ","))
	case "/tokenize":
		fmt.Fprintf(w, `{"tokens":[%s0]}`, strings.Repeat("0,", max(0, len(strings.Fields(b.Content))-1)))
	case "/apply-template":
		if f.refuses && len(b.Messages) > 3 {
			http.Error(w, `{"error":{"code":500,"message":"no tools please"}}`, http.StatusInternalServerError)
			return
		}
		text, _ := json.Marshal(f.render(b))
		fmt.Fprintf(w, `{"prompt":%s}`, text)
	case "/v1/chat/completions":
		f.chat(w, q, b)
	default:
		http.NotFound(w, q)
	}
}

func (f *fake) chat(w http.ResponseWriter, q *http.Request, b fakeBody) {
	id := b.Slot
	if f.wrongSlot {
		id = 2
	}
	f.turn[id].Lock()
	defer f.turn[id].Unlock()
	f.mu.Lock()
	f.chats++
	dead := f.dies > 0 && f.chats > f.dies
	f.slots[id].busy = true
	words := strings.Fields(f.render(b))
	common := 0
	for !f.noCache && common < len(words)-1 && common < len(f.slots[id].words) && words[common] == f.slots[id].words[common] {
		common++
	}
	if f.touches {
		f.slots[0].last++
	}
	f.mu.Unlock()
	said := 0
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.slots[id].busy, f.slots[id].last = false, len(words)+said
	}()
	if dead {
		panic(http.ErrAbortHandler)
	}
	send := func(text string, args ...any) {
		fmt.Fprintf(w, "data: "+text+"\n\n", args...)
		_ = http.NewResponseController(w).Flush()
	}
	if !f.silent {
		send(`{"prompt_progress":{"total":%d,"cache":%d,"processed":%d,"time_ms":1}}`, len(words), common, len(words))
	}
	if f.chats == 1 { // of the step that looks at the slots: it shall see this one
		for len(f.looks) > 0 {
			<-f.looks
		}
		send(`{"choices":[{"delta":{"content":""}}]}`)
		<-f.looks
	}
	think, say, call := f.reply(b)
	finish := "stop"
	for _, word := range think {
		send(`{"choices":[{"delta":{"reasoning_content":%q}}]}`, word)
		said++
	}
	for i, word := range say {
		if said >= b.Max || q.Context().Err() != nil && !f.deaf {
			finish, call, say = "length", "", say[:i]
			break
		}
		send(`{"choices":[{"delta":{"content":%q}}]}`, word)
		said++
	}
	if call != "" {
		name, args, _ := strings.Cut(call, " ")
		finish = "tool_calls"
		send(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c%d","function":{"name":%q,"arguments":%q}}]}}]}`, f.chats, name, args)
		said++
	}
	f.mu.Lock()
	f.slots[id].words = append(words, strings.Fields(strings.Join(think, ""))...)
	if len(think) > 0 {
		f.slots[id].words = append(f.slots[id].words, "</think>")
	}
	f.slots[id].words = append(f.slots[id].words, strings.Fields(strings.Join(say, ""))...)
	made := len(f.slots[id].words) - len(words)
	if f.forgets {
		f.slots[id].words = words
	}
	f.mu.Unlock()
	send(`{"choices":[{"finish_reason":%q,"delta":{}}]}`, finish)
	send(`{"choices":[],"timings":{"cache_n":%d,"prompt_n":%d,"prompt_ms":%d,"prompt_per_second":1000,"predicted_n":%d,"predicted_ms":%d,"predicted_per_second":100}}`,
		common, len(words)-common, len(words)-common, made+1, 10*said)
	send("[DONE]")
}

// reply says what the model says: words with a space behind them.
func (f *fake) reply(b fakeBody) (think, say []string, call string) {
	last := ""
	for _, m := range slices.Backward(b.Messages) {
		if m.Role == "user" && m.Content != nil {
			last = *m.Content
			break
		}
	}
	n := 3
	if strings.Contains(last, "Think hard") {
		n = 60
	}
	if f.noThought {
		n = 0
	}
	budget := n
	if b.Think != nil && !f.noCap {
		budget = min(n, *b.Think)
	}
	for range budget {
		think = append(think, "hm ")
	}
	if budget < n && b.Mark != "" {
		think = append(think, strings.TrimSpace(b.Mark)+" ")
	}
	count := 12
	if b.Forever {
		count = b.Max
	}
	say = slices.Repeat([]string{"word "}, count)
	if b.Choice != "required" {
		return think, say, ""
	}
	_, want, _ := strings.Cut(last, "Call the tool ")
	name, args, _ := strings.Cut(want, " with ")
	if f.wrongTool {
		name, args = "clock", "{}"
	}
	if f.markup {
		return think, []string{"<tool_call> ", name + " ", "</tool_call> "}, ""
	}
	return think, nil, name + " " + args
}

// start serves f, and gives the options of a run against it.
func (f *fake) start(t *testing.T) Options {
	t.Helper()
	f.looks = make(chan struct{}, 3)
	if f.window == 0 {
		f.window = 40000
	}
	dir, err := os.MkdirTemp("", "ms-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return Options{
		Server: api.New(setup.Address{Path: path}), Settings: loopdconf.Default(), State: filepath.Join(dir, "measure", "state.json"),
		Deepest: 8192, Trials: 8, Version: "t", Now: clock(),
	}
}
