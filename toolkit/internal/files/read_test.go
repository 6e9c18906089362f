package files

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRead(t *testing.T) {
	numbered := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, file string
		args       args
		want       string
	}{
		{"exactly what is there", "a\n\tb  \r\n\n", nil, "a\n\tb  \r\n\n"},
		{"no line break at the end", "a\nb", nil, "a\nb"},
		{"empty", "", nil, "[the file is empty]"},
		{"only a line break", "\n", nil, "\n"},
		{"a mark at the beginning", "\ufeffa\n", nil, "\ufeffa\n"},
		{"part", numbered(1, 10), args{"offset": 3, "limit": 2}, "line 3\nline 4\n[lines 3-4 of 10; read on with offset 5]"},
		{"first part", numbered(1, 10), args{"limit": 2}, "line 1\nline 2\n[lines 1-2 of 10; read on with offset 3]"},
		{"last part", numbered(1, 10), args{"offset": 9, "limit": 2}, "line 9\nline 10\n[lines 9-10 of 10, the end of the file]"},
		{"up to the end", numbered(1, 10), args{"offset": 10, "limit": 50}, "line 10\n[lines 10-10 of 10, the end of the file]"},
		{"last line without a break", "a\nb", args{"offset": 2}, "b\n[lines 2-2 of 2, the end of the file]"},
		{"more lines, the last without a break", "a\nb\nc", args{"limit": 1}, "a\n[lines 1-1 of 3; read on with offset 2]"},
		{"zero means from the start", "a\n", args{"offset": 0, "limit": 0, "column": 0}, "a\n"},
		{"beyond the end", "a\nb\n", args{"offset": 3}, "tool-failed: DIR/f has only 2 lines."},
		{"far beyond the end", "a\nb", args{"offset": 300}, "tool-failed: DIR/f has only 2 lines."},
		{"numbers", "a\nb\n", args{"numbers": true}, "1\ta\n2\tb\n"},
		{"numbers of a part", numbered(1, 10), args{"numbers": true, "offset": 9}, "9\tline 9\n10\tline 10\n[lines 9-10 of 10, the end of the file]"},
		{"column", "abcdef\ng\n", args{"column": 4}, "def\ng\n[lines 1-2 of 2, the end of the file]"},
		{"column of a later line", "x\nabcdef\ng\n", args{"offset": 2, "column": 6, "limit": 1}, "f\n[lines 2-2 of 3; read on with offset 3]"},
		{"column beyond the line", "abc\ng\n", args{"column": 5}, "tool-failed: line 1 of DIR/f has fewer than 5 bytes."},
		{"column beyond the file", "abc", args{"column": 9}, "tool-failed: line 1 of DIR/f has fewer than 9 bytes."},
		{"not UTF-8", "caf\xe9\n", nil, "caf\\xE9\n[bytes that are not UTF-8 text are shown like \\xE9]"},
		{"ends inside a character", "a\xe2\x82", nil, "a\\xE2\\x82\n[bytes that are not UTF-8 text are shown like \\xE9]"},
		{"binary", "ELF\x00\x01", nil, "tool-failed: DIR/f is a binary file of 5 bytes, which read_file does not read."},
		{"UTF-16", "\xff\xfea\x00", nil, "tool-failed: DIR/f is UTF-16 text of 4 bytes, which read_file does not read."},
		{"a NUL far behind", strings.Repeat("a", 9000) + "\x00", args{"column": 8999}, "aa\\x00\n[lines 1-1 of 1, the end of the file]\n[bytes that are not UTF-8 text are shown like \\xE9]"},
		{"escape sequences are text", "\x1b[31mred\n", nil, "\x1b[31mred\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			k.file("f", tt.file)
			a := args{"path": "f"}
			for n, v := range tt.args {
				a[n] = v
			}
			k.want(k.do("read_file", a), tt.want)
		})
	}
}

func TestReadRefuses(t *testing.T) {
	k := newKit(t)
	k.file("sub/x", "")
	k.want(k.do("read_file", args{"path": "sub"}), "tool-failed: DIR/sub is a folder; use list_files to see what is in it.")
	k.want(k.do("read_file", args{"path": "none"}), "tool-failed: there is no DIR/none.")
}

