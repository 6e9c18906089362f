package capper

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"boxmaker/internal/proto"
	"boxmaker/loopd/internal/prompt"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestCap(t *testing.T) {
	lines := strings.Repeat("0123456789\n", 100) // 1100 bytes
	for _, tt := range []struct {
		name    string
		text    string
		limit   int
		want    string
		dropped int64
	}{
		{"empty", "", 0, "", 0},
		{"fits", "abc", 3, "abc", 0},
		{
			"lines", lines, 256,
			strings.Repeat("0123456789\n", 11)[:120] +
				"\n[cut here: 153 of 1100 bytes kept, the first 120 and the last 33; 947 bytes dropped]\n" + strings.Repeat("0123456789\n", 3), 947,
		},
		{"one long line", strings.Repeat("x", 1000), 256, strings.Repeat("x", 123) + "\n[cut here: 164 of 1000 bytes kept, the first 123 and the last 41; 836 bytes dropped]\n" + strings.Repeat("x", 41), 836},
		{"no room for text", strings.Repeat("x", 1000), 60, "[1000 bytes dropped]", 1000},
		{"no room for a line", strings.Repeat("x", 1000), 19, "", 1000},
		{"no room", "x", 0, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, dropped := Cap(tt.text, tt.limit)
			if out != tt.want || dropped != tt.dropped {
				t.Errorf("Cap = %q, %d\nwant %q, %d", out, dropped, tt.want, tt.dropped)
			}
		})
	}
}

func TestCapNeverCutsARune(t *testing.T) {
	for _, r := range []string{"ä", "€", "🜁"} {
		for limit := 256; limit < 272; limit++ {
			out, _ := Cap(strings.Repeat(r, 1000), limit)
			if !utf8.ValidString(out) || len(out) <= limit-16 || len(out) > limit {
				t.Errorf("limit %d: %d bytes, %q", limit, len(out), out)
			}
		}
	}
}

func TestCapProperties(t *testing.T) {
	line := regexp.MustCompile(`\n\[cut here: (\d+) of (\d+) bytes kept, the first (\d+) and the last (\d+); (\d+) bytes dropped\]\n`)
	good := []string{"a", "ä", "€", "🜁", "\n", "\n\n", "a longer piece of text ", strings.Repeat("x", 300)}
	bad := append([]string{"\xff", "\x80\x80\x80\x80\x80\x80"}, good...)
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom(good)
		if rapid.Bool().Draw(t, "not UTF-8") {
			piece = rapid.SampledFrom(bad)
		}
		text := strings.Join(rapid.SliceOfN(piece, 0, 200).Draw(t, "text"), "")
		limit := rapid.IntRange(0, 2000).Draw(t, "limit")
		out, dropped := Cap(text, limit)
		if len(out) > limit {
			t.Fatalf("%d bytes over the limit of %d", len(out), limit)
		}
		if again, d := Cap(out, limit); again != out || d != 0 {
			t.Fatalf("cut twice: %q then %q", out, again)
		}
		if utf8.ValidString(text) && !utf8.ValidString(out) {
			t.Fatalf("a rune was cut: %q", out)
		}
		if len(text) <= limit {
			if out != text || dropped != 0 {
				t.Fatalf("changed a text that fits: %q", out)
			}
			return
		}
		m := line.FindStringSubmatchIndex(out)
		if m == nil {
			if limit >= 256 {
				t.Fatalf("no marker in %q", out)
			}
			return
		}
		num := func(i int) int { n, _ := strconv.Atoi(out[m[2*i]:m[2*i+1]]); return n }
		head, tail := out[:m[0]], out[m[1]:]
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Fatalf("kept what is not the head and tail: %q", out)
		}
		if num(1) != len(head)+len(tail) || num(2) != len(text) || num(3) != len(head) || num(4) != len(tail) ||
			int64(num(5)) != dropped || len(head)+len(tail)+int(dropped) != len(text) {
			t.Fatalf("the line does not tell the truth: %q (dropped %d of %d)", out[m[0]:m[1]], dropped, len(text))
		}
		if limit >= 256 && len(head)+len(tail) < (limit-160)/2 {
			t.Fatalf("kept only %d bytes of a limit of %d", len(head)+len(tail), limit)
		}
	})
}

func TestCase_P27_HugeResultStaysUnderTheLimit(t *testing.T) {
	const limit = 64 << 10
	huge := strings.Repeat("a line of a log that never ends\n", 2<<20/32)
	out, dropped := Cap(huge, limit)
	if len(out) > limit || int64(len(huge))-dropped < limit*3/4 {
		t.Errorf("%d bytes out, %d dropped", len(out), dropped)
	}
	if !strings.Contains(out, fmt.Sprintf("of %d bytes kept", len(huge))) || !strings.Contains(out, fmt.Sprintf("%d bytes dropped]", dropped)) {
		t.Error("the text does not say what is missing")
	}
}

// 60 calls in a session: each result stays whole where it was first put.
func TestCase_P31_NothingIsTrimmedLater(t *testing.T) {
	p, err := prompt.New(&proto.Baseline{Sampling: jsontext.Value(`{}`), Tools: jsontext.Value(`[]`), System: prompt.SystemMessage("s")})
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	prev := p.Body()
	for i := range 60 {
		out, dropped := Cap(strings.Repeat(fmt.Sprintf("result %d\n", i), 100), 4096)
		if dropped != 0 {
			t.Fatalf("result %d was cut", i)
		}
		results = append(results, out)
		if err := p.Append(prompt.ToolMessage(fmt.Sprint(i), out)); err != nil {
			t.Fatal(err)
		}
		next := p.Body()
		if !prompt.Extends(prev, next) {
			_, context := prompt.FirstDiff(prev, next)
			t.Fatal(context)
		}
		prev = next
	}
	for i, r := range results {
		if !strings.Contains(string(prev), string(prompt.ToolMessage(fmt.Sprint(i), r))) {
			t.Errorf("result %d is not whole in the last request", i)
		}
	}
}
