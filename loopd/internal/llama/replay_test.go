package llama

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// The files are streams of a real server (b11669), byte for byte.
func TestReplay(t *testing.T) {
	tests := []struct {
		file      string
		why       proto.Why
		retry     bool
		finish    string
		content   string
		reasoning string
		calls     []Call
		timings   Timings
		usage     Usage
		progress  int
		pings     int
	}{
		{
			file: "chat_stream_basic", finish: "stop", content: "Fangedm con",
			timings: Timings{CacheN: 0, PromptN: 39, PredictedN: 6, PromptUS: 22889, PredictedUS: 1693}, usage: Usage{Prompt: 39, Completion: 6, Total: 45},
		},
		{
			file: "canned_answer", finish: "stop", content: "The notes say hello.", reasoning: "All done.\n",
			timings: Timings{CacheN: 483, PromptN: 4, PredictedN: 2, PromptUS: 2974, PredictedUS: 1048}, usage: Usage{Prompt: 487, Completion: 2, Total: 489, Cached: 483},
		},
		{
			file: "canned_tool_call_auto", finish: "tool_calls", reasoning: "I should read it.\n",
			calls:   []Call{{"Kj3IYh1AFDAx4YAq1hQUn7qw5Bbrho9S", "read_file", `{"path":"notes.txt","limit":7}`}},
			timings: Timings{PromptN: 487, PredictedN: 2, PromptUS: 158731, PredictedUS: 816}, usage: Usage{Prompt: 487, Completion: 2, Total: 489},
		},
		{
			file: "canned_two_calls_parallel_true", finish: "tool_calls", reasoning: "Two at once.\n", content: "I will look.\n",
			calls: []Call{
				{"hPH7VLrCw8siE62jlWg6KXtCFAZo1YOp", "read_file", `{"path":"notes.txt"}`},
				{"vgGW50P5cZc7602hGrbkglb5S23qaARh", "list_dir", `{"dir":"src"}`},
			},
			timings: Timings{CacheN: 483, PromptN: 4, PredictedN: 2, PromptUS: 1684, PredictedUS: 979}, usage: Usage{Prompt: 487, Completion: 2, Total: 489, Cached: 483},
		},
		{
			file: "tools_required_stream_fragments_seed1", finish: "tool_calls", content: "information fil",
			calls:   []Call{{"dGSlbOQvWBzRODeMXRAZf61HAxKWtObt", "add", `{"exact":false,"b":8354,"a":8}`}},
			timings: Timings{PromptN: 371, PredictedN: 82, PromptUS: 139278, PredictedUS: 56860}, usage: Usage{Prompt: 371, Completion: 82, Total: 453},
		},
		{ // the server could not parse the call and says nothing of it
			file: "canned_bad_args", why: proto.WhyEmpty, retry: true, finish: "stop",
			timings: Timings{CacheN: 487, PromptN: 4, PredictedN: 2, PromptUS: 1618, PredictedUS: 719}, usage: Usage{Prompt: 491, Completion: 2, Total: 493, Cached: 487},
		},
		{
			file: "tools_required_cut", why: proto.WhyLength, finish: "length",
			timings: Timings{CacheN: 367, PromptN: 4, PredictedN: 14, PromptUS: 1906, PredictedUS: 22250}, usage: Usage{Prompt: 371, Completion: 14, Total: 385, Cached: 367},
		},
		{file: "tools_required_thinking", why: proto.WhyServerError, retry: true, reasoning: "names getweather"},
		{ // without include_usage the timings come with the end
			file: "unix_chat_stream", why: proto.WhyLength, finish: "length", reasoning: "back When",
			timings: Timings{PromptN: 11, PredictedN: 2, PromptUS: 26549, PredictedUS: 1033},
		},
		{
			file: "chat_stream_progress_timings", why: proto.WhyLength, finish: "length", reasoning: "3funcanttentthe A", progress: 8,
			timings: Timings{CacheN: 18, PromptN: 9405, PredictedN: 6, PromptUS: 21041216, PredictedUS: 7960}, usage: Usage{Prompt: 9423, Completion: 6, Total: 9429, Cached: 18},
		},
		{
			file: "sse_ping_during_prompt_with_progress", why: proto.WhyLength, finish: "length", reasoning: "files that", progress: 5, pings: 4,
			timings: Timings{CacheN: 9, PromptN: 16403, PredictedN: 2, PromptUS: 45319942, PredictedUS: 9045},
		},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			l := testkit.NewLlama(t)
			stream := readStream(t, tt.file)
			l.On(func(_ int, _ []byte, s *testkit.Stream) { s.Raw(stream) })
			o := chatOnce(t, newClient(l, Limits{}))
			o.want(t, tt.why, tt.retry)
			if o.got.First == 0 && tt.content+tt.reasoning != "" {
				t.Error("no time to the first piece")
			}
			o.got.First, o.got.ID, o.got.Model = 0, "", ""
			complete := tt.why != proto.WhyServerError
			want := Completion{Content: tt.content, Reasoning: tt.reasoning, Calls: tt.calls, Finish: tt.finish, Complete: complete, Timings: tt.timings, Usage: tt.usage}
			if d := cmp.Diff(want, o.got); d != "" {
				t.Error(d)
			}
			if o.shown() != tt.content {
				t.Errorf("shown %q", o.shown())
			}
			if p, a := o.count(Progress{}), o.count(Alive{}); p != tt.progress || a != tt.pings {
				t.Errorf("%d progress events, %d pings", p, a)
			}
		})
	}
}

// When the shared cache is full the server says so in the middle of a stream.
func TestReplayCacheFullInTheStream(t *testing.T) {
	l := testkit.NewLlama(t)
	stream := readStream(t, "err_midstream_kv_full_0")
	l.On(func(_ int, _ []byte, s *testkit.Stream) { s.Raw(stream) })
	o := chatOnce(t, newClient(l, Limits{}))
	o.want(t, proto.WhyContextFull, false)
	if o.err.Message != "Context size has been exceeded." || o.err.Status != 500 || o.got.Reasoning == "" || o.got.Complete {
		t.Errorf("error %+v, reasoning %q", o.err, o.got.Reasoning)
	}
}

func readStream(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(b), "\n\n") {
		t.Fatalf("%s does not end in a blank line", name)
	}
	return string(b)
}
