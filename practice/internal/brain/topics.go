package brain

import (
	"fmt"
	"regexp"

	"boxmaker/practice/internal/gen"
)

func answer(text string) func(*turn, []string) gen.Reply {
	return func(*turn, []string) gen.Reply { return gen.Reply{Content: text} }
}

func topic(name, words, text string) rule {
	return rule{name: name, match: about(words), act: answer(text)}
}

// topics are questions about Boxmaker. Rows that name one thing come before rows
// that name many.
func topics() []rule {
	return []rule{
		topic("real server", `real (?:server|model|llm)|llama[- ]?server|llama\.?cpp|gguf|upstream|gpu|own model|another model|language model\?|(?:use|point|connect|switch).* (?:server|model)`, realServerText),
		{name: "what can you do", match: rx(`(?:help(?: me)?|/help|\?|what (?:can|do) you do|what can i (?:ask|say|do)(?: you| here)?|how (?:do i|to) (?:use|start).*|commands)`), act: answer(helpText)},
		topic("practice model", `practice(?: model)?|who are you|what are you|are you (?:an? )?(?:ai|llm|language model|real|human|bot|chatgpt|gpt|claude|qwen).*|which model|your name`, practiceText),
		topic("grants", `grants?|permissions?|allow(?:ed)?|rights?|forbid|policy`, grantsText),
		topic("approvals", `approvals?|approve|ask mode|confirm(?:ation)?`, approvalsText),
		topic("audit", `audit|prove|tamper|hash chain|what did you do`, auditText),
		topic("broker", `broker|brokerd|no-broker|denied|denial|refused`, brokerText),
		topic("slots", `slots?|id_slot|background|parallel sessions?`, slotsText),
		topic("cache", `cache|re-?reads?|prefix|prefill|prompt processing|why (?:is it |so )?(?:slow|fast)|cold`, cacheText),
		topic("epochs", `epochs?|compact(?:ion)?|context (?:is )?full|context (?:window|size)|n_ctx|too long`, epochsText),
		topic("sessions", `sessions?|history|resume|conversations?|logs?`, sessionsText),
		topic("memory", `memory|memories|notes?|core\.md`, memoryText),
		topic("taint", `taint|untrusted|class(?:es)?|secret|private|injection|injected`, taintText),
		topic("network", `network|internet|privacy|cloud|telemetry|phone home|egress|online|offline`, networkText),
		topic("roles", `roles?|processes|daemons?|loopd|inferproxy|gatewayd|memoryd|egressd|architecture|how (?:do you|does (?:it|boxmaker)) work`, rolesText),
		topic("tools", `tools?|find_tool|call_tool|containers?|sandbox`, toolsText),
		topic("commands", `bxctl|command line|cli|status|stop|quit|exit|shut ?down|upgrade|install`, commandsText),
		topic("files", `files?|folders?|where|config(?:uration)?|settings|BOXMAKER_HOME|backup`, filesText),
		topic("thinking", `think(?:ing)?|reasoning|thoughts?`, thinkingText),
		topic("mattermost", `mattermost|phone|channel|chat app|telegram|signal`, channelText),
		topic("schedule", `schedule|cron|heartbeat|every (?:day|morning|hour|week)|remind`, scheduleText),
		topic("boxmaker", `boxmaker|this (?:program|system|thing)|neuromancer|count zero|why the name`, boxmakerText),
	}
}

// smallTalk is last but for "none".
func smallTalk() []rule {
	return []rule{
		{name: "greeting", match: regexp.MustCompile(`(?i)^\s*(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|greetings|moin|servus|yo)\b`), act: answer("Hello. I run on your own machine, and I can do only what you have granted.\n\nTry `what can you do?`, `what time is it?`, `list my notes`, or `what are grants?`.")},
		{name: "thanks", match: about(`thanks?|thank you|thx|danke|merci`), act: answer("You are welcome.")},
		{name: "goodbye", match: regexp.MustCompile(`(?i)^\s*(?:bye|goodbye|good night|see you|tschüss|ciao)\b`), act: answer("Goodbye. This conversation is kept in its session file; you can take it up again at any time.")},
		{name: "how are you", match: about(`how are you|how do you feel|how's it going`), act: answer("I am a table of rules, and all of them are in place. What shall I do?")},
		{name: "yes or no", match: rx(`(?:yes|no|yep|nope|sure|fine|ok|okay|try again|again|go on|continue|more)`), act: answer("I do not keep track of what a short answer refers to. Say the whole request again, please, for example `list my notes`.")},
		{name: "test", match: rx(`(?:test|testing|ping|are you there|does this work)`), act: answer("It works: your message went through `loopd` and `inferproxy` to me, and this answer came back the same way.")},
	}
}

func notUnderstood(t *turn, _ []string) gen.Reply {
	if len(t.text) > longest {
		return gen.Reply{
			Reasoning: "This message is long, and no rule reads long messages.",
			Content:   fmt.Sprintf("That message has %d bytes. It arrived whole, but I know only short requests and cannot say anything about its content.", len(t.text)),
		}
	}
	return gen.Reply{
		Reasoning: "No rule fits this message. I should say so and not pretend.",
		Content: "I did not understand that. I know only fixed patterns, in English.\n\n" +
			"Try `what can you do?`, `what time is it?`, `list my notes`, `read notes/today.md`, `run uname -a`, or a question such as `what are grants?`. " +
			"For a conversation with a language model, connect a `llama-server`: ask `how do I use a real model?`.",
	}
}
