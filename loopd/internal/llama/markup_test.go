package llama

import (
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"

	"pgregory.net/rapid"
)

func TestCase_P19_ToolCallInTheContent(t *testing.T) {
	tests := []struct {
		name   string
		pieces []string
		shown  string
	}{
		{"in one piece", []string{"Let me look.<tool_call><function=read_file>\n<parameter=path>x</parameter></function></tool_call>"}, "Let me look."},
		{"a letter a piece", strings.Split("Let me look.<tool_call>{\"name\":\"read_file\"}</tool_call>", ""), "Let me look."},
		{"without the outer tag", []string{"Let me look.", "<func", "tion", "=read_file>"}, "Let me look."},
		{"nothing before it", []string{"\n<tool_", "call>"}, "\n"},
		{"only the end tag", []string{"{\"name\":\"f\"}</tool", "_call>"}, "{\"name\":\"f\"}"},
		{"Gemma", []string{"ok <|tool_call>call:f{}<tool_call|>"}, "ok "},
		{"Mistral", []string{"[TOOL_", "CALLS]f{}"}, ""},
		{"gpt-oss", []string{"<|channel|>commentary to=functions.f"}, ""},
		{"DeepSeek", []string{"<\uff5c", "tool\u2581calls\u2581begin\uff5c>"}, ""},
		{"cut by the token limit", []string{"Let me look.<tool_call>{\"na"}, "Let me look."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := testkit.NewLlama(t)
			l.On(func(_ int, _ []byte, s *testkit.Stream) {
				s.Role()
				for _, p := range tt.pieces {
					s.Text(p)
				}
				if strings.HasPrefix(tt.name, "cut") {
					s.Finish("length")
				} else {
					s.Finish("stop")
				}
				s.TrueUsage()
				s.Done()
			})
			o := chatOnce(t, newClient(l, Limits{}))
			o.want(t, proto.WhyMarkup, true)
			if o.shown() != tt.shown {
				t.Errorf("shown %q, want %q", o.shown(), tt.shown)
			}
			if want := strings.Join(tt.pieces, ""); o.got.Content != want || !o.got.Complete || len(o.got.Calls) != 0 {
				t.Errorf("the record lacks something: %+v", o.got)
			}
		})
	}
}

// Text that only begins like markup is shown in full, at the end at the latest.
func TestNearlyMarkup(t *testing.T) {
	for _, text := range []string{"a < b", "x <tool", "<", "[TOOL_", "a[i] <b>", "<function>", "<tools>", "<|im", "if a<function_b {}", "<<tool_cal"} {
		l := testkit.NewLlama(t)
		l.On(func(_ int, _ []byte, s *testkit.Stream) {
			for _, p := range strings.Split(text, "") {
				s.Text(p)
			}
			s.Finish("stop")
			s.Done()
		})
		o := chatOnce(t, newClient(l, Limits{}))
		o.want(t, "", false)
		if o.shown() != text || o.got.Content != text {
			t.Errorf("%q: shown %q, content %q", text, o.shown(), o.got.Content)
		}
	}
}

// However the content is cut into pieces, what is shown is all of it up to the
// first marker, and never a part of a marker.
func TestFilterShowsAllUpToTheMarker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frag := rapid.SampledFrom(append(markers(), "<", "[", "<tool", "_call", "<|", "[TOOL", "text ", "ä", "<func", "tion=", ""))
		text := strings.Join(rapid.SliceOfN(frag, 0, 6).Draw(t, "fragments"), "")
		want := text
		for _, m := range markers() {
			if i := strings.Index(text, m); i >= 0 && i < len(want) {
				want = text[:i]
			}
		}
		f := filter{markers: markers()}
		shown, left := "", text
		for left != "" {
			n := rapid.IntRange(1, len(left)).Draw(t, "piece")
			shown += f.add(left[:n])
			left = left[n:]
			for _, m := range markers() {
				for n := 1; n <= len(m); n++ {
					if strings.HasSuffix(shown, m[:n]) && strings.HasPrefix(text[len(shown):], m[n:]) {
						t.Fatalf("showed %q, the beginning of %q", m[:n], m)
					}
				}
			}
		}
		shown += f.rest()
		if shown != want || f.hit != (want != text) {
			t.Fatalf("%q: shown %q, want %q, hit %v", text, shown, want, f.hit)
		}
	})
}
