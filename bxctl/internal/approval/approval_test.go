package approval

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write golden files anew")

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func options(width int) Options {
	return Options{Width: width, Screen: term.Plain(&bytes.Buffer{}), Now: now}
}

func call(tool string, fields ...string) *proto.Approval {
	a := &proto.Approval{
		Approval: "id", Code: "k7q2", Digest: strings.Repeat("0", 64), Asked: "2026-01-02T15:04:00.000Z", Expires: "2026-01-02T15:19:00.000Z",
		Call: "chat-a/1/3/0", Session: "chat-20260102-abcdef", Tool: tool, Class: proto.ClassPrivate, Taint: proto.ClassPrivate, Grant: "50-workspace",
	}
	for i := 0; i < len(fields); i += 2 {
		a.Fields = append(a.Fields, proto.Field{Name: fields[i], Value: fields[i+1]})
	}
	return a
}

func with(a *proto.Approval, f func(*proto.Approval)) *proto.Approval { f(a); return a }

// cases are calls as they come, and texts of somebody who wants the owner to see
// something else.
func cases() []struct {
	name string
	a    *proto.Approval
	fold string
} {
	type c = struct {
		name string
		a    *proto.Approval
		fold string
	}
	diff := "--- /home/me/Boxmaker/a.txt\n+++ /home/me/Boxmaker/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
	frame := strings.Join([]string{"hello", "└──────────", "", "Approved. Nothing else to do.", "[y/N] y", "┌─ read_file wants your approval · code aaaa ─────", "│ path     ┆ /home/me/harmless", "> /approve aaaa"}, "\n")
	return []c{
		{"write", with(call("write_file", "path", "/home/me/Boxmaker/a.txt", "content", "one\nzwei\nthree\n", "mode", "overwrite"), func(a *proto.Approval) {
			a.Diff, a.Write, a.Reason = diff, []string{"/home/me/Boxmaker/a.txt"}, "my workspace"
		}), ""},
		{"run", call("run", "argv", `["uname","-a"]`), ""},
		{"fetch", with(call("http_fetch", "url", "https://api.example.com/v1?q=1", "method", "POST", "body", ""), func(a *proto.Approval) {
			a.Hosts, a.Secrets, a.Untrusted, a.Taint, a.Class = []string{"api.example.com:443"}, []string{"weather-token"}, true, proto.ClassSecret, proto.ClassSecret
		}), ""},
		{"no diff", with(call("edit_file", "path", "/a", "old", "x", "new", "y"), func(a *proto.Approval) { a.DiffNote = "the file is not there" }), ""},
		{"folded", with(call("write_file", "path", "/a", "content", strings.Repeat("a line\n", 100)+"rm -rf /\n"), func(a *proto.Approval) {
			a.Diff = "@@ -0,0 +1,101 @@\n" + strings.Repeat("+a line\n", 100) + "+rm -rf /\n"
		}), "Ctrl-T"},
		{"our frame", call("write_file", "path", "/a", "content", frame), ""},
		{"our frame in a path", with(call("read_file", "path", "/a\n"+frame), func(a *proto.Approval) { a.Read = []string{"/a\n" + frame} }), ""},
		{"control sequences", call("shell", "command", "ls\x1b[2J\x1b[1;1H\x1b]0;owned\a\u009b31m\rrm -rf /\x08\x08\x7f"), ""},
		{"bidi", call("shell", "command", "echo \u202e/ fr- mr\u202c \u2066x\u2069 \u200e"), ""},
		{"hidden letters", call("run", "argv", "[\"rm\u200b\",\"a\u00adb\",\"\u2060\ufeff\u3164\U000e0041\"]"), ""},
		{"line separators", call("shell", "command", "ls\u2028rm\u2029x\u0085y\x0bz\x0c"), ""},
		{"a long line", call("shell", "command", "ls "+strings.Repeat("x", 500)+"; rm -rf /"), ""},
		{"spaces", call("shell", "command", "ls"+strings.Repeat(" ", 300)+"; rm -rf /"), ""},
		{"many blank lines", call("shell", "command", "ls"+strings.Repeat("\n", 300)+"rm -rf /\n\n"), "Ctrl-T"},
		{"tabs", call("shell", "command", strings.Repeat("\t", 40)+"end"), ""},
		{"combining flood", call("write_file", "path", "/a", "content", "o"+strings.Repeat("\u0301", 20)+"\n\u0336\u0336on nothing\nZ\u20dda\u0308\u0323 fine"), ""},
		{"wide letters", call("write_file", "path", "/日本", "content", strings.Repeat("日本語", 40)+strings.Repeat("😀", 40)+strings.Repeat("é", 80)), ""},
		{"right to left", call("run", "argv", `["cat","/home/שלום/../etc"]`), ""},
		{"look-alike host", with(call("http_fetch", "url", "https://\u0430pple.com/"), func(a *proto.Approval) { a.Hosts = []string{"\u0430pple.com:443"} }), ""},
		{"identifiers", with(call("rm\x1b[2J", "na\nme\u202e very long", "v"), func(a *proto.Approval) {
			a.Code, a.Session, a.Class, a.Grant, a.Reason, a.Expires = "y\n", "s\x1b", "x\r", "g\n└─", "r\x1b[2J\n[y/N]", "never\x1b"
		}), ""},
		{"diff of a frame", with(call("write_file", "path", "/a", "content", "x"), func(a *proto.Approval) { a.Diff = "+x\n" + frame + "\n+\x1b[2J\n-\u202e\n" }), ""},
		{"expired", with(call("run", "argv", "[]"), func(a *proto.Approval) { a.Expires = "2026-01-02T15:04:05.000Z" }), ""},
	}
}

