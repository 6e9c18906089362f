package grant

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A folder is a folder of grants in a test.
type testDir struct {
	t    testing.TB
	path string
	dir  *Dir
}

func newDir(t testing.TB) *testDir {
	t.Helper()
	d := &testDir{t: t, path: filepath.Join(t.TempDir(), "grants")}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		t.Fatal(err)
	}
	d.dir = Open(d.path)
	return d
}

func (d *testDir) put(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.path, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// settled makes the clock show a time at which every change so far is old.
func (d *testDir) settled() {
	d.dir.now = func() time.Time { return time.Now().Add(time.Hour) }
}

// wants checks what is granted: "10-a:/x /y".
func (d *testDir) wants(want string) Set {
	d.t.Helper()
	s, err := d.dir.Read()
	if err != nil {
		d.t.Fatal(err)
	}
	var got []string
	for _, g := range s.Grants {
		got = append(got, strings.TrimSuffix(g.ID, ".toml")+":"+strings.Join(g.Paths.Read, ","))
	}
	if have := strings.Join(got, " "); have != want {
		d.t.Errorf("granted %q, want %q (%+v)", have, want, s.Broken)
	}
	return s
}

// What the owner does to the files holds for the next call, however quick it
// comes, and whether or not the files were old.
func TestChangesHoldAtOnce(t *testing.T) {
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprintf("settled %v", settled), func(t *testing.T) {
			d := newDir(t)
			if settled {
				d.settled()
			}
			d.wants("")
			d.put("10-a.toml", reads(`"/a"`))
			d.wants("10-a:/a")
			d.put("20-b.toml", reads(`"/b"`))
			d.wants("10-a:/a 20-b:/b")
			old, err := os.Stat(filepath.Join(d.path, "10-a.toml"))
			if err != nil {
				t.Fatal(err)
			}
			// Replaced by one of the same size and times, as an attacker of the
			// cache would: another inode.
			d.put("new", reads(`"/c"`))
			at := filepath.Join(d.path, "10-a.toml")
			if err := errors.Join(os.Rename(filepath.Join(d.path, "new"), at), os.Chtimes(at, old.ModTime(), old.ModTime())); err != nil {
				t.Fatal(err)
			}
			d.wants("10-a:/c 20-b:/b")
			if err := os.Rename(at, filepath.Join(d.path, "30-a.toml")); err != nil {
				t.Fatal(err)
			}
			d.wants("20-b:/b 30-a:/c")
			if err := os.Remove(filepath.Join(d.path, "20-b.toml")); err != nil {
				t.Fatal(err)
			}
			d.wants("30-a:/c")
			if err := os.Rename(filepath.Join(d.path, "30-a.toml"), filepath.Join(d.path, "30-a.toml.off")); err != nil {
				t.Fatal(err)
			}
			d.wants("")
		})
	}
}

// Written in place, with the same size, and the time of the last change put
// back: while the file is young its stamp is not believed.
func TestSameSizeInPlace(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	at := filepath.Join(d.path, "10-a.toml")
	info, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []string{"/b", "/c", "/d", "/e", "/f", "/g"} {
		d.put("10-a.toml", reads(`"`+p+`"`))
		if err := os.Chtimes(at, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(i, err)
		}
		d.wants("10-a:" + p)
	}
}

func TestAFileIsNotReadTwice(t *testing.T) {
	d := newDir(t)
	d.settled()
	d.put("10-a.toml", reads(`"/a"`))
	first, second := d.wants("10-a:/a"), d.wants("10-a:/a")
	if first.Grants[0] != second.Grants[0] {
		t.Error("it was parsed again")
	}
	if d.dir.now = time.Now; d.wants("10-a:/a").Grants[0] != first.Grants[0] {
		t.Error("it was parsed again, although it was settled")
	}
}

