package files

import (
	"os"
	"strings"
	"testing"
)

// What is written is what was approved: the file that the owner saw the change
// of must still be there.
func TestTheFileOfThePreview(t *testing.T) {
	for _, tc := range []struct {
		name   string
		tool   string
		before string // "" is no file
		after  string
		ok     bool
	}{
		{"overwrite, the same", "write_file", "a\nb\n", "a\nb\n", true},
		{"overwrite, another text", "write_file", "a\nb\n", "a\nb!\n", false},
		{"overwrite, gone", "write_file", "a\nb\n", "", false},
		{"overwrite, a new file", "write_file", "", "", true},
		{"overwrite, the new file is there", "write_file", "", "a\n", false},
		{"overwrite, a large one", "write_file", strings.Repeat("x\n", 1<<20), strings.Repeat("x\n", 1<<20), true},
		{"overwrite, a large one of the same size", "write_file", strings.Repeat("x\n", 1<<20), strings.Repeat("y\n", 1<<20), false},
		{"overwrite, not text", "write_file", "\x00a", "\x00b", false},
		{"edit, the same", "edit_file", "a\nb\n", "a\nb\n", true},
		{"edit, elsewhere in the file", "edit_file", "a\nb\n", "a\nb\nc\n", false},
		{"edit, gone", "edit_file", "a\nb\n", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t)
			given := func() args {
				if tc.tool == "edit_file" {
					return args{"path": "f", "old": "a\n", "new": "z\n"}
				}
				return args{"path": "f", "content": "z\n", "mode": "overwrite"}
			}
			put := func(text string) {
				if text == "" {
					_ = os.Remove(k.dir + "/f")
				} else {
					k.file("f", text)
				}
			}
			put(tc.before)
			k.seen = k.call(tc.tool, true, given()).Seen
			if k.seen == "" {
				t.Fatal("the preview did not say what it saw")
			}
			put(tc.after)
			out := k.do(tc.tool, given())
			if tc.ok {
				if out.Code != "" || !strings.HasPrefix(k.text("f"), "z\n") {
					t.Errorf("%+v", out)
				}
				return
			}
			k.want(out, "tool-failed: the file changed after the owner approved; read it and ask again.")
			if b, _ := os.ReadFile(k.dir + "/f"); string(b) != tc.after {
				t.Errorf("the file was changed: %.40q", b)
			}
		})
	}
}
