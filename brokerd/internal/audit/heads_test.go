package audit

import (
	"errors"
	"os"
	"strings"
	"testing"

	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// A log that was cut, written anew, or moved away while brokerd was not there is
// not gone on with, unless the owner says so for just that log.
func TestALogThatLacksAKnownHead(t *testing.T) {
	for _, tc := range []struct {
		name string
		harm func(t *testing.T, root, state *os.Root)
		what chain.What
		lost bool // the start record says what was lost
	}{
		{"untouched", func(*testing.T, *os.Root, *os.Root) {}, "", false},
		{"cut", func(t *testing.T, root, _ *os.Root) { cutTo(t, root, 3) }, chain.Cut, true},
		{"cut to nothing", func(t *testing.T, root, _ *os.Root) { cutTo(t, root, 0) }, chain.Cut, true},
		{"moved away", func(t *testing.T, root, _ *os.Root) { try(t, root.Remove("2026-03.jsonl")) }, chain.Cut, true},
		{"written anew", func(t *testing.T, root, _ *os.Root) {
			try(t, root.Remove("2026-03.jsonl"))
			other := mustOpen(t, root, &clock{march})
			for range 9 {
				mustAppend(t, other, halt("other"))
			}
			try(t, other.Close())
		}, chain.Forked, true},
		{"the note is damaged", func(t *testing.T, _, state *os.Root) { try(t, state.WriteFile(HeadFile, []byte("12"), 0o600)) }, chain.Changed, false},
		{"the note is empty", func(t *testing.T, _, state *os.Root) { try(t, state.WriteFile(HeadFile, nil, 0o600)) }, chain.Changed, false},
		{"no note, as before the first start", func(t *testing.T, _, state *os.Root) { try(t, state.Remove(HeadFile)) }, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, state, c := tempRoot(t), tempRoot(t), &clock{march}
			cfg := Config{Root: root, State: state, Version: "v", Now: c.now}
			l, err := Open(cfg)
			try(t, err)
			for range 4 {
				mustAppend(t, l, halt("x"))
			}
			try(t, l.Close())
			tc.harm(t, root, state)
			end, harmed := headOf(t, root), tree(t, root)

			if tc.what != "" {
				var fault *chain.Fault
				_, err = Open(cfg)
				if !errors.As(err, &fault) || fault.What != tc.what || !strings.Contains(err.Error(), "(see runbook: audit-cut)") {
					t.Fatalf("%v", err)
				}
				if now := tree(t, root); now != harmed {
					t.Errorf("it was written to: %s", now)
				}
				cfg.Accept = &proto.AuditHead{N: end.N + 1, Hash: strings.Repeat("a", 64)}
				if _, err := Open(cfg); err == nil {
					t.Error("an acceptance of another log counts")
				}
				cfg.Accept = &end
			}
			if l, err = Open(cfg); err != nil {
				t.Fatal(err)
			}
			try(t, l.Close())
			cfg.Accept = nil
			if l, err = Open(cfg); err != nil {
				t.Fatalf("after it was accepted: %v", err)
			}
			try(t, l.Close())
			lost := 0
			_, err = chain.Verify(chain.Config{Root: root, Visit: func(line chain.Line) error {
				r, err := line.Record()
				if s, ok := r.(*proto.AuditStart); ok {
					lost += len(s.Lost)
				}
				return err
			}})
			if err != nil || (lost > 0) != tc.lost || lost > 1 {
				t.Errorf("%d lost heads on record, %v", lost, err)
			}
		})
	}
}

// A head from outside counts as brokerd's own note does, and a checkpoint is
// noted at once: a kill takes nothing back.
func TestKnownHeads(t *testing.T) {
	root, state, c := tempRoot(t), tempRoot(t), &clock{march}
	cfg := Config{Root: root, State: state, Version: "v", Now: c.now}
	l, err := Open(cfg)
	try(t, err)
	mustAppend(t, l, halt("x"))
	s, err := OpenSigner(state)
	try(t, err)
	given, err := l.Checkpoint(s)
	try(t, err)
	killed := l.Head()
	if b, err := state.ReadFile(HeadFile); err != nil || strings.TrimRight(string(b), " \n") != FormatHead(killed) {
		t.Errorf("%q, %v", b, err)
	}
	try(t, errors.Join(l.lock.Close(), l.file.Close())) // as a kill does it: nothing is noted
	cfg.Known = []proto.AuditHead{given.Head, {Hash: proto.NoHash}}
	if l, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	try(t, l.Close())
	cutTo(t, root, int(given.Head.N)-1)
	try(t, state.Remove(HeadFile))
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "anchors/") {
		t.Errorf("%v", err)
	}
}

func TestParseHead(t *testing.T) {
	good := "12:" + strings.Repeat("ab", 32)
	for s, ok := range map[string]bool{
		good: true, "0:" + proto.NoHash: true, "": false, "12": false, "12:": false, "+" + good: false, "0" + good: false, " " + good: false,
		good + "\n": false, "-1:" + proto.NoHash: false, "12:" + strings.Repeat("AB", 32): false, "1:ab": false,
	} {
		h, err := ParseHead(s)
		if (err == nil) != ok || ok && FormatHead(h) != s {
			t.Errorf("%q: %v, %v", s, h, err)
		}
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cutTo leaves the first n lines.
func cutTo(t *testing.T, root *os.Root, n int) {
	t.Helper()
	b, err := root.ReadFile("2026-03.jsonl")
	try(t, err)
	lines := strings.SplitAfter(string(b), "\n")
	try(t, root.WriteFile("2026-03.jsonl", []byte(strings.Join(lines[:n], "")), 0o600))
}

func headOf(t *testing.T, root *os.Root) proto.AuditHead {
	t.Helper()
	rep, err := chain.Verify(chain.Config{Root: root})
	try(t, err)
	return rep.Head
}