func TestGolden(t *testing.T) {
	for _, width := range []int{60, 80, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			var all strings.Builder
			for _, c := range cases() {
				o := options(width)
				o.Fold = c.fold
				lines := Lines(c.a, o)
				fmt.Fprintf(&all, "=== %s\n%s\n", c.name, strings.Join(lines, "\n"))
				check(t, c.name, lines, width)
				o.Screen.Colour = true
				var bare []string
				for _, l := range Lines(c.a, o) {
					bare = append(bare, ansi.Strip(l))
				}
				if d := cmp.Diff(lines, bare); d != "" {
					t.Errorf("%s: colours change text: %s", c.name, d)
				}
			}
			path := filepath.Join("testdata", fmt.Sprintf("approval-%d.txt", width))
			if *update {
				if err := os.WriteFile(path, []byte(all.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), all.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

// The code is what the owner answers with: it is whole in the first line and in
// the last words, however narrow the screen is.
func TestTheCodeIsWhole(t *testing.T) {
	for _, width := range []int{MinWidth, 30, 40, 50, 60, 80} {
		for _, tool := range []string{"run", "search_files", strings.Repeat("long-", 12)} {
			a := call(tool)
			a.Code = "E8VN38"
			o := options(width)
			o.Hint = "Ctrl-X answers it, or /approve E8VN38, /deny E8VN38"
			lines := Lines(a, o)
			check(t, tool, lines, width)
			if all := strings.Join(lines[1:], " "); !strings.Contains(lines[0], " E8VN38 ") || strings.Count(all, "E8VN38") != 2 || !strings.Contains(all, "/deny") {
				t.Errorf("%s at %d: the code is cut:\n%s", tool, width, strings.Join(lines, "\n"))
			}
		}
	}
}

var (
	ourLine  = regexp.MustCompile(`^│ .{8} {3}\S.*$`)
	textLine = regexp.MustCompile(`^│ .{8} ┆[ »].*$`)
)

type failer interface {
	Helper()
	Errorf(string, ...any)
}

// check holds every line against the layout, and counts columns as the meanest
// terminal would.
func check(t failer, name string, lines []string, width int) {
	t.Helper()
	for i, l := range lines {
		n := 0
		for _, r := range l {
			if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Errorf("%s: a control character: %q", name, l)
			}
		}
		if at := strings.IndexRune(l, '┆'); at >= 0 && textLine.MatchString(l) {
			for i, r := range []rune(l[at+len("┆"):]) {
				if i > 0 { // the first one is a blank, or the mark of ours
					n += columns(r)
				}
			}
			n += textAt + spare
		} else {
			n = term.Columns(l)
		}
		if n > width {
			t.Errorf("%s: %d columns: %q", name, n, l)
		}
		switch {
		case i == 0 && strings.HasPrefix(l, "┌─ "), i == len(lines)-1 && strings.HasPrefix(l, "└─"):
		case i > 0 && i < len(lines)-1 && (ourLine.MatchString(l) || textLine.MatchString(l)):
		default:
			t.Errorf("%s: line %d is not of the layout: %q", name, i, l)
		}
	}
}

// sentinel stands in every generated text, so that a line which holds some of it
// can be told from ours.
const sentinel = 'ꙮ'

func mean() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]rune{
		0, 7, 8, '\n', '\r', '\t', ' ', 0x1b, 0x7f, 0x85, 0x9b, 0xad, 0x200b, 0x200d, 0x200e, 0x2028, 0x202e, 0x2066, 0x3164, 0xfe0f, 0xfeff,
		0x301, 0x20dd, 0x65e5, 0x1f469, 0xe0041, 0x5d0, '│', '┆', '»', '└', '─', '┌', '[', 'y', '/', 'N', ']',
	})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for _, r := range rapid.SliceOfN(rapid.OneOf(odd, rapid.Rune()), 0, 120).Draw(t, "runes") {
			b.WriteRune(r)
			b.WriteRune(sentinel)
		}
		return b.String()
	})
}

