package tool

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

func decode(t *testing.T, tool, args string) *Call {
	t.Helper()
	c, err := Find(tool).Decode(args)
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	return c
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args, canonical string
		reads, writes, hosts        []string
	}{
		{"list", "list_files", `{"path":"/a"}`, `{"path":"/a"}`, []string{"/a"}, nil, nil},
		{"list, a default that is written", "list_files", ` { "depth" : 1, "path" : "/" } `, `{"path":"/"}`, []string{"/"}, nil, nil},
		{"list, zero is the default", "list_files", `{"path":"/a","depth":0}`, `{"path":"/a"}`, []string{"/a"}, nil, nil},
		{"list, minus zero too", "list_files", `{"path":"/a","depth":-0}`, `{"path":"/a"}`, []string{"/a"}, nil, nil},
		{"list, dots are resolved", "list_files", `{"path":"//a/./b/../../c//","depth":3}`, `{"path":"/c","depth":3}`, []string{"/c"}, nil, nil},
		{"list, above the root", "list_files", `{"path":"/../../etc"}`, `{"path":"/etc"}`, []string{"/etc"}, nil, nil},
		{"read, all", "read_file", `{"numbers":true,"column":7,"limit":9,"offset":2,"path":"/a"}`, `{"path":"/a","offset":2,"limit":9,"column":7,"numbers":true}`, []string{"/a"}, nil, nil},
		{"read, escapes in the text", "read_file", `{"p\u0061th":"\/\u00e9"}`, `{"path":"/é"}`, []string{"/é"}, nil, nil},
		{"search", "search_files", `{"path":"/a","pattern":"a\\.b","name":"*.md","limit":100}`, `{"path":"/a","pattern":"a\\.b","name":"*.md"}`, []string{"/a"}, nil, nil},
		{"search, counted", "search_files", `{"path":"/a","pattern":"(\\w+\\s){0,100}[^x]{1000}error.{0,200}$"}`, `{"path":"/a","pattern":"(\\w+\\s){0,100}[^x]{1000}error.{0,200}$"}`, []string{"/a"}, nil, nil},
		{"write", "write_file", `{"content":"","path":"/a/b"}`, `{"path":"/a/b","content":""}`, nil, []string{"/a/b"}, nil},
		{"write, a NUL in the text", "write_file", `{"path":"/a","content":"\u0000","mode":"overwrite"}`, `{"path":"/a","content":"\u0000","mode":"overwrite"}`, nil, []string{"/a"}, nil},
		{"edit", "edit_file", `{"path":"/a","old":"x","new":""}`, `{"path":"/a","old":"x","new":""}`, nil, []string{"/a"}, nil},
		{"run", "run", `{"argv":["ls","","-l\n"]}`, `{"argv":["ls","","-l\n"]}`, nil, nil, nil},
		{"run, in a folder", "run", `{"argv":["/usr/bin/ls"],"dir":"/a/"}`, `{"argv":["/usr/bin/ls"],"dir":"/a"}`, []string{"/a"}, nil, nil},
		{"run, in /tmp", "run", `{"argv":["ls"],"dir":"/tmp/"}`, `{"argv":["ls"]}`, nil, nil, nil},
		{"shell", "shell", `{"command":"ls | wc","dir":"/a"}`, `{"command":"ls | wc","dir":"/a"}`, []string{"/a"}, nil, nil},
		{"fetch", "http_fetch", `{"url":"HTTPS://Example.COM.:443"}`, `{"url":"https://example.com/"}`, nil, nil, []string{"example.com:443"}},
		{
			"fetch, all", "http_fetch", `{"url":"http://a.b:8080/x y?q=ü#part","method":"POST","body":"b","headers":{"x-b":" 1 ","accept":"*/*"},"raw":true}`,
			`{"url":"http://a.b:8080/x%20y?q=%C3%BC","method":"POST","body":"b","headers":{"Accept":"*/*","X-B":"1"},"raw":true}`, nil, nil,
			[]string{"a.b:8080"},
		},
		{"fetch, IPv6", "http_fetch", `{"url":"http://[0:0::1]:81/"}`, `{"url":"http://[::1]:81/"}`, nil, nil, []string{"[::1]:81"}},
		{"fetch, no headers", "http_fetch", `{"url":"http://a/","headers":{}}`, `{"url":"http://a/"}`, nil, nil, []string{"a:80"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := decode(t, tt.tool, tt.args)
			if c.Canonical != tt.canonical {
				t.Errorf("canonical %s", c.Canonical)
			}
			if !slices.Equal(c.Reads(), tt.reads) || !slices.Equal(c.Writes(), tt.writes) || !slices.Equal(c.Hosts(), tt.hosts) {
				t.Errorf("reads %q, writes %q, hosts %q", c.Reads(), c.Writes(), c.Hosts())
			}
		})
	}
}

