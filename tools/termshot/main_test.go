package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func shot(t *testing.T, in string) string {
	t.Helper()
	var out strings.Builder
	if err := run(strings.NewReader(in), &out, "a <title>", 10); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestShot(t *testing.T) {
	got := shot(t, "plain \x1b[1;31mred\x1b[0m & \x1b[7mx\x1b[27m\n\x1b[38;5;208mo\x1b[48;2;1;2;3mr\x1b[m日本語x\n\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n\n")
	for _, want := range []string{
		`width="137" height="82"`, "<title>a &lt;title&gt;</title>",
		`>plain</text>`, `fill="#e06c75" font-weight="bold">red</text>`, `<text x="98.0" y="27.5" textLength="8.4">&amp;</text>`,
		`fill="#16181d">x</text>`, `fill="#d5d8de"/>`, // swapped
		`fill="#ff8700">o</text>`, `fill="#010203"/>`, `>日</text>`,
		`<text x="81.2" y="45.5" textLength="8.4">x</text>`, // behind three wide letters
		`>link</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func FuzzShot(f *testing.F) {
	f.Add("a\x1b[38;5m\x1b[38;2;1m\x1b]0;t\a\x1b(B\x1b")
	f.Add("\x1b[999;-1m\xff\x00日\u0301")
	f.Fuzz(func(t *testing.T, in string) {
		d := xml.NewDecoder(strings.NewReader(shot(t, in)))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
		}
	})
}