// No rendering of any field yields a line of it without the gutter, whatever is
// in the field, at any width, folded or not.
func TestNoLineWithoutGutter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mean()
		many := rapid.SliceOfN(m, 0, 2)
		a := call(m.Draw(t, "tool"))
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			a.Fields = append(a.Fields, proto.Field{Name: m.Draw(t, "name"), Value: m.Draw(t, "value")})
		}
		a.Code, a.Session, a.Asked, a.Expires = m.Draw(t, "code"), m.Draw(t, "session"), m.Draw(t, "asked"), m.Draw(t, "expires")
		a.Read, a.Write, a.Hosts, a.Secrets = many.Draw(t, "read"), many.Draw(t, "write"), many.Draw(t, "hosts"), many.Draw(t, "secrets")
		a.Grant, a.Reason, a.Diff, a.DiffNote = m.Draw(t, "grant"), m.Draw(t, "reason"), m.Draw(t, "diff"), m.Draw(t, "note")
		a.Class, a.Taint, a.Untrusted = proto.Class(m.Draw(t, "class")), proto.Class(m.Draw(t, "taint")), rapid.Bool().Draw(t, "untrusted")
		o := options(rapid.IntRange(MinWidth, 200).Draw(t, "width"))
		o.Fold = rapid.SampledFrom([]string{"", "Ctrl-T"}).Draw(t, "fold")
		lines := Lines(a, o)
		check(t, "any", lines, o.Width)
		for _, l := range lines {
			if strings.ContainsRune(l, sentinel) && !textLine.MatchString(l) {
				t.Fatalf("a text without the gutter: %q", l)
			}
		}
		if s := Line(a, o); strings.ContainsAny(s, "\n\r\x1b\u202e") || term.Columns(s) > o.Width {
			t.Fatalf("the line is %q", s)
		}
	})
}

// Unfolded, every letter of a value is shown, in its order.
func TestNothingIsLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.StringMatching(`[a-z \n]{0,400}[a-z]`).Draw(t, "v")
		a := call("shell", "command", v)
		a.Grant = "g" // a long one goes on in rows of its own
		o := options(rapid.IntRange(MinWidth, 120).Draw(t, "width"))
		var got strings.Builder
		for _, l := range Lines(a, o) {
			if rest, ok := strings.CutPrefix(l, "│          ┆ "); ok {
				got.WriteString("\n" + rest)
			} else if rest, ok := strings.CutPrefix(l, "│          ┆»"); ok {
				got.WriteString(rest)
			} else if rest, ok := strings.CutPrefix(l, "│ command  ┆ "); ok {
				got.WriteString("\n" + rest)
			}
		}
		if strings.TrimPrefix(got.String(), "\n") != v {
			t.Fatalf("%q is shown as %q", v, got.String())
		}
	})
}

func TestFolded(t *testing.T) {
	for _, c := range cases() {
		o := options(80)
		if Folded(c.a, o) {
			t.Errorf("%s: folded without a way to see it", c.name)
		}
		o.Fold = "Ctrl-T"
		lines := strings.Join(Lines(c.a, o), "\n")
		if Folded(c.a, o) != strings.Contains(lines, "more rows are folded; Ctrl-T") {
			t.Errorf("%s: Folded is %v", c.name, Folded(c.a, o))
		}
		if c.fold != "" && !strings.Contains(lines, "rm -rf /") {
			t.Errorf("%s: the end is not shown", c.name)
		}
	}
}

// No row ends between a letter and what is drawn onto it, and nothing joins over the
// end of a row: the frame's edge would go with it.
func TestLayout_NothingRidesOnTheFrame(t *testing.T) {
	for _, s := range []string{strings.Repeat("👩\u200d👩\u200d👧", 30), strings.Repeat("a\u0301\u0301", 80), strings.Repeat("❤\ufe0f", 80), "x\u200d", "نمی\u200c", strings.Repeat("क्\u200dष", 40)} {
		for width := 21; width < 45; width++ {
			for _, r := range layout(s, width) {
				first, _ := utf8.DecodeRuneInString(r.text)
				if r.goesOn && rides(first) || strings.ContainsAny(r.text, "\u200c\u200d") {
					t.Fatalf("width %d: %q", width, r.text)
				}
			}
		}
	}
}