// A file that is not the owner's word grants nothing, and the others all that
// they say.
func TestForeignFiles(t *testing.T) {
	text := reads(`"/x"`)
	for _, tc := range []struct {
		name string
		make func(path string) error
		file string
		what string
	}{
		{"others can write", func(p string) error { return errors.Join(os.WriteFile(p, []byte(text), 0o600), os.Chmod(p, 0o602)) }, "20-b.toml", "others can write"},
		{"the group can write", func(p string) error { return errors.Join(os.WriteFile(p, []byte(text), 0o600), os.Chmod(p, 0o620)) }, "20-b.toml", "others can write"},
		{"a link", func(p string) error {
			there := filepath.Join(filepath.Dir(filepath.Dir(p)), "there")
			return errors.Join(os.WriteFile(there, []byte(text), 0o600), os.Symlink(there, p))
		}, "20-b.toml", "symbolic link"},
		{"a link beside", func(p string) error { return os.Symlink("10-a.toml", p) }, "20-b.toml", "symbolic link"},
		{"a link to nothing", func(p string) error { return os.Symlink("/nowhere", p) }, "20-b.toml", "symbolic link"},
		{"a folder", func(p string) error { return os.Mkdir(p, 0o700) }, "20-b.toml", "plain file"},
		{"a pipe", func(p string) error { return mkfifo(p) }, "20-b.toml", "plain file"},
		{"not readable", func(p string) error { return errors.Join(os.WriteFile(p, []byte("x"), 0o600), os.Chmod(p, 0o600)) }, "20-b.toml", "not TOML"},
		{"a name with a line break", func(p string) error { return os.WriteFile(p, []byte(text), 0o600) }, "20\nb.toml", "characters other than"},
		{"a name that is no text", func(p string) error { return os.WriteFile(p, []byte(text), 0o600) }, "20-\xff.toml", "characters other than"},
		{"a name like a flag", func(p string) error { return os.WriteFile(p, []byte(text), 0o600) }, "-20-b.toml", "characters other than"},
		{"too large", func(p string) error { return os.WriteFile(p, []byte(text+strings.Repeat("#", MaxFile)), 0o600) }, "20-b.toml", "64 KiB"},
		{"another user's", func(p string) error {
			return errors.Join(os.WriteFile(p, []byte(text), 0o644), os.Chmod(p, 0o644), chown(t, p))
		}, "20-b.toml", "another user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDir(t)
			d.put("10-a.toml", reads(`"/a"`))
			d.put("30-c.toml", reads(`"/c"`))
			if err := tc.make(filepath.Join(d.path, tc.file)); errors.Is(err, errors.ErrUnsupported) {
				t.Skip("only root can give a file away")
			} else if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s := d.wants("10-a:/a 30-c:/c")
				if len(s.Broken) != 1 || s.Broken[0].File != tc.file || !strings.Contains(s.Broken[0].What, tc.what) || s.Broken[0].Do == "" || s.Broken[0].Runbook == "" {
					t.Errorf("%+v", s.Broken)
				}
			}
		})
	}
}

func chown(t *testing.T, p string) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return errors.ErrUnsupported
	}
	return os.Chown(p, 12345, 12345)
}

// Files that are no grants are not looked at.
func TestOtherFiles(t *testing.T) {
	d := newDir(t)
	for _, name := range []string{"README", "10-a.toml~", ".10-a.toml", ".10-a.toml.x.tmp", "10-a.toml.old", "10-a.TOML"} {
		d.put(name, "not a grant")
	}
	if s := d.wants(""); len(s.Broken)+len(s.Warnings) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestNamesAreJudged(t *testing.T) {
	d := newDir(t)
	d.put("notes.toml", reads(`"/a"`))
	d.put("1-x.toml", reads(`"/b"`))
	d.put("99-y.toml", reads(`"/c"`))
	s := d.wants("1-x:/b 99-y:/c notes:/a")
	if len(s.Warnings) != 2 || !s.Warnings[0].Warning || s.Warnings[0].File != "1-x.toml" || !strings.Contains(s.Warnings[1].Do, "50-notes.toml") {
		t.Errorf("%+v", s.Warnings)
	}
}

func TestFolders(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	for _, tc := range []struct {
		name string
		do   func() error
		want error
		text string
	}{
		{"others can write", func() error { return os.Chmod(d.path, 0o777) }, nil, "chmod go-w"},
		{"the group can write", func() error { return os.Chmod(d.path, 0o770) }, nil, "chmod go-w"},
		{"a file", func() error { return errors.Join(os.RemoveAll(d.path), os.WriteFile(d.path, nil, 0o600)) }, nil, "grant-folder"},
		{"gone", func() error { return os.Remove(d.path) }, fs.ErrNotExist, "bxctl init"},
	} {
		if err := tc.do(); err != nil {
			t.Fatal(err)
		}
		s, err := d.dir.Read()
		if err == nil || len(s.Grants) != 0 || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(err.Error(), "grant-folder") {
			t.Errorf("%s: %v %v", tc.name, err, s.Grants)
		}
	}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		t.Fatal(err)
	}
	d.put("10-a.toml", reads(`"/b"`))
	d.wants("10-a:/b")
}

// Boxmaker's own folders are refused by the name under which the caller knows
// them and by the one that they really have.
func TestOwnFolderBehindALink(t *testing.T) {
	d := newDir(t)
	base := filepath.Dir(d.path)
	real := filepath.Join(base, "real")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, filepath.Join(base, "link"))); err != nil {
		t.Fatal(err)
	}
	d.dir = Open(d.path, filepath.Join(base, "link"))
	d.put("10-a.toml", reads(`"`+real+`/x"`))
	d.put("20-b.toml", reads(`"`+base+`/link"`))
	if s := d.wants(""); len(s.Broken) != 2 {
		t.Errorf("%+v", s.Broken)
	}
}