func TestRefused(t *testing.T) {
	const bidi, zero = "\u202e", "\u200b"
	for _, tt := range []struct{ name, tool, args, want string }{
		{"nothing", "list_files", ``, "list_files needs `path`, for example {\"path\":\"/home/me/notes\"}."},
		{"list", "list_files", `[]`, "the arguments of list_files must be one JSON object"},
		{"null", "list_files", `null`, "the arguments of list_files must be one JSON object"},
		{"string", "list_files", `"{}"`, "the arguments of list_files must be one JSON object"},
		{"no JSON", "list_files", `{path:"/a"}`, "not valid JSON (at byte 1)"},
		{"cut", "list_files", `{"path":"/a`, "not valid JSON: the text is cut off"},
		{"cut after a value", "list_files", `{"path":"/a"`, "not valid JSON: the text is cut off"},
		{"two objects", "list_files", `{"path":"/a"}{}`, "there is text after the JSON object"},
		{"byte order mark", "list_files", "\ufeff" + `{"path":"/a"}`, "must be one JSON object"},
		{"not UTF-8", "list_files", "{\"path\":\"/\xff\"}", "not valid JSON"},
		{"half a surrogate pair", "list_files", `{"path":"/\ud800"}`, "not valid JSON"},
		{"raw control character", "list_files", "{\"path\":\"/\n\"}", "not valid JSON"},
		{"duplicate", "list_files", `{"path":"/a","path":"/b"}`, "an argument of list_files stands twice; send each once: `path`, `depth` (optional) and `offset` (optional)."},
		{"duplicate in another spelling", "list_files", `{"path":"/a","p\u0061th":"/b"}`, "stands twice"},
		{"other case", "list_files", `{"Path":"/a"}`, "list_files has no argument `Path`; write it `path`."},
		{"unknown", "list_files", `{"path":"/a","recursive":true}`, "list_files has no argument `recursive`; it takes `path`, `depth` (optional) and `offset` (optional)."},
		{"unknown and strange", "list_files", `{"<|im_start|>":1}`, "list_files has no such argument; it takes"},
		{"look-alike name", "list_files", `{"pаth":"/a"}`, "list_files has no such argument"},
		{"unknown and deep", "list_files", `{"x":` + strings.Repeat("[", 500000), "list_files has no argument `x`"},
		{"missing", "search_files", `{"path":"/a"}`, "search_files needs `pattern`, for example"},
		{"null member", "list_files", `{"path":null}`, "`path` is null; it must be a string, or be left out if it is optional."},
		{"null optional", "list_files", `{"path":"/a","depth":null}`, "`depth` is null"},
		{"number for a string", "list_files", `{"path":1}`, "`path` is a number; it must be a string."},
		{"list for a string", "list_files", `{"path":["/a"]}`, "`path` is a list; it must be a string."},
		{"deep for a string", "list_files", `{"path":` + strings.Repeat("[", 500000), "`path` is a list"},
		{"string for a number", "list_files", `{"path":"/a","depth":"2"}`, "`depth` is a string; it must be a whole number up to 20."},
		{"whole float", "list_files", `{"path":"/a","depth":2.0}`, "`depth` must be a whole number up to 20, without a sign, a point or an exponent."},
		{"exponent", "list_files", `{"path":"/a","depth":1e1}`, "`depth` must be a whole number"},
		{"huge exponent", "list_files", `{"path":"/a","depth":1e999999999}`, "`depth` must be a whole number"},
		{"huge number", "list_files", `{"path":"/a","depth":` + strings.Repeat("9", 100000) + `}`, "`depth` must be a whole number"},
		{"negative", "list_files", `{"path":"/a","depth":-1}`, "`depth` must be a whole number"},
		{"too big", "list_files", `{"path":"/a","depth":21}`, "`depth` must be a whole number up to 20"},
		{"string for a flag", "read_file", `{"path":"/a","numbers":"true"}`, "`numbers` is a string; it must be true or false."},
		{"object for a list", "run", `{"argv":{}}`, "`argv` is an object; it must be a list of strings"},
		{"string for a list", "run", `{"argv":"ls -l"}`, "`argv` is a string; it must be a list of strings, for example [\"ls\",\"-l\"]."},
		{"number in a list", "run", `{"argv":["head","-n",5]}`, "`argv` is a number; it must be a list of strings only."},
		{"deep in a list", "run", `{"argv":["a",` + strings.Repeat("[", 500000), "`argv` is a list; it must be a list of strings only."},
		{"null in a list", "run", `{"argv":["a",null]}`, "`argv` is null"},
		{"list not closed", "run", `{"argv":["a"`, "cut off"},
		{"long", "write_file", `{"path":"/a","content":"` + strings.Repeat("x", MaxArgs) + `"}`, "the arguments are 1048602 bytes, and the limit is 1048576; send less at once."},

		{"no path", "list_files", `{"path":""}`, "`path` is empty; it must be an absolute path"},
		{"relative", "list_files", `{"path":"notes"}`, "`path` must be an absolute path, for example /home/me/notes."},
		{"home", "list_files", `{"path":"~/notes"}`, "~ is not expanded."},
		{"URL for a path", "read_file", `{"path":"file:///a"}`, "`path` must be an absolute path"},
		{"NUL", "read_file", `{"path":"/a\u0000.txt"}`, "`path` has a NUL character in it; remove it."},
		{"line break", "read_file", `{"path":"/a\nb"}`, "`path` has the invisible character U+000A in it; remove it."},
		{"escape", "read_file", `{"path":"/a\u001b[2J"}`, "U+001B"},
		{"C1", "read_file", `{"path":"/a\u009b"}`, "U+009B"},
		{"direction", "read_file", `{"path":"/a` + bidi + `txt.exe"}`, "`path` has the invisible character U+202E in it; remove it."},
		{"zero width", "read_file", `{"path":"/a` + zero + `"}`, "U+200B"},
		{"filler", "read_file", `{"path":"/a\u3164"}`, "U+3164"},
		{"variation selector", "read_file", `{"path":"/a\ufe0f"}`, "U+FE0F"},
		{"line separator", "read_file", `{"path":"/a\u2028"}`, "U+2028"},
		{"tag character", "read_file", `{"path":"/a\udb40\udc41"}`, "U+E0041"},
		{"long name", "read_file", `{"path":"/` + strings.Repeat("n", 256) + `"}`, "`path` has a name longer than 255 bytes."},
		{"long path", "read_file", `{"path":"` + strings.Repeat("/n", 2048) + `"}`, "`path` is longer than 4095 bytes."},
		{"folder for a file", "write_file", `{"path":"/a/","content":""}`, "`path` names a folder"},
		{"root for a file", "read_file", `{"path":"/"}`, "`path` names a folder"},
		{"parent for a file", "read_file", `{"path":"/a/b/.."}`, "`path` names a folder"},

		{"pattern with look-around", "search_files", `{"path":"/a","pattern":"(?=x)"}`, "`pattern` is not a regular expression of the RE2 kind"},
		{"pattern too long", "search_files", `{"path":"/a","pattern":"` + strings.Repeat("a", 1001) + `"}`, "longer than 1000 bytes"},
		{"pattern that explodes", "search_files", `{"path":"/a","pattern":"((a{1000}){1000}){1000}"}`, "`pattern` is not a regular expression"},
		{"pattern that is long when it is compiled", "search_files", `{"path":"/a","pattern":"(?:` + strings.Repeat("(a*)*", 190) + `){1000}"}`, "`pattern` repeats too much"},
		{"pattern of optional signs", "search_files", `{"path":"/a","pattern":"(?:` + strings.Repeat("a?", 400) + `){1000}"}`, "`pattern` repeats too much"},
		{"pattern of letters, counted", "search_files", `{"path":"/a","pattern":"(?:` + strings.Repeat("a", 900) + `){9}"}`, "`pattern` repeats too much"},
		{"empty pattern", "search_files", `{"path":"/a","pattern":""}`, "`pattern` is empty"},
		{"glob with a folder", "search_files", `{"path":"/a","pattern":"x","name":"b/*"}`, "`name` must be a pattern for file names without a folder"},
		{"broken glob", "search_files", `{"path":"/a","pattern":"x","name":"["}`, "`name` must be a pattern for file names"},
		{"mode", "write_file", `{"path":"/a","content":"","mode":"append"}`, "`mode` must be \"create\" or \"overwrite\"."},
		{"nothing to replace", "edit_file", `{"path":"/a","old":"","new":"x"}`, "`old` is empty"},
		{"no change", "edit_file", `{"path":"/a","old":"x","new":"x"}`, "`old` and `new` are the same"},
		{"no program", "run", `{"argv":[]}`, "`argv` is empty"},
		{"empty program", "run", `{"argv":[""]}`, "`argv` has an empty first element"},
		{"relative program", "run", `{"argv":["./x"]}`, "must begin with the name of a program (ls) or its absolute path"},
		{"program with dots", "run", `{"argv":["/usr/bin/../x"]}`, "must begin with the name of a program"},
		{"invisible program", "run", `{"argv":["l` + zero + `s"]}`, "U+200B"},
		{"NUL in an argument", "run", `{"argv":["a","b\u0000"]}`, "`argv` has a NUL character"},
		{"long argument", "run", `{"argv":["a","` + strings.Repeat("x", 128<<10) + `"]}`, "longer than 131071 bytes"},
		{"many arguments", "run", `{"argv":["a"` + strings.Repeat(`,""`, 4096) + `]}`, "more than 4096 elements"},
		{"folder that is relative", "run", `{"argv":["a"],"dir":"."}`, "`dir` must be an absolute path"},
		{"no command", "shell", `{"command":" \n"}`, "`command` is empty"},
		{"NUL in a command", "shell", `{"command":"a\u0000"}`, "`command` has a NUL"},

		{"body of a GET", "http_fetch", `{"url":"http://a/","body":"x"}`, "`body` needs `method` \"POST\""},
		{"method", "http_fetch", `{"url":"http://a/","method":"PUT"}`, "`method` must be \"GET\" or \"POST\"."},
		{"header with a line break", "http_fetch", `{"url":"http://a/","headers":{"A":"b\r\nHost: c"}}`, "not plain ASCII"},
		{"header name with a colon", "http_fetch", `{"url":"http://a/","headers":{"A:b":""}}`, "no HTTP header"},
		{"header of ours", "http_fetch", `{"url":"http://a/","headers":{"HOST":"b"}}`, "`headers` must not set Host"},
		{"proxy header", "http_fetch", `{"url":"http://a/","headers":{"proxy-Authorization":"b"}}`, "must not set Proxy-Authorization"},
		{"header in two spellings", "http_fetch", `{"url":"http://a/","headers":{"Accept":"b","ACCEPT":"c"}}`, "`headers` has the name Accept twice."},
		{"header twice", "http_fetch", `{"url":"http://a/","headers":{"Accept":"b","Accept":"c"}}`, "stands twice"},
		{"header that is a number", "http_fetch", `{"url":"http://a/","headers":{"A":1}}`, "`headers` is a number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Find(tt.tool).Decode(tt.args)
			var e *Error
			if !errors.As(err, &e) || e.Code != proto.CodeInvalidArguments || !strings.HasPrefix(err.Error(), "invalid-arguments: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
			plainSentence(t, err)
		})
	}
}

