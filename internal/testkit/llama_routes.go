package testkit

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ChatTemplate is what /props gives as the chat template.
const ChatTemplate = "{# testkit: ChatML, reasoning kept in every turn #}"

// query answers every route but the chat.
func (l *Llama) query(w http.ResponseWriter, r *http.Request, body []byte) {
	switch r.Method + " " + r.URL.Path {
	case "GET /health", "GET /v1/health":
		answer(w, http.StatusOK, map[string]any{"status": "ok"})
	case "GET /props":
		answer(w, http.StatusOK, l.propsAnswer())
	case "GET /slots":
		answer(w, http.StatusOK, l.slotsAnswer())
	case "GET /v1/models", "GET /models":
		answer(w, http.StatusOK, l.modelsAnswer())
	case "POST /tokenize":
		l.tokenize(w, body)
	case "POST /apply-template":
		l.withPrompt(w, body, func(prompt string) any { return map[string]any{"prompt": prompt} })
	case "POST /v1/chat/completions/input_tokens":
		l.withPrompt(w, body, func(prompt string) any {
			return map[string]any{"input_tokens": tokens(len(prompt)), "object": "response.input_tokens"}
		})
	case "POST /v1/chat/completions/control":
		l.control(w, body)
	default:
		fail(w, http.StatusNotFound, "not_found_error", "File Not Found")
	}
}

func (l *Llama) propsAnswer() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[string]any{
		"default_generation_settings": map[string]any{
			"params": map[string]any{"temperature": 0.8, "top_k": 40, "top_p": 0.95, "speculative.types": "none"},
			"n_ctx":  l.nctx,
		},
		"total_slots": l.slots, "model_alias": l.model, "model_path": "/models/" + l.model + ".gguf",
		"chat_template": ChatTemplate,
		"chat_template_caps": map[string]any{
			"supports_preserve_reasoning": true, "supports_tool_calls": true, "supports_tools": true,
		},
		"build_info": "b11669-test", "is_sleeping": false,
	}
	maps.Copy(m, l.props)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	return m
}

func (l *Llama) slotsAnswer() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for i := range l.slots {
		all = append(all, map[string]any{"id": i, "n_ctx": l.nctx, "speculative": false, "is_processing": false})
	}
	return all
}

func (l *Llama) modelsAnswer() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return map[string]any{"object": "list", "data": []map[string]any{{
		"id": l.model, "aliases": []string{l.model}, "object": "model", "created": 1796051203, "owned_by": "llamacpp",
		"meta": map[string]any{"n_ctx": l.nctx, "n_ctx_train": 262144, "n_vocab": 585},
	}}}
}

func (l *Llama) tokenize(w http.ResponseWriter, body []byte) {
	var q struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	all := make([]int, tokens(len(q.Content)))
	for i := range all {
		all[i] = i
	}
	answer(w, http.StatusOK, map[string]any{"tokens": all})
}

func (l *Llama) withPrompt(w http.ResponseWriter, body []byte, give func(prompt string) any) {
	l.mu.Lock()
	render := l.render
	l.mu.Unlock()
	prompt, err := render(body)
	if err != nil {
		fail(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, give(prompt))
}

func (l *Llama) control(w http.ResponseWriter, body []byte) {
	var q struct {
		ID     string `json:"id"`
		Action string `json:"action"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	l.mu.Lock()
	live := l.live[q.ID]
	l.mu.Unlock()
	if !live || q.Action != "reasoning_end" {
		answer(w, http.StatusOK, map[string]any{"success": false, "message": "no active completion for this id"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"success": true})
}

// RenderChatML renders a chat as the Qwen family does, with the thinking of
// every turn, so that a longer chat extends a shorter one.
func RenderChatML(body []byte) (string, error) {
	var q struct {
		Tools    jsontext.Value `json:"tools"`
		Messages []struct {
			Role      string         `json:"role"`
			Content   *string        `json:"content"`
			Reasoning string         `json:"reasoning_content"`
			Calls     jsontext.Value `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return "", err
	}
	var b strings.Builder
	if len(q.Tools) > 0 && string(q.Tools) != "[]" {
		fmt.Fprintf(&b, "<tools>%s</tools>\n", q.Tools)
	}
	for _, m := range q.Messages {
		content := ""
		if m.Content != nil {
			content = *m.Content
		}
		switch m.Role {
		case "system", "user":
		case "assistant":
			content = "<think>\n" + m.Reasoning + "\n</think>\n\n" + content + string(m.Calls)
		case "tool":
			content = "<tool_response>\n" + content + "\n</tool_response>"
		default:
			return "", errors.New("unexpected message role")
		}
		fmt.Fprintf(&b, "<|im_start|>%s\n%s<|im_end|>\n", m.Role, content)
	}
	b.WriteString("<|im_start|>assistant\n<think>\n")
	return b.String(), nil
}
