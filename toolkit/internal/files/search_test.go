package files

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSearch(t *testing.T) {
	k := newKit(t)
	k.file("a.md", "one\r\ntwo dentist\r\nDentist\r\n")
	k.file("sub/b.txt", "a dentist, no break at the end")
	k.file("sub/bin", "dentist\x00")
	k.file("sub/latin", "dentist caf\xe9\n")
	k.file("we\nird", "a dentist\n")
	for _, err := range []error{os.Symlink("a.md", k.dir+"/link"), os.Symlink("/etc", k.dir+"/out"), unix.Mkfifo(k.dir+"/pipe", 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const tail = "; 4 files were searched; 1 binary file skipped; 2 links not followed; 1 special file skipped]"
	k.want(k.do("search_files", args{"path": "", "pattern": "dentist"}), `DIR/a.md:2: two dentist
DIR/sub/b.txt:1: a dentist, no break at the end
DIR/sub/latin:1: dentist caf\xE9
"DIR/we\nird":1: a dentist
[4 matches in 4 files`+tail)
	k.has(k.do("search_files", args{"path": "", "pattern": "(?i)^dentist$"}), "DIR/a.md:3: Dentist\n[1 match in 1 file"+tail)
	k.want(k.do("search_files", args{"path": "", "pattern": "nowhere"}), "No line matches.\n[0 matches in 0 files"+tail)
	k.want(k.do("search_files", args{"path": "", "pattern": "dentist", "name": "*.md"}), "DIR/a.md:2: two dentist\n[1 match in 1 file; 1 file was searched]")
	k.want(k.do("search_files", args{"path": "sub/b.txt", "pattern": "den"}), "DIR/sub/b.txt:1: a dentist, no break at the end\n[1 match in 1 file; 1 file was searched]")
	k.want(k.do("search_files", args{"path": "sub/bin", "pattern": "den"}), "No line matches.\n[0 matches in 0 files; 0 files were searched; 1 binary file skipped]")
	k.has(k.do("search_files", args{"path": "", "pattern": "dentist", "limit": 1}), "; 2 links not followed; 1 special file skipped; not finished: there are more matches than the limit of 1; search")
	k.has(k.do("search_files", args{"path": "pipe", "pattern": "x"}), "is not a file but a pipe")
	k.want(k.do("search_files", args{"path": "none", "pattern": "x"}), "tool-failed: there is no DIR/none.")
}

func TestSearchLongLines(t *testing.T) {
	k := newKit(t)
	k.file("f", strings.Repeat("ü", 5000)+"needle"+strings.Repeat("ü", 5000)+"\nneedle\n")
	out := k.do("search_files", args{"path": "", "pattern": "needle"})
	k.has(out, "needle")
	if len(out.Text) > 1000 || !strings.Contains(out.Text, ":1: …ü") || !strings.Contains(out.Text, "ü…\n") || strings.Contains(out.Text, `\x`) {
		t.Errorf("%q", out.Text)
	}
	k.file("f", strings.Repeat("x", 1<<20)+"needle\nneedle\n")
	k.want(k.do("search_files", args{"path": "", "pattern": "needle"}), "DIR/f:2: needle\n[1 match in 1 file; 1 file was searched; 1 very long line searched in part]")
}

func TestSearchBounds(t *testing.T) {
	k := newKit(t)
	for i := range 50 {
		k.file(fmt.Sprintf("d%02d/f", i), strings.Repeat("match this\n", 20))
	}
	k.limit = 2000
	k.has(k.do("search_files", args{"path": "", "pattern": "match", "limit": 1000}), "not finished: there are more matches than fit")
	var cancel context.CancelFunc
	k.ctx, cancel = context.WithCancel(t.Context())
	cancel()
	k.has(k.do("search_files", args{"path": "", "pattern": "match"}), "not finished: the time of this call was over")
}

// TestSearchDeep: deeper than any path may be long.
func TestSearchDeep(t *testing.T) {
	k := newKit(t)
	dir, err := os.OpenRoot(k.dir)
	for range 150 {
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Repeat("d", 100)
		if err = dir.Mkdir(name, 0o755); err == nil {
			dir, err = dir.OpenRoot(name)
		}
	}
	k.file("f", "here\n")
	k.has(k.do("search_files", args{"path": "", "pattern": "here"}), "DIR/f:1: here\n[1 match in 1 file; 1 file was searched; 1 could not be opened]")
}
