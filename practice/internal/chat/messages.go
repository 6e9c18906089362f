package chat

import (
	"errors"
	"fmt"
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

// dump is a value in one line, as error texts quote it.
func dump(v jsontext.Value) string {
	v = v.Clone()
	if v.Compact(jsontext.AllowDuplicateNames(true)) != nil {
		return "null"
	}
	return string(v)
}

// messages reads the list. What fails before the conversation is taken apart is
// the client's fault (400); what fails then is "Failed to parse" (500).
func messages(v jsontext.Value) ([]template.Message, error) {
	items, ok := list(v)
	if !ok {
		return nil, invalid("Expected 'messages' to be an array")
	}
	var parsed []map[string]jsontext.Value
	for _, item := range items {
		m, err := Members(item)
		if err != nil {
			return nil, err
		}
		if err := checkContent(m); err != nil {
			return nil, err
		}
		parsed = append(parsed, m)
	}
	out := make([]template.Message, 0, len(items))
	for i, m := range parsed {
		one, err := message(m, items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if n := len(out); n > 0 && out[n-1].Role == "assistant" {
		if n > 1 && out[n-2].Role == "assistant" {
			return nil, invalid("Cannot have 2 or more assistant messages at the end of the list.")
		}
		if len(out[n-1].Calls) > 0 {
			return nil, invalid("Cannot continue an assistant message that contains tool calls.")
		}
	}
	return out, nil
}

func checkContent(m map[string]jsontext.Value) error {
	content, ok := m["content"]
	if !ok && text(m["role"]) != "assistant" {
		return invalid("All non-assistant messages must contain 'content'")
	}
	if _, calls := m["tool_calls"]; !ok && !calls {
		return invalid("Assistant message must contain either 'content' or 'tool_calls'!")
	}
	if k := content.Kind(); ok && k != '"' && k != '[' && k != 'n' {
		return invalid("Expected 'content' to be a string or an array")
	}
	items, _ := list(content)
	for _, item := range items {
		part, err := Members(item)
		if err != nil {
			return err
		}
		if text(part["type"]) != "text" {
			return invalid("unsupported content[].type")
		}
	}
	return nil
}

func message(m map[string]jsontext.Value, raw jsontext.Value) (template.Message, error) {
	role, ok := m["role"]
	if !ok {
		return template.Message{}, broken("Failed to parse messages: Missing 'role' in message: %s", dump(raw))
	}
	for _, v := range []jsontext.Value{role, m["reasoning_content"], m["name"], m["tool_call_id"]} {
		if k := v.Kind(); len(v) > 0 && k != '"' && k != 'n' {
			return template.Message{}, broken("Failed to parse messages: [json.exception.type_error.302] type must be string, but is %s", kindName(v))
		}
	}
	out := template.Message{Role: text(role), Reasoning: text(m["reasoning_content"]), Content: text(m["content"])}
	if out.Role == "developer" {
		out.Role = "system"
	}
	var texts []string
	items, typed := list(m["content"])
	for _, item := range items {
		part, err := Members(item)
		if err != nil {
			return out, err
		}
		if _, ok := part["text"]; !ok {
			return out, broken("Failed to parse messages: [json.exception.out_of_range.403] key 'text' not found")
		}
		texts = append(texts, text(part["text"]))
	}
	if typed {
		out.Content = strings.Join(texts, "\n")
	}
	var err error
	out.Calls, err = toolUses(m["tool_calls"])
	return out, err
}

// toolUses reads tool_calls. Arguments come as a JSON text in a string, or as
// the value itself; whether they are an object is the template's business.
func toolUses(v jsontext.Value) ([]template.ToolUse, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	items, ok := list(v)
	if !ok {
		return nil, broken("Failed to parse messages: Missing tool call type: %s", dump(v))
	}
	var out []template.ToolUse
	for _, item := range items {
		use, err := toolUse(item)
		if err != nil {
			return nil, err
		}
		out = append(out, use)
	}
	return out, nil
}

func toolUse(item jsontext.Value) (template.ToolUse, error) {
	var out template.ToolUse
	m, err := Members(item)
	if err != nil {
		return out, err
	}
	const failed = "Failed to parse messages: "
	if _, ok := m["type"]; !ok {
		return out, broken(failed+"Missing tool call type: %s", dump(item))
	}
	if text(m["type"]) != "function" {
		return out, broken(failed+"Unsupported tool call type: %s", dump(item))
	}
	if _, ok := m["function"]; !ok {
		return out, broken(failed+"Missing tool call function: %s", dump(item))
	}
	f, err := Members(m["function"])
	if err != nil {
		return out, err
	}
	name, ok := f["name"]
	if !ok {
		return out, broken(failed+"Missing tool call name: %s", dump(item))
	}
	if name.Kind() != '"' {
		return out, broken(failed+"[json.exception.type_error.302] type must be string, but is %s", kindName(name))
	}
	args, ok := f["arguments"]
	if !ok {
		return out, broken(failed + "[json.exception.out_of_range.403] key 'arguments' not found")
	}
	if args.Kind() == '"' {
		if args, err = read([]byte(text(args))); err != nil {
			var e *Error
			if errors.As(err, &e) {
				return out, broken("Failed to parse tool call arguments as JSON: %s", e.Message)
			}
			return out, err
		}
	}
	return template.ToolUse{Name: text(name), Arguments: args}, nil
}

func tools(v jsontext.Value) ([]Tool, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	failed := func(format string, args ...any) error {
		indented := v.Clone()
		_ = indented.Indent(jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true)) // valid: it was read
		return broken("Failed to parse tools: %s; tools = %s", fmt.Sprintf(format, args...), indented)
	}
	items, ok := list(v)
	if !ok {
		return nil, failed("Expected 'tools' to be an array, got %s", dump(v))
	}
	var out []Tool
	for _, item := range items {
		m, err := Members(item)
		if err != nil {
			return nil, err
		}
		if _, ok := m["type"]; !ok {
			return nil, failed("Missing tool type: %s", dump(item))
		}
		if text(m["type"]) != "function" {
			return nil, failed("Unsupported tool type: %s", dump(item))
		}
		function, ok := m["function"]
		if !ok {
			return nil, failed("Missing tool function: %s", dump(item))
		}
		f, err := Members(function)
		if err != nil {
			return nil, err
		}
		switch name, ok := f["name"]; {
		case function.Kind() != '{':
			return nil, failed("[json.exception.type_error.304] cannot use at() with %s", kindName(function))
		case !ok:
			return nil, failed("[json.exception.out_of_range.403] key 'name' not found")
		case name.Kind() != '"':
			return nil, failed("[json.exception.type_error.302] type must be string, but is %s", kindName(name))
		}
		if p := f["parameters"]; len(p) > 0 && p.Kind() != '{' {
			return nil, broken("JSON schema error at #: schema must be an object")
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
	k, err := Members(kwargs)
	if err != nil {
		return err
	}
	switch v := k["enable_thinking"]; v.Kind() {
	case '"':
		return invalid("invalid type for %q (expected boolean, got string)", "enable_thinking")
	case 'f':
		*to = false
	}
	return nil
}
