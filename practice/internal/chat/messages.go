package chat

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/template"
)

// text is a JSON string's value, "" for any other kind.
func text(v jsontext.Value) string {
	var s string
	if v.Kind() == '"' && json.Unmarshal(v, &s, jsontext.AllowInvalidUTF8(true)) == nil {
		return s
	}
	return ""
}

func list(v jsontext.Value) ([]jsontext.Value, bool) {
	var out []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &out, jsontext.AllowDuplicateNames(true)) != nil {
		return nil, false
	}
	return out, true
}

func messages(v jsontext.Value) ([]template.Message, error) {
	items, ok := list(v)
	if !ok {
		return nil, invalid("Expected 'messages' to be an array, got %s", v)
	}
	out := make([]template.Message, 0, len(items))
	for _, item := range items {
		if item.Kind() != '{' {
			return nil, invalid("Expected 'message' to be an object, got %s", item)
		}
		m, err := object(item)
		if err != nil {
			return nil, err
		}
		one, err := message(m)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if n := len(out); n > 1 && out[n-1].Role == "assistant" && out[n-2].Role == "assistant" {
		return nil, invalid("Cannot have 2 or more assistant messages at the end of the list.")
	}
	return out, nil
}

func message(m map[string]jsontext.Value) (template.Message, error) {
	role, ok := m["role"]
	if !ok || role.Kind() != '"' {
		return template.Message{}, invalid("Missing 'role' in message")
	}
	out := template.Message{Role: text(role), Reasoning: text(m["reasoning_content"])}
	calls, err := toolUses(m["tool_calls"])
	if err != nil {
		return out, err
	}
	out.Calls = calls
	content, ok := m["content"]
	switch {
	case !ok || content.Kind() == 'n':
		if out.Role == "assistant" && len(calls) == 0 && out.Reasoning == "" {
			return out, invalid("Expected 'content' or 'tool_calls'")
		}
	case content.Kind() == '"':
		out.Content = text(content)
	case content.Kind() == '[':
		if out.Content, err = parts(content); err != nil {
			return out, err
		}
	default:
		return out, invalid("Expected 'content' to be a string or an array")
	}
	return out, nil
}

// parts joins the text parts of a typed content.
func parts(v jsontext.Value) (string, error) {
	items, _ := list(v)
	var texts []string
	for _, item := range items {
		m, err := object(item)
		if err != nil {
			return "", err
		}
		if kind := text(m["type"]); kind != "text" {
			return "", invalid("unsupported content[].type")
		}
		texts = append(texts, text(m["text"]))
	}
	return strings.Join(texts, "\n"), nil
}

// toolUses reads tool_calls. Arguments come as a JSON text in a string, or as
// the object itself; whether they are an object is the template's business.
func toolUses(v jsontext.Value) ([]template.ToolUse, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	items, ok := list(v)
	if !ok {
		return nil, invalid("Expected 'tool_calls' to be an array")
	}
	var out []template.ToolUse
	for _, item := range items {
		m, err := object(item)
		if err != nil {
			return nil, err
		}
		f, ok := m["function"]
		if !ok || f.Kind() != '{' {
			return nil, invalid("Missing tool call type")
		}
		fm, err := object(f)
		if err != nil {
			return nil, err
		}
		args := fm["arguments"]
		if args.Kind() == '"' {
			args = jsontext.Value(text(args))
		}
		out = append(out, template.ToolUse{Name: text(fm["name"]), Arguments: args})
	}
	return out, nil
}

func tools(v jsontext.Value) ([]Tool, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	items, ok := list(v)
	if !ok {
		return nil, invalid("Expected 'tools' to be an array, got %s", v)
	}
	var out []Tool
	for _, item := range items {
		m, err := object(item)
		if err != nil {
			return nil, err
		}
		f, err := object(m["function"])
		if err != nil || f["name"].Kind() != '"' {
			return nil, invalid("Missing tool function name")
		}
		out = append(out, Tool{Name: text(f["name"]), Description: text(f["description"]), Parameters: f["parameters"], Raw: item})
	}
	return out, nil
}

func choice(v jsontext.Value, to *Choice) error {
	if v.Kind() != '"' {
		return nil // the object form did not force a call (sample tool_choice_named)
	}
	c := Choice(text(v))
	if !slices.Contains([]Choice{Auto, Required, None}, c) {
		return invalid("Invalid tool_choice: %s", string(c))
	}
	*to = c
	return nil
}

// thinking reads the two switches that work. reasoning_budget, thinking_budget
// and thinking:{…} are ignored, as on the real server.
func thinking(m map[string]jsontext.Value, to *bool) error {
	if text(m["reasoning_effort"]) == "none" {
		*to = false
	}
	kwargs, ok := m["chat_template_kwargs"]
	if !ok || kwargs.Kind() != '{' {
		return nil
	}
	k, err := object(kwargs)
	if err != nil {
		return err
	}
	v, ok := k["enable_thinking"]
	if !ok {
		return nil
	}
	if v.Kind() != 't' && v.Kind() != 'f' {
		return invalid("invalid type for %q (expected boolean, got %s)", "enable_thinking", kindName(v))
	}
	*to = v.Kind() == 't'
	return nil
}
