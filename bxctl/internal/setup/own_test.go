package setup

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Files become a role's, but no file that a link leads to.
func TestOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	l := layout(t)
	run(t, Job{Layout: l})
	outside := filepath.Join(t.TempDir(), "secret")
	for path, mode := range map[string]fs.FileMode{
		outside: 0o600, l.Sessions + "/a.jsonl": 0o600, l.Audit + "/2026-01.jsonl": 0o600, l.Broker + "/x": 0o600,
		l.Secrets + "/brokerd.age": 0o600, l.Keys + "/brokerd.key": 0o600, l.Workspace + "/note.md": 0o644, l.Grants + "/10-open.toml": 0o666,
		l.Grants + "/10-closed.toml": 0o600, l.Anchors + "/audit.jsonl": 0o600,
	} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(outside, l.Workspace+"/hard"); err != nil {
		t.Skip(err) // another file system
	}
	if err := os.Symlink(outside, l.Workspace+"/soft"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is to do
		if err := Own(l, DefaultSettings()); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]struct {
		uid, gid uint32
		mode     fs.FileMode
	}{
		outside: {0, 0, 0o600}, l.Home: {0, 0, 0o711}, l.Config: {0, 0, 0o700}, l.Config + "/loopd.toml": {0, 0, 0o600}, l.Anchors + "/audit.jsonl": {0, 0, 0o600},
		l.Sessions: {62102, 62102, 0o700}, l.Sessions + "/a.jsonl": {62102, 62102, 0o600},
		l.Audit: {62105, 62105, 0o700}, l.Audit + "/2026-01.jsonl": {62105, 62105, 0o600}, l.Broker + "/x": {62105, 62105, 0o600},
		l.Secrets + "/brokerd.age": {62105, 62105, 0o600}, l.Keys: {62105, 62105, 0o700}, l.Keys + "/brokerd.key": {62105, 62105, 0o600},
		l.Workspace: {62109, 62109, 0o700}, l.Workspace + "/note.md": {62109, 62109, 0o644}, l.Workspace + "/welcome.md": {62109, 62109, 0o600},
		l.Grants: {0, 62105, 0o750 | fs.ModeSetgid}, l.Grants + "/10-open.toml": {0, 62105, 0o640}, l.Grants + "/10-closed.toml": {0, 62105, 0o640},
		l.Grants + "/50-workspace-read.toml": {0, 62105, 0o640},
	} {
		st, err := os.Stat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		sys := st.Sys().(*syscall.Stat_t)
		if sys.Uid != want.uid || sys.Gid != want.gid || st.Mode()&(fs.ModePerm|fs.ModeSetgid) != want.mode {
			t.Errorf("%s: uid %d, gid %d, mode %v; want %+v", path, sys.Uid, sys.Gid, st.Mode(), want)
		}
	}
}

// What a role puts in a file's place after it was looked at stays its owner's.
func TestGiveWhatWasSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, swap := range map[string]func(at, other string) error{
		"nothing":       nil,
		"a second name": func(at, other string) error { return os.Link(other, at) },
		"a link":        func(at, other string) error { return os.Symlink(other, at) },
		"another file":  func(at, other string) error { return os.Rename(other, at) },
		"gone":          func(string, string) error { return nil },
	} {
		at, other := filepath.Join(dir, "at"), filepath.Join(dir, "other")
		for _, f := range []string{at, other} {
			if err := os.WriteFile(f, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := root.Lstat("at")
		if err != nil {
			t.Fatal(err)
		}
		if swap != nil {
			if err := os.Rename(at, at+".old"); err != nil {
				t.Fatal(err)
			}
			if err := swap(at, other); err != nil {
				t.Fatal(err)
			}
		}
		if err := give(root, "at", seen, 62102); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range []string{at, other} {
			st, err := os.Lstat(f)
			if err == nil && (st.Sys().(*syscall.Stat_t).Uid == 62102) != (swap == nil && f == at) {
				t.Errorf("%s: %s is uid %d", name, f, st.Sys().(*syscall.Stat_t).Uid)
			}
			os.Remove(f)
		}
		os.Remove(at + ".old")
	}
}