func TestReadAtOnceFromSeveral(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if s, err := d.dir.Read(); err != nil || len(s.Grants) > 1 {
					t.Error(err, s)
				}
			}
		})
	}
	for i := range 50 {
		d.put("10-a.toml", reads(fmt.Sprintf(`"/%d"`, i)))
	}
	wg.Wait()
	d.wants("10-a:/49")
}

// The figure: 1,000 files that did not change, a decision included.
func BenchmarkRead1000(b *testing.B) {
	d := newDir(b)
	d.settled()
	for i := range 1000 {
		d.put(fmt.Sprintf("%02d-%04d.toml", i%100, i), reads(fmt.Sprintf(`"/data/%d"`, i)))
	}
	if _, err := d.dir.Read(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := d.dir.Read()
		if err != nil || len(s.Grants) != 1000 {
			b.Fatal(err, len(s.Grants))
		}
	}
}

// A file with a second name can be written to without an event in the folder,
// so that it is looked at each time.
func TestSecondName(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	other := filepath.Join(filepath.Dir(d.path), "other")
	if err := os.Link(filepath.Join(d.path, "10-a.toml"), other); err != nil {
		t.Fatal(err)
	}
	d.wants("10-a:/a")
	d.wants("10-a:/a")
	if err := os.WriteFile(other, []byte(reads(`"/b"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	d.wants("10-a:/b")
}

// The folder is another one under the same name: the watch is of no use then.
func TestFolderIsReplaced(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	d.wants("10-a:/a")
	old := d.path + ".old"
	if err := errors.Join(os.Rename(d.path, old), os.Mkdir(d.path, 0o700)); err != nil {
		t.Fatal(err)
	}
	d.wants("")
	d.put("20-b.toml", reads(`"/b"`))
	d.wants("20-b:/b")
	if err := errors.Join(os.RemoveAll(d.path), os.Rename(old, d.path)); err != nil {
		t.Fatal(err)
	}
	d.wants("10-a:/a")
	if err := os.Chmod(filepath.Join(d.path, "10-a.toml"), 0o666); err != nil {
		t.Fatal(err)
	}
	d.wants("")
}

// However quiet it is, the files themselves are looked at again after a while.
func TestRecheck(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	d.wants("10-a:/a")
	if d.dir.watch == nil {
		t.Skip("this file system is not watched")
	}
	d.put("20-b.toml", reads(`"/b"`))
	d.dir.watch.quiet() // as if no event had come
	d.wants("10-a:/a")
	start := time.Now()
	d.dir.now = func() time.Time { return start.Add(recheck + time.Second) }
	d.wants("10-a:/a 20-b:/b")
	d.put("30-c.toml", reads(`"/c"`))
	d.dir.watch.quiet()
	d.dir.now = func() time.Time { return start.Add(-time.Hour) } // set back
	d.wants("10-a:/a 20-b:/b 30-c:/c")
}

// Without a watch it is the same, only slower.
func TestWithoutWatch(t *testing.T) {
	d := newDir(t)
	for i := range 3 {
		d.put("10-a.toml", reads(fmt.Sprintf(`"/%d"`, i)))
		d.dir.watch = nil
		d.wants(fmt.Sprintf("10-a:/%d", i))
		d.dir.watch = nil
		d.wants(fmt.Sprintf("10-a:/%d", i))
	}
}

// A young file is parsed anew each time that it is looked at: on a file system
// that counts whole seconds, the next change could have the same stamp.
func TestYoungFilesAreNotBelieved(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	look := func() *Grant { d.dir.watch = nil; return d.wants("10-a:/a").Grants[0] }
	if first, second := look(), look(); first == second {
		t.Error("a file that just changed was not looked at again")
	}
	d.settled()
	look()
	if first, second := look(), look(); first != second {
		t.Error("an old file was parsed again")
	}
}

// Another folder higher up is put in its place: no event comes from that.
func TestFolderAboveIsReplaced(t *testing.T) {
	d := newDir(t)
	d.put("10-a.toml", reads(`"/a"`))
	d.wants("10-a:/a")
	above := filepath.Dir(d.path)
	if err := errors.Join(os.Rename(above, above+".old"), os.MkdirAll(d.path, 0o700)); err != nil {
		t.Fatal(err)
	}
	d.put("20-b.toml", reads(`"/b"`))
	d.wants("20-b:/b")
}
