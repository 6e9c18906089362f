package main

import (
	"fmt"
	"strings"
)

// chatTemplate is a small Jinja template in the manner of Qwen3.5's: ChatML turns,
// a tools section in the system turn, thinking in <think> blocks that stay in the
// history, tool results as user turns. style is the form of a tool call, xml or
// json.
func chatTemplate(style string) (string, error) {
	var call, how string
	switch style {
	case "xml":
		call, how = xmlCall, xmlHow
	case "json":
		call, how = jsonCall, jsonHow
	default:
		return "", fmt.Errorf("tool-call style %q is not xml or json", style)
	}
	return strings.NewReplacer("@@CALL@@", call, "@@HOW@@", how).Replace(tmpl), nil
}

const tmpl = `{%- if tools %}
{{- '<|im_start|>system\n' }}
{{- '# Tools\n\nYou may call these functions:\n<tools>' }}
{%- for tool in tools %}
{{- '\n' }}
{{- tool | tojson }}
{%- endfor %}
{{- '\n</tools>\n\n@@HOW@@' }}
{%- if messages[0].role == 'system' %}
{{- '\n\n' + messages[0].content }}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'system' %}
{%- if not loop.first %}
{{- raise_exception('System message must be at the beginning.') }}
{%- endif %}
{%- elif message.role == 'user' %}
{{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- if message.reasoning_content %}
{{- '<think>\n' + message.reasoning_content | trim + '\n</think>\n\n' }}
{%- else %}
{{- '<think>\n\n</think>\n\n' }}
{%- endif %}
{%- set content = message.content | trim if message.content else '' %}
{{- content }}
{%- if message.tool_calls %}
{%- for tc in message.tool_calls %}
{%- if not loop.first %}
{{- '\n' }}
{%- elif content %}
{{- '\n\n' }}
{%- endif %}
@@CALL@@
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
{{- '<|im_start|>user' }}
{%- endif %}
{{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- else %}
{{- raise_exception('Unexpected message role.') }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\n\n</think>\n\n' }}
{%- else %}
{{- '<think>\n' }}
{%- endif %}
{%- endif %}
`

// Qwen3.5's own way: one tag per function and parameter.
const xmlHow = `Call them like this:\n<tool_call>\n<function=example>\n<parameter=first>\nvalue\n</parameter>\n</function>\n</tool_call>`

const xmlCall = `{{- '<tool_call>\n<function=' + tc.function.name + '>\n' }}
{%- for name, value in tc.function.arguments | items %}
{{- '<parameter=' + name + '>\n' }}
{{- value if value is string else (value | tojson) }}
{{- '\n</parameter>\n' }}
{%- endfor %}
{{- '</function>\n</tool_call>' }}`

// Qwen3's way: one JSON object per call.
const jsonHow = `Call them like this:\n<tool_call>\n{"name": "example", "arguments": {"first": "value"}}\n</tool_call>`

const jsonCall = `{{- '<tool_call>\n{"name": "' + tc.function.name + '", "arguments": ' }}
{%- if tc.function.arguments is string %}
{{- tc.function.arguments }}
{%- else %}
{{- tc.function.arguments | tojson }}
{%- endif %}
{{- '}\n</tool_call>' }}`
