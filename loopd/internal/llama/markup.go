package llama

import "strings"

// markers open, in the models' various templates, a tool call or something that
// belongs to one. In content they mean that the server did not understand what
// the model wrote (llama.cpp issue 20260): nothing may be run from it, and the
// raw markup is no answer for a person.
func markers() []string {
	return []string{
		"<tool_call", "</tool_call", "<tool_response", // Qwen, Hermes, GLM
		"<function=", "<parameter=", // Qwen coder form
		"<function_call",                 // several
		"<|tool_call", "<|tool_response", // Gemma, Kimi
		"<|python_tag|>",          // Llama 3
		"<|channel|>", "<|call|>", // gpt-oss
		"<\uff5ctool",                        // DeepSeek, with full-width bars
		"<minimax:tool_call", "[TOOL_CALLS]", // MiniMax, Mistral
	}
}

// filter finds markup in content that comes in pieces. A piece, or the part of
// it, that may be the beginning of a marker is held back until the next one
// decides; after a marker nothing more is handed out.
type filter struct {
	markers []string
	held    string
	hit     bool
}

// add takes a piece and returns what may be shown now.
func (f *filter) add(piece string) string {
	if f.hit {
		return ""
	}
	text := piece
	if f.held != "" {
		text, f.held = f.held+piece, ""
	}
	for at := 0; ; {
		i := strings.IndexAny(text[at:], "<[")
		if i < 0 {
			return text
		}
		at += i
		for _, m := range f.markers {
			if strings.HasPrefix(text[at:], m) {
				f.hit = true
				return text[:at]
			}
			if strings.HasPrefix(m, text[at:]) {
				f.held = text[at:]
				return text[:at]
			}
		}
		at++
	}
}

// rest returns what was held back, once it is certain that nothing follows.
func (f *filter) rest() string {
	held := f.held
	f.held = ""
	return held
}
