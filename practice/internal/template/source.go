package template

// Source is the chat template as /props shows it, in Jinja. [Render] does
// exactly what it says; the two are compared by hand and by the tests that
// render the sample requests. ChatML turns, a tools section in the system turn,
// thinking in <think> blocks that stay in the history, one tag per function and
// parameter, tool results as user turns.
//
// It trims what the assistant said, so that a reply renders back to the tokens
// that were generated: what a request adds is then a strict extension.
const Source = `{%- if tools %}
{{- '<|im_start|>system\n# Tools\n\nYou may call these functions:\n<tools>' }}
{%- for tool in tools %}
{{- '\n' + (tool | tojson) }}
{%- endfor %}
{{- '\n</tools>\n\nCall them like this:\n<tool_call>\n<function=example>\n<parameter=first>\nvalue\n</parameter>\n</function>\n</tool_call>' }}
{%- if messages and messages[0].role == 'system' %}
{{- '\n\n' + messages[0].content }}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif messages and messages[0].role == 'system' %}
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
{%- set content = (message.content or '') | trim %}
{%- set reasoning = (message.reasoning_content or '') | trim %}
{{- '<|im_start|>assistant\n<think>\n' + reasoning + '\n</think>\n\n' + content }}
{%- for call in message.tool_calls or [] %}
{%- if not loop.first or content %}
{{- '\n' }}
{%- endif %}
{{- '<tool_call>\n<function=' + call.function.name + '>\n' }}
{%- for name, value in call.function.arguments | items %}
{{- '<parameter=' + name + '>\n' + (value if value is string else (value | tojson)) + '\n</parameter>\n' }}
{%- endfor %}
{{- '</function>\n</tool_call>' }}
{%- endfor %}
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
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}
{%- else %}
{{- '<|im_start|>assistant\n<think>\n' }}
{%- endif %}
{%- endif %}`
