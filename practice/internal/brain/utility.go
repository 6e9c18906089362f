package brain

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"boxmaker/practice/internal/gen"
)

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0 // the patterns have digits only
	}
	return n
}

func faultSwitch(_ *turn, m []string) gen.Reply {
	return gen.Reply{Content: "Fault switch `" + inert(m[1]) + "`: if the practice model runs with `-faults`, this answer arrived (or did not) as ordered. Without that flag the line does nothing."}
}

func answerWith(_ *turn, m []string) gen.Reply {
	return gen.Reply{Reasoning: "I am to answer with these very words.", Content: m[1]}
}

func say(_ *turn, m []string) gen.Reply {
	return gen.Reply{Reasoning: "I am to say something.", Content: unquote(m[1])}
}

func sayWords(_ *turn, m []string) gen.Reply {
	return gen.Reply{Reasoning: "I am to say " + m[1] + " words. What they mean does not matter.", Content: ramble(number(m[1]))}
}

func count(_ *turn, m []string) gen.Reply {
	var b strings.Builder
	for i := range number(m[1]) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(i + 1))
	}
	return gen.Reply{Reasoning: "I am to count to " + m[1] + ".", Content: b.String()}
}

func thinkWords(_ *turn, m []string) gen.Reply {
	return gen.Reply{Reasoning: ramble(number(m[1])), Content: "I thought for " + m[1] + " words, or as far as I was allowed to."}
}

func thinkLong(_ *turn, _ []string) gen.Reply {
	return gen.Reply{Reasoning: ramble(400), Content: "I thought about it for a while, as told. Being a set of rules, I am none the wiser."}
}

// clock is a call of the clock, which may stand behind call_tool.
func (t *turn) clock() gen.Use { return gen.Use{Name: "clock", Arguments: "{}"} }

func clockTimes(t *turn, m []string) gen.Reply {
	n, done := number(m[1]), len(t.steps)
	if done < n {
		return gen.Reply{Reasoning: "Call " + strconv.Itoa(done+1) + " of " + m[1] + ".", Calls: []gen.Use{t.clock()}}
	}
	r := gen.Reply{Reasoning: "All calls are made.", Content: "I called the clock " + m[1] + " times."}
	if done > 0 {
		r.Content += " The last answer:\n\n" + fence(t.steps[done-1].result)
	}
	return r
}

func repeatForEver(t *turn, _ []string) gen.Reply {
	return gen.Reply{Reasoning: "The same call again, as told.", Calls: []gen.Use{t.clock()}}
}

func alternateForEver(t *turn, _ []string) gen.Reply {
	if len(t.steps)%2 == 0 {
		return gen.Reply{Reasoning: "One call, then the other.", Calls: []gen.Use{t.clock()}}
	}
	return gen.Reply{Reasoning: "The other call, then the first.", Calls: []gen.Use{{Name: "find_tool", Arguments: `{"query":"files"}`}}}
}

func inParallel(t *turn, _ []string) gen.Reply {
	files := wish{what: "a list of your notes", tools: []string{"list_files"}, query: "list files", args: []arg{{"path", path("notes")}}}
	if len(t.made("clock")) == 0 {
		r := gen.Reply{Reasoning: "Two things that do not depend on each other: I ask for both at once.", Calls: []gen.Use{t.clock()}}
		first := t.want(files)
		r.Calls = append(r.Calls, first.Calls...)
		return r
	}
	if r, ok := readRefusal(t.made("clock")[0].result); ok {
		return gen.Reply{Content: explain("the time", r)}
	}
	r := t.want(files)
	if len(r.Calls) == 0 {
		r.Content = "The clock says:\n\n" + fence(t.made("clock")[0].result) + "\n\n" + r.Content
	}
	return r
}

// callNamed calls what it is told to, declared or not: directly if the tool is
// declared or there is no call_tool, else through that.
func callNamed(t *turn, m []string) gen.Reply {
	name, args := m[1], m[2]
	if len(t.steps) > 0 {
		last := t.steps[len(t.steps)-1]
		return t.result(wish{what: "the result of `" + name + "`"}, last)
	}
	_, declared := t.tool(name)
	if _, can := t.tool("call_tool"); can && !declared && jsontext.Value(args).IsValid() {
		return gen.Reply{
			Reasoning: "`" + name + "` is not declared, so I call it through call_tool.",
			Calls:     []gen.Use{{Name: "call_tool", Arguments: `{"name":` + quoteJSON(name) + `,"arguments":` + args + `}`}},
		}
	}
	return gen.Reply{Reasoning: "I am to call `" + name + "` with these arguments.", Calls: []gen.Use{{Name: name, Arguments: args}}}
}
