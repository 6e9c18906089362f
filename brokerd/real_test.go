package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

func TestRealContainers(t *testing.T) {
	m := newMachine(t)
	note := m.file("note.txt", "one\ntwo\n")
	m.grant("10-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"DATA\"]\n")
	m.grant("20-edit.toml", "tool = \"edit_file\"\nmode = \"ask\"\nreason = \"notes\"\n[paths]\nwrite = [\"DATA\"]\n")

	r := m.must("s/1/1/0", "read_file", `{"path":"`+note+`"}`, nil)
	if r.Outcome != proto.CallOK || !strings.Contains(r.Text, "two") || !r.Untrusted || r.Head.N == 0 {
		t.Errorf("a granted read: %+v", r)
	}
	var shown *proto.Approval
	yes := func(a *proto.Approval) proto.Verdict { shown = a; return proto.VerdictApproved }
	r = m.must("s/1/2/0", "edit_file", `{"path":"`+note+`","old":"two","new":"three"}`, yes)
	if r.Outcome != proto.CallOK {
		t.Errorf("an approved edit: %+v", r)
	}
	if shown == nil || !strings.Contains(shown.Diff, "-two") || !strings.Contains(shown.Diff, "+three") || shown.DiffNote != "" {
		t.Errorf("its question: %+v", shown)
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "one\nthree\n" {
		t.Errorf("%q %v", text, err)
	}
	no := func(*proto.Approval) proto.Verdict { return proto.VerdictDenied }
	r = m.must("s/1/3/0", "edit_file", `{"path":"`+note+`","old":"one","new":"four"}`, no)
	if r.Code != proto.CodeDeniedByOwner {
		t.Errorf("a denied edit: %+v", r)
	}
	r = m.must("s/1/4/0", "read_file", `{"path":"/etc/passwd"}`, nil)
	if r.Outcome != proto.CallDenied || r.Code != proto.CodeNoGrant {
		t.Errorf("a path without a grant: %+v", r)
	}
	if text, err := os.ReadFile(note); err != nil || string(text) != "one\nthree\n" {
		t.Errorf("after it was denied: %q %v", text, err)
	}
	got, err := ipc.Ask(t.Context(), m.at("owner.sock"), proto.OwnerEvents, &proto.GetBroker{})
	if err != nil {
		t.Fatal(err)
	}
	if s := got.(*proto.BrokerStatus); s.Grants != 2 || s.Kept != 2 || s.Running+s.Pending != 0 || s.Head.N < 7 {
		t.Errorf("%+v", s)
	}
}

// P69: brokerd is killed while a call runs. No container outlives it, and the
// call is told as one whose fate is unknown; it does not run again.
func TestCaseP69KilledWhileACallRuns(t *testing.T) {
	m := newMachine(t)
	m.grant("10-run.toml", "tool = \"shell\"\nmode = \"auto\"\n[paths]\nwrite = [\"DATA\"]\n[limits]\ntime = \"1h\"\n")
	mark := filepath.Join(m.data, "mark")
	gone := make(chan error, 1)
	go func() {
		_, err := m.call(t.Context(), "s/1/1/0", "shell", `{"command":"echo run >> `+mark+`; sleep 3000"}`, nil)
		gone <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m.until(ctx, "the call runs", func() bool { return exists(mark) })
	m.try(m.brokerd.cmd.Process.Kill())
	<-m.brokerd.ended
	if err := <-gone; err == nil {
		t.Error("it was answered")
	}
	m.until(ctx, "no container is left", func() bool {
		got, err := ipc.Ask(ctx, m.at("runner.sock"), proto.RunnerEvents, &proto.GetRunner{})
		s, ok := got.(*proto.RunnerStatus)
		return err == nil && ok && s.Running == 0 && !sleeping()
	})
	m.startBroker()
	got, err := ipc.Ask(ctx, m.at("broker.sock"), proto.BrokerEvents, &proto.Fate{ID: "s/1/1/0"})
	if r, ok := got.(*proto.CallResult); err != nil || !ok || r.Code != proto.CodeUnknownFate {
		t.Errorf("%+v %v", got, err)
	}
	if text, err := os.ReadFile(mark); err != nil || string(text) != "run\n" {
		t.Errorf("%q %v", text, err)
	}
}
