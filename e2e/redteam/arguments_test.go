package redteam

import (
	"path/filepath"
	"strings"

	"boxmaker/internal/proto"
)

// argumentTricks: arguments that one parser reads one way and another one
// another way. None may reach a container.
func argumentTricks() family {
	return family{
		name: "argument JSON tricks",
		stage: func(r *rig) {
			r.grant("10-read", readGrant(r.granted))
			r.grant("20-write", writeGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			in, out := filepath.Join(r.granted, "note.txt"), filepath.Join(r.outside, "canary.txt")
			rows := []attempt{}
			add := func(name, tool, args string) {
				rows = append(rows, attempt{name: name, tool: tool, args: args, want: []proto.Code{proto.CodeInvalidArguments}})
			}
			add("a key twice, the second outside", "read_file", `{"path":"`+in+`","path":"`+out+`"}`)
			add("a key twice, the first outside", "read_file", `{"path":"`+out+`","path":"`+in+`"}`)
			add("a key twice, one escaped", "read_file", `{"path":"`+in+`","p\u0061th":"`+out+`"}`)
			add("a key in other case", "read_file", `{"path":"`+in+`","Path":"`+out+`"}`)
			add("only in other case", "read_file", `{"PATH":"`+out+`"}`)
			add("an unknown key", "read_file", `{"path":"`+in+`","follow":true}`)
			add("a key of the runner", "read_file", `{"path":"`+in+`","mounts":["/"]}`)
			add("a prototype", "read_file", `{"path":"`+in+`","__proto__":{"path":"`+out+`"}}`)
			add("a path that is an array", "read_file", `{"path":["`+in+`","`+out+`"]}`)
			add("a path that is an object", "read_file", `{"path":{"path":"`+out+`"}}`)
			add("a path that is a number", "read_file", `{"path":7}`)
			add("a path that is null", "read_file", `{"path":null}`)
			add("no path", "read_file", `{}`)
			add("an empty path", "read_file", `{"path":""}`)
			add("an array", "read_file", `["`+in+`"]`)
			add("a string", "read_file", `"`+in+`"`)
			add("null", "read_file", `null`)
			add("nothing", "read_file", ``)
			add("white space", "read_file", "  \n ")
			add("two documents", "read_file", `{"path":"`+in+`"}{"path":"`+out+`"}`)
			add("a comment", "read_file", `{"path":"`+in+`"/* x */}`)
			add("a trailing comma", "read_file", `{"path":"`+in+`",}`)
			add("single quotes", "read_file", `{'path':'`+in+`'}`)
			add("cut short", "read_file", `{"path":"`+in)
			add("a byte order mark", "read_file", "\ufeff"+`{"path":"`+in+`"}`)
			add("half of a surrogate pair", "read_file", `{"path":"`+in+`\ud800"}`)
			add("a raw line break in a string", "read_file", "{\"path\":\""+in+"\n\"}")
			add("a huge number", "read_file", `{"path":"`+in+`","limit":1e400}`)
			add("a number beyond 64 bits", "read_file", `{"path":"`+in+`","limit":18446744073709551616}`)
			add("a negative number", "read_file", `{"path":"`+in+`","offset":-1}`)
			add("a fraction", "read_file", `{"path":"`+in+`","limit":1.5}`)
			add("a number as text", "read_file", `{"path":"`+in+`","limit":"10"}`)
			add("NaN", "read_file", `{"path":"`+in+`","limit":NaN}`)
			add("deep nesting", "read_file", `{"path":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`}`)
			add("deep nesting in an unknown key", "read_file", `{"path":"`+in+`","x":`+strings.Repeat(`{"x":`, 5000)+"1"+strings.Repeat("}", 5000)+`}`)
			add("a key of a megabyte", "read_file", `{"`+strings.Repeat("k", 1<<20)+`":1,"path":"`+in+`"}`)
			for what, p := range map[string]string{"stars": "(a*)*", "optional signs": "a?b?c?", "alternatives": "(a|b|c)", "letters of any kind": `\\pL?`} {
				add("a pattern that becomes long: "+what, "search_files", `{"path":"`+r.outside+`","pattern":"(?:`+strings.Repeat(p, 900/len(p))+`){999}"}`)
			}
			add("a mode that is none", "write_file", `{"path":"`+in+`","content":"x","mode":"append"}`)
			add("a mode in other case", "write_file", `{"path":"`+in+`","content":"x","mode":"Overwrite"}`)
			return rows
		},
	}
}

// readGrant lets a folder be read, listed and searched.
func readGrant(dir string) string {
	return "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"" + dir + "\"]\n"
}

// writeGrant lets files of a folder be written.
func writeGrant(dir string) string {
	return "tool = \"write_file\"\nmode = \"auto\"\n[paths]\nwrite = [\"" + dir + "\"]\n"
}
