package files

import (
	"os"
	"strings"
	"testing"

	"boxmaker/internal/tool"
)

func TestWrite(t *testing.T) {
	k := newKit(t)
	k.want(k.do("write_file", args{"path": "n", "content": "a\nb"}), "Created DIR/n (3 bytes, 2 lines).")
	if got := k.text("n"); got != "a\nb" {
		t.Errorf("%q", got)
	}
	k.want(k.do("write_file", args{"path": "n", "content": "c"}), `tool-failed: DIR/n exists already (3 bytes); use mode "overwrite" to replace all of it, or edit_file to change a part.`)
	k.want(k.do("write_file", args{"path": "n", "content": "c\n", "mode": "overwrite"}), "Replaced DIR/n (2 bytes, 1 line; before: 3 bytes).")
	if got := k.text("n"); got != "c\n" {
		t.Errorf("%q", got)
	}
	k.want(k.do("write_file", args{"path": "x/y/z", "content": "", "mode": "overwrite"}), "Created DIR/x/y/z (0 bytes, 0 lines).")
	k.want(k.do("write_file", args{"path": "x/y", "content": ""}), "tool-failed: DIR/x/y is a folder; use list_files to see what is in it.")
}

func TestWritePreview(t *testing.T) {
	k := newKit(t)
	check := func(out tool.Output, diff, note string) {
		t.Helper()
		if got := strings.ReplaceAll(out.Diff, k.dir, "DIR"); got != diff || strings.ReplaceAll(out.Note, k.dir, "DIR") != note || out.Text != "" || out.Code != "" {
			t.Errorf("%+v\ndiff\n%s\nwant\n%s", out, got, diff)
		}
	}
	preview := func(name, content string) tool.Output {
		t.Helper()
		return k.call("write_file", true, args{"path": name, "content": content, "mode": "overwrite"})
	}
	check(preview("new/f", "a\n"), "--- /dev/null\n+++ DIR/new/f\n@@ -0,0 +1 @@\n+a\n", "a new file")
	check(preview("f", ""), "", "a new file; the text stays the same")
	k.file("f", "a\nb\n")
	check(preview("f", "a\nc\n"), "--- DIR/f\n+++ DIR/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "")
	check(preview("f", "a\nb\n"), "", "the text stays the same")
	check(preview("f", "a\nb"), "--- DIR/f\n+++ DIR/f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", "")
	k.file("latin", "\xe9\n")
	check(preview("latin", "e\n"), "--- DIR/latin\n+++ DIR/latin\n@@ -1 +1 @@\n-\\xE9\n+e\n", `bytes that are not UTF-8 text are shown like \xE9`)
	k.file("bin", "\x00")
	check(preview("bin", "e\n"), "", "no diff, since the file is a binary file")
	check(preview("f", "e\x00"), "", "no diff, since the new text is a binary file")
	k.file("big", strings.Repeat("x\n", 1<<20))
	check(preview("big", "e\n"), "", "all of the file is replaced (2097152 bytes before); no diff, since DIR/big is larger than 1048576 bytes")
	out := preview("f", strings.Repeat("a line\n", 20000))
	if len(out.Diff) > tool.MaxDiff || !strings.HasSuffix(out.Diff, "+a line\n") || !strings.HasPrefix(out.Note, "the diff is cut: ") {
		t.Errorf("%d bytes, %q", len(out.Diff), out.Note)
	}
	k.want(k.call("write_file", true, args{"path": "f", "content": "c"}), `tool-failed: DIR/f exists already (4 bytes); use mode "overwrite" to replace all of it, or edit_file to change a part.`)
	if err := os.Symlink("f", k.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	k.has(preview("link", "c"), "never written through a link")
	if _, err := os.Stat(k.dir + "/new"); err == nil || k.text("f") != "a\nb\n" {
		t.Error("a preview changed something")
	}
}

func TestEdit(t *testing.T) {
	for _, tt := range []struct{ name, file, old, new, want, text string }{
		{"a word", "a b c\n", "b", "x", "a x c\n", "Changed DIR/f at line 1: 1 line replaced by 1 line. The file now has 1 line."},
		{"lines", "a\nb\nc\n", "b\nc\n", "", "a\n", "Changed DIR/f at line 2: 2 lines replaced by 0 lines. The file now has 1 line."},
		{"the whole file", "a", "a", "b\n\n", "b\n\n", "Changed DIR/f at line 1: 1 line replaced by 2 lines. The file now has 2 lines."},
		{"CRLF is kept", "a\r\nb\r\nc\r\n", "b\nc", "x\ny", "a\r\nx\r\ny\r\n", "Changed DIR/f at line 2: 2 lines replaced by 2 lines. The file now has 3 lines."},
		{"CRLF in one word", "a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n", "Changed DIR/f at line 2: 1 line replaced by 2 lines. The file now has 3 lines."},
		{"CRLF given", "a\r\nb\r\n", "a\r\n", "x\r\n", "x\r\nb\r\n", "Changed DIR/f at line 1: 1 line replaced by 1 line. The file now has 2 lines."},
		{"mixed line ends", "a\r\nb\nc\n", "b\n", "x\n", "a\r\nx\nc\n", "Changed DIR/f at line 2: 1 line replaced by 1 line. The file now has 3 lines."},
		{"bytes that are no text stay", "\xe9 a\xff\n", "a", "b", "\xe9 b\xff\n", "Changed DIR/f at line 1: 1 line replaced by 1 line. The file now has 1 line."},
		{"no break at the end", "a\nb", "b", "c", "a\nc", "Changed DIR/f at line 2: 1 line replaced by 1 line. The file now has 2 lines."},
		{"twice", "a\nb\na\n", "a", "x", "", "tool-failed: `old` stands 2 times in DIR/f (lines 1, 3), so it is not clear which is meant; give more of the lines around the right one."},
		{"twice, over each other", "aaa\n", "aa", "x", "", "tool-failed: `old` stands 2 times in DIR/f (lines 1, 1), so it is not clear which is meant; give more of the lines around the right one."},
		{"many times", strings.Repeat("a\n", 9), "a", "x", "", "tool-failed: `old` stands 9 times in DIR/f (lines 1, 2, 3, 4, 5 and more), so it is not clear which is meant; give more of the lines around the right one."},
		{"not there", "a\n", "b", "x", "", "tool-failed: `old` does not stand in DIR/f; read the file and copy the text exactly."},
		{"other spaces", "x\n\tfoo ( bar )\n", "    foo (bar)", "x", "", "tool-failed: `old` does not stand in DIR/f; line 2 differs from it only in spaces, tabs or line breaks: read the file from there and copy the text exactly."},
		{"with the line's number", "x\nfoo\n", "2\tfoo", "x", "", "tool-failed: `old` does not stand in DIR/f; it seems to begin with a line number, which is not part of the file."},
		{"binary", "\x00a", "a", "x", "", "tool-failed: DIR/f is a binary file, which cannot be edited."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			at := k.file("f", tt.file)
			if err := os.Chmod(at, 0o640); err != nil {
				t.Fatal(err)
			}
			a := args{"old": tt.old, "new": tt.new, "path": "f"}
			pre := k.call("edit_file", true, a)
			a["path"] = "f"
			out := k.do("edit_file", a)
			k.want(out, tt.text)
			if out.Code != "" {
				if pre != out || k.text("f") != tt.file {
					t.Errorf("preview says %q, the file is %q", pre.Text, k.text("f"))
				}
				return
			}
			if got := k.text("f"); got != tt.want || pre.Diff == "" || pre.Code != "" {
				t.Errorf("%q, preview %+v", got, pre)
			}
			if info, _ := os.Stat(at); info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v", info.Mode())
			}
		})
	}
	k := newKit(t)
	k.want(k.do("edit_file", args{"path": "none", "old": "a", "new": "b"}), "tool-failed: there is no DIR/none; use write_file for a new file.")
}
