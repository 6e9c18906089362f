package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// TestApproveOnATerminal: bxctl approve shows the call and asks; only a yes that was
// typed there is one. No, Enter, the end of input and Ctrl-C leave the call waiting.
func TestApproveOnATerminal(t *testing.T) {
	stack.Containers(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which bxctl approve is asked in")
	}
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Workspace("list.txt", "milk\nbread\n")
	s.Up()
	s.WaitTools()
	turn := s.Command(t.Context(), "ask", "--session", "talk-a", "change milk to oats in list.txt")
	var out strings.Builder
	turn.Stdout = &out
	if err := turn.Start(); err != nil {
		t.Fatal(err)
	}
	a := s.WaitApproval()
	x := newTmux(t, s, 80)
	ask := func() {
		x.run("send-keys", "-R")
		x.run("clear-history")
		x.text("clear; bxctl approve " + strings.ToLower(a.Code) + "; echo code $?")
		x.keys("Enter")
		screen := x.settled("Approve this call? [y/N]")
		for _, want := range []string{"edit_file wants your approval · code " + a.Code, "┆ -milk", "┆ +oats", "50-workspace-edit.toml"} {
			if !strings.Contains(screen, want) {
				t.Errorf("no %q in\n%s", want, screen)
			}
		}
	}
	for _, no := range [][]string{{"n", "Enter"}, {"Enter"}, {"y", "e", "a", "h", "Enter"}, {"C-d"}} {
		ask()
		x.keys(no...)
		if screen := x.settled("code 1\n"); !strings.Contains(screen, "still waits") || !strings.Contains(screen, "see runbook: approval-waits") {
			t.Errorf("%q:\n%s", no, screen)
		}
	}
	ask()
	x.keys("C-c")
	x.settled("[y/N] ^C\n$") // the shell takes it as well, and leaves the echo out
	if now := s.WaitApproval(); now.Approval != a.Approval {
		t.Fatalf("another call waits: %+v", now)
	}
	if b, err := os.ReadFile(filepath.Join(s.Layout.Workspace, "list.txt")); err != nil || string(b) != "milk\nbread\n" {
		t.Errorf("before the answer the file is %q, %v", b, err)
	}
	ask()
	x.keys("y", "Enter")
	x.settled(a.Code + " is approved\ncode 0\n")
	if err := turn.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if b, err := os.ReadFile(filepath.Join(s.Layout.Workspace, "list.txt")); err != nil || string(b) != "oats\nbread\n" {
		t.Errorf("after it the file is %q, %v", b, err)
	}
	answers := stack.AuditOf[*proto.AuditApproval](s.Audit())
	if len(answers) != 1 || answers[0].Verdict != proto.VerdictApproved || answers[0].Channel != "cli" {
		t.Errorf("on record: %+v", answers)
	}
}

// TestOnATerminalOnly: the commands that ask or talk, and so have no plain form.
func TestOnATerminalOnly(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("NOT RUN: there is no tmux here, which the commands for terminals are tested in")
	}
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Up()
	s.Must("", "ask", "--session", "talk-a", "hello")
	x := newTmux(t, s, 80)
	line := func(text string) { x.text(text); x.keys("Enter") }
	line("bxctl sessions resume")
	x.settled("── session talk-a ──")
	line("/quit")
	x.settled("bxctl chat --session talk-a")
	line("clear; bxctl sessions resume --plain")
	x.settled("> hello\n")
	line("/quit")
	x.settled("bxctl chat --session talk-a\n$")
	s.Down()

	line("clear; bxctl secret passphrase")
	x.settled("New passphrase (it is not shown; empty for none):")
	line("a long passphrase")
	x.settled("Once more:")
	line("another passphrase")
	x.settled("the two are not the same")
	line("clear; bxctl secret passphrase")
	x.settled("New passphrase")
	line("a long passphrase")
	x.settled("Once more:")
	line("a long passphrase")
	if screen := x.settled("the key is encrypted; bxctl up asks for the passphrase from now on"); strings.Contains(screen, "a long") {
		t.Errorf("it is on the screen:\n%s", screen)
	}
	line("clear; bxctl secret list; echo code $?")
	x.settled("Passphrase of the secrets' key (it is not shown):")
	line("a long passphrase")
	x.settled("code 0\n")
}
