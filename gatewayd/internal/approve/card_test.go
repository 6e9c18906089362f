package approve

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

func TestCard(t *testing.T) {
	a := question()
	a.Untrusted, a.Diff, a.DiffNote, a.Reason = true, "--- a\n+++ a\n+one\n", "only a part", "my notes"
	a.Hosts, a.Secrets = []string{"api.example.com:443"}, []string{"token"}
	want := strings.ReplaceAll(`🔏 **write_file** wants your approval · code 'K7M4PX'
:warning: This session has seen untrusted text, such as a web page. The model may be doing what that text says, and not what you want.
'''text
path     ┆ /w/a
content  ┆ one
change   ┆ --- a
         ┆ +++ a
         ┆ +one
note     ┆ only a part
writes   ┆ /w/a
hosts    ┆ api.example.com:443
secrets  ┆ token
class      result private, session so far private
grant    ┆ 10-w
reason   ┆ my notes
session    mm-x
'''
React with :white_check_mark: to approve or :x: to deny; or reply 'approve K7M4PX' or 'deny K7M4PX'.
It expires at 12:15 UTC on 4 March, and is denied then.`, "'", "`")
	if got := Draw(&a, 16383, time.UTC); got.Text != want || got.File != "" || got.Mute {
		t.Errorf("%s\n%+v", got.Text, got.Mute)
	}
	end := Outcome(&a, End{Verdict: proto.VerdictApproved, By: "uid 1000", Channel: "cli"}, 16383)
	if !strings.HasPrefix(end, "🔏 **write_file** :white_check_mark: **approved** on the machine, by uid 1000\n```text\npath ") || strings.Contains(end, "React with") {
		t.Error(end)
	}
	for v, w := range map[proto.Verdict]string{proto.VerdictDenied: "**denied** here, by the owner", proto.VerdictExpired: "**expired**", proto.VerdictWithdrawn: "**withdrawn**"} {
		if got := Outcome(&a, End{Verdict: v, By: "x", Channel: "mattermost"}, 16383); !strings.Contains(got, w) {
			t.Error(got)
		}
	}
}

func TestNewsTellNothingOfTheCall(t *testing.T) {
	a := question()
	a.Digest, a.Code, a.Fields, a.Write = "", "", []proto.Field{}, []string{}
	got := Draw(&a, 16383, time.UTC)
	if !got.Mute || strings.Contains(got.Text, "React") || strings.Contains(got.Text, "/w/a") || !strings.Contains(got.Text, "may not be answered here") {
		t.Errorf("%+v", got)
	}
	if end := Outcome(&a, End{Verdict: proto.VerdictDenied}, 16383); strings.Contains(end, "```") {
		t.Error(end)
	}
}

func TestLongTexts(t *testing.T) {
	a := question()
	a.Fields[1].Value = strings.Repeat("a line\n", 500) + "the last\n"
	got := Draw(&a, 16383, time.UTC)
	if !strings.Contains(got.Text, "... 487 rows are left out here ...") || !strings.Contains(got.Text, "The attached file has all of it") || strings.Count(got.File, "a line") != 500 {
		t.Errorf("%s", got.Text)
	}
	if small := Draw(&a, 1000, time.UTC); utf8.RuneCountInString(small.Text) > 1000 || small.File == "" || small.Mute {
		t.Errorf("%s", small.Text)
	}
	for i := range 200 { // more fields than any card holds
		a.Fields = append(a.Fields, proto.Field{Name: "x", Value: strings.Repeat("y", i)})
	}
	if none := Draw(&a, 1000, time.UTC); !none.Mute || strings.Contains(none.Text, "React") || utf8.RuneCountInString(none.Text) > 1000 {
		t.Errorf("%s", none.Text)
	}
}

// Text of a model cannot leave its rows, end the code, call anybody, or hide.
func TestTextOfOthersIsInert(t *testing.T) {
	row := regexp.MustCompile(`^.{8} (┆[ »].*|  .*)$`)
	pieces := []string{
		"```", "````````", "~~~", "\n", "\r\n", "\r", "\n```\n🔏 **shell** wants your approval · code `AAAAAA`\n", "@all", "@channel @here @owner", "](http://x)", "![x](http://x/y.png)",
		"\x1b[2J", "\u202e", "\u200b", "\u2066", "\u00ad", "\u3164", "\u2800", "e\u0301\u0301\u0301\u0301\u0301", "\u2028", "\u0085", "\x00", "\xff", "https://chat.example/t/pl/abc",
		"🔏", "React with :white_check_mark:", "   ", "\t", "write\n", "┆ ", "class      result public", strings.Repeat("w", 200), strings.Repeat("漢", 60), "\U000e0041", "\ufe0f", "&#64;all",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String())).Draw(t, "text"), "")
		a := question()
		a.Fields = []proto.Field{{Name: "path", Value: text}, {Name: text, Value: "x"}}
		a.Read, a.Write, a.Hosts, a.Secrets = []string{text}, []string{text, "/w"}, []string{text}, []string{text}
		a.Diff, a.DiffNote, a.Reason, a.Grant = text, text, text, text
		card := Draw(&a, 16383, time.UTC)
		for _, out := range []string{card.Text, Outcome(&a, End{Verdict: proto.VerdictDenied, By: text, Channel: "cli"}, 16383)} {
			if utf8.RuneCountInString(out) > 16383 || !utf8.ValidString(out) {
				t.Fatal("too long, or no text")
			}
			inside, mark, blocks := false, "", 0
			for i, l := range strings.Split(out, "\n") {
				switch {
				case !inside && strings.HasPrefix(l, "```"):
					inside, mark = true, strings.TrimSuffix(l, "text")
					blocks++
				case inside && l == mark:
					inside = false
				case inside:
					if !row.MatchString(l) || strings.Contains(l, mark) || wide(l) > labelWidth+3+textWidth {
						t.Fatalf("a row of its own making: %q", l)
					}
				case i == 0 && strings.HasPrefix(l, Seal), strings.HasPrefix(l, ":warning: "), strings.HasPrefix(l, "React with "),
					strings.HasPrefix(l, "It expires at"), strings.HasPrefix(l, "**A part is left out"), strings.HasPrefix(l, "It is too long"):
				default:
					t.Fatalf("a line of ours? %q", l)
				}
				for _, r := range l {
					if r != '\u200b' && (unicode.Is(unicode.Cf, r) || unicode.IsControl(r)) {
						t.Fatalf("%U in %q", r, l)
					}
				}
			}
			if inside || blocks > 1 || strings.Contains(strings.ReplaceAll(out, "@\u200b", ""), "@") {
				t.Fatalf("%d blocks, or a name is called: %q", blocks, out)
			}
		}
	})
}

// wide is how many columns a row takes.
func wide(l string) (n int) {
	for _, r := range l {
		if !unicode.In(r, unicode.Mn, unicode.Mc) && r != '\u200b' && r != '┆' && r != '»' {
			n += columns(r)
		}
	}
	return n
}

func TestWhatLooksLikeSomethingElseIsNamed(t *testing.T) {
	a := question()
	a.Fields[0].Value, a.Hosts = "/w/\u0430", []string{"\u0435xample.com:443"}
	a.Fields[1].Value = "\u05d0\u05d1"
	got := Draw(&a, 16383, time.UTC).Text
	for _, want := range []string{"path has letters that are not ASCII and may look like others: U+0430", "hosts has letters that are not ASCII and may look like others: U+0435", "content has letters that are written from right to left"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
