package crun

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/runnerd/internal/box"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// fake is a crun whose run makes a filter of so many letters, calls the hook, and
// fails, since there is no program; and which says what it was asked for.
const fake = `#!/bin/sh
PATH=/usr/bin:/bin
state=$2
case " $* " in
*" run "*)
	for bundle; do [ "$last" = --bundle ] && break; last=$bundle; done
	grep -cF '"errnoRet":97,"args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]' "$bundle/config.json" >>"$state/../asked"
	[ SIZE = none ] && exit 1
	mkdir "$state/bm-filter"
	i=0; while [ $i -lt SIZE ]; do printf f; i=$((i+1)); done >"$state/bm-filter/seccomp.bpf"
	$(sed -n 's/.*"poststart":\[{"path":"\([^"]*\)","args":\["cp","\([^"]*\)","\([^"]*\)"\]}\].*/\1 \2 \3/p' "$bundle/config.json")
	rm -r "$state/bm-filter"
	exit 1 ;;
*" delete "*) rm -r "$state/bm-filter" ;;
esac
`

// TestFilters: what crun compiled is handed back to it beside the profile, for
// boxes with and without a door; what cannot be a filter, or none, changes nothing.
func TestFilters(t *testing.T) {
	for _, c := range []struct {
		name, size string
		taken      bool
	}{
		{"a filter", "80", true},
		{"half an instruction", "84", false},
		{"empty", "0", false},
		{"crun fails", "none", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "crun")
			place(t, path, []byte(strings.ReplaceAll(fake, "SIZE", c.size)))
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			r, err := New("", filepath.Join(dir, "state"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := r.Warm(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || string(asked) != "1\n0\n" {
				t.Errorf("profiles without UNIX sockets that crun was given, then with them: %q, %v", asked, err)
			}
			for _, door := range []bool{false, true} {
				b := &box.Box{ID: "bm-1", Dir: t.TempDir(), RootFS: "/r", Argv: []string{"/x"}, Door: door}
				if _, err := r.Prepare(b); err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(filepath.Join(b.Dir, "config.json"))
				if err != nil {
					t.Fatal(err)
				}
				var got config
				if err := json.Unmarshal(text, &got); err != nil {
					t.Fatal(err)
				}
				want := ""
				if c.taken {
					want = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("f"), 80))
				}
				if got.Annotations[filterAnnotation] != want || len(got.Linux.Seccomp) < 1000 {
					t.Errorf("door %v: %v, and a profile of %d bytes", door, got.Annotations, len(got.Linux.Seccomp))
				}
			}
			if left, err := os.ReadDir(r.state); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestFilterWhenAllEnds: a crun that makes a filter is not killed at the end of
// runnerd, which would leave its container behind; what it made is removed.
func TestFilterWhenAllEnds(t *testing.T) {
	dir := t.TempDir()
	path, door := filepath.Join(dir, "crun"), filepath.Join(dir, "go")
	if err := unix.Mkfifo(door, 0o600); err != nil {
		t.Fatal(err)
	}
	place(t, path, []byte(strings.Replace(strings.ReplaceAll(fake, "SIZE", "80"), `mkdir "$state/bm-filter"`, `mkdir "$state/bm-filter"; read end <"$state/../go"; : >"$state/../whole"`, 1)))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	r, err := New("", filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Warm(ctx) }()
	f, err := os.OpenFile(door, os.O_WRONLY, 0) // crun is in the middle
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("it was not waited for: %v", err)
	case <-time.After(100 * time.Millisecond): // time for a kill that must not come
	}
	_ = f.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "whole")); err != nil {
		t.Error("crun did not come to its end:", err)
	}
	if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); string(asked) != "1\n" {
		t.Errorf("it went on with the other profile: %q", asked)
	}
	if _, err := os.Stat(filepath.Join(dir, "state", "bm-filter")); err == nil {
		t.Error("its container is still there")
	}
}