// TestURLs: nothing that a second reader could take for another host.
func TestURLs(t *testing.T) {
	for _, tt := range []struct{ name, url, want string }{
		{"no scheme", "example.com", "full web address"},
		{"other scheme", "ftp://a/", "full web address"},
		{"file", "file:///etc/passwd", "full web address"},
		{"gopher", "gopher://a:25/x", "full web address"},
		{"opaque", "http:a", "full web address"},
		{"relative to a scheme", "//a/", "full web address"},
		{"user", "http://good.com@evil.com/", "user name"},
		{"password", "http://u:p@a/", "user name"},
		{"empty user", "http://@a/", "user name"},
		{"backslash", `http://good.com\\@evil.com/`, "full web address"},
		{"backslash for a slash", `http:\\\\a`, "full web address"},
		{"encoded host", "http://%65vil.com/", "full web address"},
		{"encoded NUL", "http://a%00.b/", "full web address"},
		{"space in the host", "http://a b/", "full web address"},
		{"tab", `http://a/\t`, "U+0009"},
		{"line break", `http://a/\r\nHost: b`, "U+000D"},
		{"decimal address", "http://2130706433/", "looks like an address"},
		{"hexadecimal address", "http://0x7f000001/", "looks like an address"},
		{"hexadecimal part", "http://127.0.0.0x1/", "looks like an address"},
		{"octal address", "http://0177.0.0.1/", "looks like an address"},
		{"short address", "http://127.1/", "looks like an address"},
		{"zeros in an address", "http://127.000.000.001/", "looks like an address"},
		{"zone", "http://[fe80::1%25eth0]/", "not an IPv6 address"},
		{"no IPv6", "http://[::g]/", "full web address"},
		{"other script", "http://exаmple.com/", "xn-- form"},
		{"full-width dot", "http://a。com/", "xn-- form"},
		{"circled digits", "http://①②⑦.0.0.1/", "xn-- form"},
		{"zero width", "http://a\u200b.com/", "U+200B"},
		{"empty label", "http://a..b/", "cannot exist"},
		{"two trailing dots", "http://a../", "cannot exist"},
		{"only a dot", "http://./", "characters"},
		{"hyphen", "http://-a/", "cannot exist"},
		{"no host", "http://:80/", "characters"},
		{"long label", "http://" + strings.Repeat("a", 64) + ".com/", "cannot exist"},
		{"port 0", "http://a:0/", "port"},
		{"port too big", "http://a:65536/", "port"},
		{"port with a zero", "http://a:080/", "port"},
		{"port that is none", "http://a:b/", "full web address"},
		{"long", "http://a/" + strings.Repeat("x", 9000), "longer than 8192"},
		{"long when escaped", "http://a/?" + strings.Repeat("ü", 4000), "longer than 8192"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Find("http_fetch").Decode(`{"url":"` + tt.url + `"}`)
			if err == nil {
				t.Fatalf("taken as %s, hosts %q", c.Canonical, c.Hosts())
			}
			if !strings.HasPrefix(err.Error(), "invalid-arguments: `url` ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestFieldsAndValues(t *testing.T) {
	c := decode(t, "http_fetch", `{"url":"http://a/","headers":{"b":"2","a":"1"},"raw":true}`)
	if diff := cmp.Diff([]proto.Field{{Name: "url", Value: "http://a/"}, {Name: "headers", Value: `{"A":"1","B":"2"}`}, {Name: "raw", Value: "true"}}, c.Fields()); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		arg  string
		want []string
		ok   bool
	}{
		{"url", []string{"http://a/"}, true},
		{"method", []string{"GET"}, true},
		{"body", nil, true},
		{"headers", []string{"A: 1", "B: 2"}, true},
		{"raw", []string{"true"}, true},
		{"Method", nil, false},
		{"path", nil, false},
	} {
		if got, ok := c.Value(tt.arg); !slices.Equal(got, tt.want) || ok != tt.ok {
			t.Errorf("%s: %q, %v", tt.arg, got, ok)
		}
	}
	run := decode(t, "run", `{"argv":["ls","a b"]}`)
	if diff := cmp.Diff([]proto.Field{{Name: "argv", Value: `["ls","a b"]`}}, run.Fields()); diff != "" {
		t.Error(diff)
	}
	if got, _ := run.Value("argv"); !slices.Equal(got, []string{"ls", "a b"}) {
		t.Errorf("argv: %q", got)
	}
	write := decode(t, "write_file", `{"path":"/a","content":""}`)
	if diff := cmp.Diff([]proto.Field{{Name: "path", Value: "/a"}, {Name: "content"}}, write.Fields()); diff != "" {
		t.Error(diff)
	}
}

// plainSentence: a model's own text never comes back in an error but for a name
// that is harmless.
func plainSentence(t *testing.T, err error) {
	t.Helper()
	s := err.Error()
	if len(s) > 500 || !strings.HasSuffix(s, ".") || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r > 0x7e }) {
		t.Errorf("not a plain sentence: %q", s)
	}
}

