package brain

import (
	"regexp"

	"boxmaker/practice/internal/gen"
)

// A rule is one row of the table: a pattern for the owner's message, and what to
// do about it. Submatches go to act.
type rule struct {
	name  string
	match *regexp.Regexp
	act   func(t *turn, m []string) gen.Reply
	exact bool // the answer is the owner's own words: no introduction
}

// polite is what may stand before a request and changes nothing.
const polite = `(?is)^(?:(?:please|now|ok|okay|hey|hi|hello|then|and|boxmaker|can you|could you|would you|will you|i want you to|i'd like you to|let's)[,:]?\s+)*`

// end is what may stand behind it.
const end = `(?:,?\s+please)?[\s.!?]*$`

func rx(pattern string) *regexp.Regexp {
	return regexp.MustCompile(polite + `(?:` + pattern + `)` + end)
}

// about matches a message that mentions a subject.
func about(words string) *regexp.Regexp { return regexp.MustCompile(`(?is)\b(?:` + words + `)\b`) }

// rules is the table. The first row that matches decides, so that what is said
// word for word comes before requests, requests before questions, and "none" at
// the end matches everything.
func rules() []rule {
	var all []rule
	all = append(all, utilities()...)
	all = append(all, requests()...)
	all = append(all, topics()...)
	return append(all, smallTalk()...)
}

// longest is the longest message, in bytes, that is looked at with all rules.
const longest = 8000

// find gives the row for a message and its submatches. A very long message is
// no request: it is looked at only for the words that are to be given back.
func (b *Brain) find(text string) (rule, []string) {
	for _, r := range b.rules {
		if len(text) > longest && !r.exact {
			continue
		}
		if m := r.match.FindStringSubmatch(text); m != nil {
			return r, m
		}
	}
	return rule{name: "none", act: notUnderstood}, []string{text}
}

// utilities are for demonstrations and tests: they say or do exactly what they
// are told.
func utilities() []rule {
	return []rule{
		{name: "fault switch", match: regexp.MustCompile(`^!fault\s+(\S+)`), act: faultSwitch},
		{name: "answer with", match: regexp.MustCompile(`(?is)^(?:answer|reply|respond) with:?\s+(.+)$`), act: answerWith, exact: true},
		{name: "say words", match: rx(`say (\d{1,6}) words?`), act: sayWords},
		{name: "count", match: rx(`count (?:from (?:1|one) )?(?:up )?to (\d{1,6})`), act: count},
		{name: "think words", match: rx(`think (?:for|about|in) (\d{1,6}) words?`), act: thinkWords},
		{name: "think long", match: rx(`think\b.*\b(?:hard|long|longer|carefully|deeply|step by step)\b.*`), act: thinkLong},
		{name: "clock times", match: rx(`call (?:the )?clock (\d{1,4}) times?`), act: clockTimes},
		{name: "for ever", match: rx(`repeat (?:the same call|a call|.*\bclock\b.*) (?:for ?ever|without end|endlessly)`), act: repeatForEver},
		{name: "alternate", match: rx(`alternate .*(?:for ?ever|without end|endlessly)`), act: alternateForEver},
		{name: "parallel", match: rx(`call (?:the )?clock and list (?:my )?(?:notes|files) in parallel`), act: inParallel},
		{name: "call with", match: regexp.MustCompile(`(?s)^[Cc]all (?:the tool )?` + "`?([a-z][a-z0-9_]*)`?" + ` with (\{.*\})\s*$`), act: callNamed},
		{name: "say", match: regexp.MustCompile(`(?is)^(?:say|echo|repeat after me):?\s+(.+)$`), act: say},
	}
}