// TestReadOn: whoever does what the marker says reads the whole file, and
// nothing twice.
func TestReadOn(t *testing.T) {
	k := newKit(t)
	next := regexp.MustCompile(`\n?\[lines \d+-\d+(?: of \d+)?; (?:line \d+ goes on, )?read on with offset (\d+)(?: and column (\d+))?\]$`)
	end := regexp.MustCompile(`\n?\[lines \d+-\d+ of \d+, the end of the file\]$`)
	check := func(t interface{ Fatalf(string, ...any) }, want string) {
		k.file("f", want)
		var got strings.Builder
		a := args{"path": "f"}
		for range 1000 {
			out := k.do("read_file", a)
			if out.Code != "" {
				t.Fatalf("%s", out.Text)
			}
			m := next.FindStringSubmatchIndex(out.Text)
			if m == nil {
				s := end.ReplaceAllString(out.Text, "")
				got.WriteString(s)
				break
			}
			part := out.Text[:m[0]]
			a = args{"path": "f"}
			a["offset"], _ = strconv.Atoi(out.Text[m[2]:m[3]])
			if m[4] >= 0 {
				a["column"], _ = strconv.Atoi(out.Text[m[4]:m[5]])
			} else {
				part += "\n" // which the pattern took
			}
			got.WriteString(part)
		}
		if strings.TrimRight(got.String(), "\n") != strings.TrimRight(want, "\n") {
			t.Fatalf("%d bytes became %d", len(want), got.Len())
		}
	}
	k.limit = 600
	for _, s := range []string{
		strings.Repeat("0123456789\n", 500),
		strings.Repeat("x", 5000),
		strings.Repeat("ü€😀", 1000) + "\n" + strings.Repeat("y", 300),
		strings.Repeat(strings.Repeat("w", 190)+"\n", 20),
		strings.Repeat("\"\\\t\x01", 300),
	} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.RuneFrom([]rune("abcé€😀\"\n")), 1, 3000, -1).Draw(t, "file")
		check(t, s)
	})
}

// TestP27: a result of 1.7 MB is cut to the limit, and says how to go on.
func TestP27(t *testing.T) {
	k := newKit(t)
	k.file("f", strings.Repeat("a line of a very long file\n", 1_700_000/27))
	out := k.do("read_file", args{"path": "f", "limit": 1_000_000})
	if len(out.Text) > int(k.limit) || out.Dropped < 1_600_000 {
		t.Errorf("%d bytes, %d dropped", len(out.Text), out.Dropped)
	}
	if !regexp.MustCompile(`\[lines 1-\d+ of 62962; read on with offset \d+\]$`).MatchString(out.Text) {
		t.Errorf("ends in %q", out.Text[len(out.Text)-200:])
	}
	k.file("one", strings.Repeat("x", 1_700_000))
	k.has(k.do("read_file", args{"path": "one"}), "line 1 goes on, read on with offset 1 and column ")
	k.file("control", strings.Repeat("\x01", 1_700_000)) // six bytes each in a document
	k.has(k.do("read_file", args{"path": "control"}), "line 1 goes on")
}

// TestHuge: a gigabyte is neither held nor read to its end without need.
func TestHuge(t *testing.T) {
	k := newKit(t)
	sparse := func(name, text string) {
		f, err := os.Create(k.dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(1 << 30); err != nil {
			t.Fatal(err)
		}
	}
	sparse("binary", "")
	sparse("text", strings.Repeat("text\n", 2000)) // the zeros are one very long line
	k.want(k.do("read_file", args{"path": "binary"}), "tool-failed: DIR/binary is a binary file of 1073741824 bytes, which read_file does not read.")
	k.want(k.do("read_file", args{"path": "text", "limit": 1}), "text\n[lines 1-1; read on with offset 2]")
	k.want(k.do("edit_file", args{"path": "text", "old": "a", "new": "b"}), "too-large: DIR/text is larger than 8388608 bytes.")
	k.has(k.do("search_files", args{"path": "", "pattern": "^text$", "limit": 1}), "DIR/text:1: text\n[1 match in 1 file; 1 file was searched; 1 binary file skipped; not finished")
}

func TestReadOutOfTime(t *testing.T) {
	k := newKit(t)
	k.file("a", "x\n")
	var cancel context.CancelFunc
	k.ctx, cancel = context.WithCancel(t.Context())
	cancel()
	k.has(k.do("read_file", args{"path": "a"}), "tool-timeout: the time of this call was over")
}
