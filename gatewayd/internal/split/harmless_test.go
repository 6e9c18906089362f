package split

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHarmless(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "hello *you*, 1 < 2 & 3", "hello *you*, 1 < 2 & 3"},
		{"all", "@all look", "@~all look"},
		{"channel in capitals", "Hi @Channel!", "Hi @~Channel!"},
		{"here behind a stop", "x.@here", "x.@~here"},
		{"a name", "ask @anna.b", "ask @~anna.b"},
		{"a name in stars", "**@anna**", "**@~anna**"},
		{"an address", "write to anna@example.com", "write to anna@example.com"},
		{"alone", "2 @ 3", "2 @ 3"},
		{"a reference", "&#64;all &#x40;all &commat;all", "&~#64;all &~#x40;all &~commat;all"},
		{"half a reference", "@&#97;ll", "@~&~#97;ll"},
		{"a link with a name", "[@anna](x)", "[@~anna](x)"},
		{"decorators in code", "```python\n@property\ndef x\n```\n@anna", "```python\n@property\ndef x\n```\n@~anna"},
		{"all in code", "```\n@all\n```", "```\n@~all\n```"},
		{"a name in the info", "```@anna\nx\n```", "```@~anna\nx\n```"},
		{"code in a list ends with the list", "- a\n  ```\n@anna\n  ```", "- a\n  ```\n@~anna\n  ```"},
		{"code in a quotation", "> ```\n@anna", "> ``~`\n@~anna"},
		{"an old line end", "```\r@anna\r```\r@bob", "```\n@anna\n```\n@~bob"},
		{"no code: a backtick behind the mark", "```a`\n@anna", "``~`a`\n@~anna"},
		{"a picture", "![x](https://evil.example/?q=secret)", "!~[x](https://evil.example/?q=secret)"},
		{"a picture by reference", "![x][1]", "!~[x][1]"},
		{"a post", "https://chat.example/t/pl/abc", "https://chat.example/t/~pl/abc"},
		{"a card", Seal + " Approve?", "[seal] Approve?"},
		{"controls", "a\x00b\x1b[31m\u202ec", "ab[31mc"},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
		{"a long mark", strings.Repeat("`", 12) + "\n@anna\n", "``~``~``~``~``~``\n@~anna\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.ReplaceAll(Harmless(c.in), gap, "~"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What is harmless stays so, and means what it meant.
func TestHarmlessAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := texts().Draw(t, "text")
		got := Harmless(in)
		for _, all := range []string{"@all", "@channel", "@here", "![", Seal, "&#64;"} {
			if all == "![" || all == "&#64;" {
				if strings.Contains(strings.ReplaceAll(got, "```", ""), all) && !strings.Contains(in, "```") && !strings.Contains(in, "~~~") {
					t.Errorf("%q is left in %q", all, got)
				}
				continue
			}
			for i := 0; i < len(got); {
				j := strings.Index(got[i:], all)
				if j < 0 {
					break
				}
				if before := got[:i+j]; all == Seal || before == "" || !strings.ContainsAny(before[len(before)-1:], "abcdefghijklmnopqrstuvwxyz") {
					t.Errorf("%q is left in %q", all, got)
				}
				i += j + 1
			}
		}
		plain := func(s string) string {
			s = strings.NewReplacer("\r\n", "\n", gap, "", Seal, "[seal]").Replace(s)
			return strings.Join(strings.Fields(s), " ")
		}
		if plain(got) != plain(in) {
			t.Errorf("%q became %q", in, got)
		}
	})
}