// requests need a tool.
func requests() []rule {
	return []rule{
		{name: "time", match: rx(`(?:tell me )?(?:what(?:'s| is| time is)?\s*)?(?:the )?(?:time|date|day)(?: is it| is today)?(?: now| today)?|.*\bwhat (?:time|date|day)\b.*|call (?:the )?clock`), act: askTime},
		{name: "tools", match: rx(`(?:what|which|list|show)(?: me)?(?: all)?(?: the| your)? tools.*|what can you call`), act: askTools},
		{name: "find tool", match: rx(`(?:find|look for) (?:me )?(?:a |any )?tools? (?:for|to|that|which can)\s+(.+?)`), act: findTool},
		{name: "list in", match: rx(`(?:list|show)(?: me)? (?:all )?(?:the |my )?(?:files|notes|documents|folders?|director(?:y|ies)|everything|what is) (?:in|of|under|at|inside)\s+(?:the |my )?(?:folder |directory )?(\S+)`), act: listFiles},
		{name: "list", match: rx(`(?:list|show)(?: me)? (?:all )?(?:the |my )?(files|notes|documents|workspace|folders?|director(?:y|ies))`), act: listFiles},
		{name: "list path", match: rx(`(?:list|ls)\s+([~./]\S*)`), act: listFiles},
		{name: "search in", match: rx(`(?:search|grep|look) (?:in |through )?(?:(?:all )?my (?:notes|files) )?for\s+(.+?)\s+in\s+(\S+)`), act: searchFiles},
		{name: "search", match: rx(`(?:search|grep|look) (?:in |through )?(?:(?:all )?my (?:notes|files) )?for\s+(.+?)`), act: searchFiles},
		{name: "find in", match: rx(`find\s+(.+?)\s+in (?:my )?(notes|files|\S*[/.]\S*)`), act: searchFiles},
		{name: "write to", match: rx(`(?:write|save|put)\s+(.+?)\s+(?:to|into|in|as)\s+(?:the file |a file (?:called |named )?)?(\S*[/.]\S*?)`), act: func(t *turn, m []string) gen.Reply { return writeFile(t, m[2], m[1], "") }},
		{name: "write", match: rx(`(?:write|create|make)\s+(?:a |the )?(?:file )?(?:called |named )?(\S*[/.][^\s:]*)(?: with|:|,? saying)\s*(?:the (?:text|words?|content)s?:?\s+)?(.+?)`), act: func(t *turn, m []string) gen.Reply { return writeFile(t, m[1], m[2], "") }},
		{name: "overwrite", match: rx(`overwrite\s+(?:the )?(?:file )?(\S*[/.][^\s:]*)(?: with|:)\s*(?:the (?:text|words?|content)s?:?\s+)?(.+?)`), act: func(t *turn, m []string) gen.Reply { return writeFile(t, m[1], m[2], "overwrite") }},
		{name: "edit", match: rx(`(?:edit|change|replace)\s+(.+?)\s+(?:with|to|by)\s+(.+?)\s+in\s+(\S+?)`), act: editFile},
		{name: "fetch", match: rx(`(?:fetch|get|download|open|load|visit|read)\s+(?:the )?(?:page |url )?(https?://\S+?|(?:www\.)[a-z0-9.-]+\.[a-z]{2,}\S*?)`), act: fetch},
		{name: "fetch host", match: rx(`(?:fetch|download|visit)\s+(?:the )?(?:page |url )?([a-z0-9.-]+\.[a-z]{2,}(?:/\S*?)?)`), act: fetch},
		{name: "read", match: rx(`(?:read|open|show|cat|print)(?: me)?\s+(?:the )?(?:file )?(` + quoted + `|\S*[/.]\S*?|notes?)`), act: readFile},
		{name: "read my", match: rx(`(?:read|open)(?: me)? my (\S+?)(?: file)?`), act: readFile},
		{name: "what is in", match: rx(`what(?:'s| is| does) (?:in |inside )?(?:the file )?(\S*[/.]\S*?)(?: say)?`), act: readFile},
		{name: "shell", match: rx(`(?:shell|in a shell run|run in a shell):?\s+(.+?)`), act: shell},
		{name: "run", match: rx(`(?:run|execute|start)\s+(?:the )?(?:command |program )?(.+?)`), act: run},
		{name: "remember", match: rx(`(?:remember|note|note down|don't forget)(?: that)?:?\s+(.+?)`), act: remember},
		{name: "recall", match: rx(`(?:recall|what do you (?:remember|know) about|what did i (?:say|tell you) about)\s+(.+?)`), act: recall},
		{name: "delegate", match: rx(`(?:delegate|start a subagent (?:to|for)):?\s+(.+?)`), act: delegate},
		{name: "consult", match: rx(`consult(?: about| on)?:?\s+(.+?)`), act: consult},
		{name: "summary", match: rx(`(?:summari[sz]e|write a summary|give me a summary)\b.*`), act: summary},
	}
}

const quoted = `"[^"]+"|'[^']+'|` + "`[^`]+`"