// FuzzDecode: it never panics; what it takes has one form, which decodes to the
// same call; and the standard library reads the same from that form.
func FuzzDecode(f *testing.F) {
	for i, tool := range All() {
		f.Add(uint8(i), tool.example())
		f.Add(uint8(i), `{"path":"/a/../b","depth":3,"offset":0,"limit":7,"argv":["a","b"]}`)
	}
	f.Add(uint8(6), `{"command":"a\u0001","dir":"/x/./y"}`)
	f.Add(uint8(7), `{"url":"http://A.b.:80/%zz?a b#c","headers":{"a":"b"},"method":"POST","body":"\ud83d\ude00"}`)
	f.Add(uint8(7), `{"url":"http://a/%41%2f\u00fc?%"}`)
	f.Fuzz(func(t *testing.T, i uint8, args string) {
		tool := All()[int(i)%len(All())]
		c, err := tool.Decode(args)
		if err != nil {
			plainSentence(t, err)
			return
		}
		again, err := tool.Decode(c.Canonical)
		if err != nil {
			t.Fatalf("%s: canonical %s: %v", tool.Name, c.Canonical, err)
		}
		if again.Canonical != c.Canonical || !reflect.DeepEqual(again.Args, c.Args) {
			t.Fatalf("%s: %s became %s", tool.Name, c.Canonical, again.Canonical)
		}
		std := reflect.New(reflect.TypeOf(c.Args).Elem())
		std.Elem().Set(reflect.ValueOf(tool.fresh()).Elem())
		if err := json.Unmarshal([]byte(c.Canonical), std.Interface()); err != nil || !reflect.DeepEqual(std.Interface(), c.Args) {
			t.Fatalf("%s: the standard library reads %+v from %s: %v", tool.Name, std.Interface(), c.Canonical, err)
		}
		for _, p := range append(c.Reads(), c.Writes()...) {
			if clean, err := cleanPath(p); err != nil || clean != p {
				t.Fatalf("path %q: %v", p, err)
			}
		}
		if len(c.Fields()) == 0 {
			t.Fatal("nothing to show")
		}
	})
}
