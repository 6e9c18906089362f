package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		l.Grants: {0, 62105, 0o750 | fs.ModeSetgid}, l.Grants + "/10-open.toml": {0, 62105, 0o666}, l.Grants + "/10-closed.toml": {0, 62105, 0o640},
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

// What others could write is refused as a grant. It does not become the owner's
// word because Boxmaker is started again.
func TestOwnGrantsLaundersNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"10-all.toml": 0o646, "20-group.toml": 0o660, "30-foreign.toml": 0o644, "40-ours.toml": 0o600} {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), nil, 0o600), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chown(filepath.Join(dir, "30-foreign.toml"), 65534, 65534), ownGrants(dir, 62105)); err != nil {
		t.Fatal(err)
	}
	modes := func() (out []string) {
		for _, name := range []string{"", "10-all.toml", "20-group.toml", "30-foreign.toml", "40-ours.toml"} {
			st, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			sys := st.Sys().(*syscall.Stat_t)
			out = append(out, fmt.Sprintf("%d:%d %o", sys.Uid, sys.Gid, st.Mode().Perm()))
		}
		return out
	}
	if d := cmp.Diff([]string{"0:0 777", "0:0 646", "0:0 660", "65534:65534 644", "0:0 600"}, modes()); d != "" {
		t.Errorf("a folder in which everybody writes: %s", d)
	}
	if err := errors.Join(os.Chmod(dir, 0o700), ownGrants(dir, 62105)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"0:62105 750", "0:0 646", "0:0 660", "65534:65534 644", "0:62105 640"}, modes()); d != "" {
		t.Errorf("the owner's folder: %s", d)
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
