package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// NoTools leaves out the roles that run tools: for tests that put a fake in their
// place, or that need none of them. To be called after `bxctl init`, before Up.
func (s *Stack) NoTools() {
	s.TB.Helper()
	s.Set("bxctl.toml", "tools", "enabled", false)
}

// OnlyGrants removes the example grants.
func (s *Stack) OnlyGrants() {
	s.TB.Helper()
	files, err := filepath.Glob(s.Layout.Grants + "/*.toml")
	if err != nil {
		s.TB.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			s.TB.Fatal(err)
		}
	}
}

// Grant writes a grant file as an owner would: it holds from the next call on.
// @HOME@ and @WORKSPACE@ in the text are replaced.
func (s *Stack) Grant(name, text string) {
	s.TB.Helper()
	text = strings.NewReplacer("@HOME@", s.Home, "@WORKSPACE@", s.Layout.Workspace).Replace(text)
	tmp := filepath.Join(s.Layout.Grants, "."+name+".new") // at once, not half
	if err := os.WriteFile(tmp, []byte(text), 0o640); err != nil {
		s.TB.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(s.Layout.Grants, name)); err != nil {
		s.TB.Fatal(err)
	}
}

// Revoke removes a grant file.
func (s *Stack) Revoke(name string) {
	s.TB.Helper()
	if err := os.Remove(filepath.Join(s.Layout.Grants, name)); err != nil {
		s.TB.Fatal(err)
	}
}

// Workspace puts a file into the workspace and gives its path. Tools may use it,
// whatever uid they have.
func (s *Stack) Workspace(name, text string) string {
	s.TB.Helper()
	path := filepath.Join(s.Layout.Workspace, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.TB.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, toolUID, toolUID); err != nil {
			s.TB.Fatal(err)
		}
	}
	return path
}

// toolUID is runnerd's, where `bxctl up` runs as root.
const toolUID = 62109

// Owner sends one request to brokerd that one event answers.
func (s *Stack) Owner(ctx context.Context, m proto.Message) (proto.Message, error) {
	return ipc.Ask(ctx, s.OwnerSocket(), proto.OwnerEvents, m)
}

// OwnerSocket is the owner's socket of brokerd.
func (s *Stack) OwnerSocket() string { return s.Layout.Socket("brokerd", "bxctl", "owner") }

// Broker asks brokerd for its state.
func (s *Stack) Broker() (*proto.BrokerStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return answerOf[*proto.BrokerStatus](s.Owner(ctx, &proto.GetBroker{}))
}

func answerOf[T proto.Message](m proto.Message, err error) (out T, _ error) {
	if err != nil {
		return out, err
	}
	if e, ok := m.(*proto.Error); ok {
		return out, e
	}
	out, ok := m.(T)
	if !ok {
		return out, fmt.Errorf("an answer of another kind: %s", m.Tag())
	}
	return out, nil
}

// WaitApproval returns when exactly one approval waits.
func (s *Stack) WaitApproval() *proto.Approval {
	s.TB.Helper()
	var found *proto.Approval
	s.WaitUntil("an approval waits", func() bool {
		all, err := answerOf[*proto.ApprovalList](s.Owner(s.TB.Context(), &proto.ListApprovals{}))
		if err != nil || len(all.Approvals) != 1 {
			return false
		}
		found = &all.Approvals[0]
		return true
	})
	return found
}

// Answer gives the owner's word on what was shown.
func (s *Stack) Answer(shown *proto.Approval, v proto.Verdict) *proto.Answered {
	s.TB.Helper()
	a, err := answerOf[*proto.Answered](s.Owner(s.TB.Context(), &proto.Answer{Approval: shown.Approval, Digest: shown.Digest, Verdict: v, Channel: "cli"}))
	if err != nil {
		s.TB.Fatalf("answering %s: %v", shown.Code, err)
	}
	return a
}

// An AuditLine is one record of the audit log.
type AuditLine struct {
	proto.AuditHeader
	Record proto.AuditRecord
}

// Audit reads the audit log, with every check that reading has but the chain.
func (s *Stack) Audit() []AuditLine {
	s.TB.Helper()
	root, err := os.OpenRoot(s.Layout.Audit)
	if err != nil {
		s.TB.Fatal(err)
	}
	defer root.Close()
	files, err := filepath.Glob(s.Layout.Audit + "/*.jsonl")
	if err != nil {
		s.TB.Fatal(err)
	}
	var out []AuditLine
	for _, f := range files {
		_, err := appendlog.Scan(root, filepath.Base(f), func(_ int64, line []byte) error {
			h, r, err := proto.DecodeAudit(line)
			out = append(out, AuditLine{h, r})
			return err
		})
		if err != nil {
			s.TB.Fatalf("%s: %v", f, err)
		}
	}
	return out
}

// AuditOf gives the records of one kind.
func AuditOf[T proto.AuditRecord](lines []AuditLine) []T {
	var out []T
	for _, l := range lines {
		if r, ok := l.Record.(T); ok {
			out = append(out, r)
		}
	}
	return out
}

// Containers skips the test where no container can run, with the words of the
// runtime; with BOXMAKER_CONTAINERS=require it fails it instead. It finds out
// once, by starting Boxmaker and asking it.
func Containers(tb testing.TB) {
	tb.Helper()
	const left = "NO TOOL WAS RUN"
	mode := os.Getenv("BOXMAKER_CONTAINERS")
	if mode == "skip" {
		tb.Skip("BOXMAKER_CONTAINERS=skip: " + left)
	}
	if err := containers(tb); err != nil {
		if mode == "require" {
			tb.Fatalf("BOXMAKER_CONTAINERS=require, and no container runs here: %v", err)
		}
		tb.Skipf("NO CONTAINER RUNS HERE (%v): %s", err, left)
	}
}

// containers is the answer, found once.
func containers(tb testing.TB) error {
	probe.once.Do(func() { probe.err = tryContainers(tb) })
	return probe.err
}

// probe is what was found out for all tests of a program.
var probe struct { //nolint:gochecknoglobals // a fact of the machine
	once sync.Once
	err  error
}

func tryContainers(tb testing.TB) error {
	s := New(tb)
	s.Must("", "init")
	s.Up()
	defer s.Down()
	st := s.WaitTools()
	for _, name := range []string{"runner", "runner: runtime"} {
		c := check(st.Checks, name)
		if c == nil {
			return fmt.Errorf("brokerd says nothing of %q", name)
		}
		if c.State != "ok" {
			return errors.New(c.Detail)
		}
	}
	return nil
}

// WaitTools returns when runnerd has tried a container, as it does at its start.
func (s *Stack) WaitTools() *proto.BrokerStatus {
	s.TB.Helper()
	var st *proto.BrokerStatus
	s.WaitUntil("runnerd knows whether containers run", func() bool {
		var err error
		st, err = s.Broker()
		return err == nil && !slices.ContainsFunc(st.Checks, func(c proto.Check) bool {
			return strings.HasPrefix(c.Name, "runner") && c.State == "pending"
		})
	})
	return st
}

func check(all []proto.Check, name string) *proto.Check {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// ChangeByte flips one bit in the middle of the audit log's newest file, and
// gives a way to undo that.
func (s *Stack) ChangeByte() (undo func()) {
	s.TB.Helper()
	return s.damage(func(b []byte) []byte {
		b[len(b)/2] ^= 1
		return b
	})
}

// CutAudit takes the last n lines off the audit log's newest file.
func (s *Stack) CutAudit(n int) (undo func()) {
	s.TB.Helper()
	return s.damage(func(b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		return bytes.Join(lines[:max(0, len(lines)-1-n)], nil)
	})
}

func (s *Stack) damage(how func([]byte) []byte) (undo func()) {
	s.TB.Helper()
	files, err := filepath.Glob(s.Layout.Audit + "/*.jsonl")
	if err != nil || len(files) == 0 {
		s.TB.Fatalf("no audit log: %v", err)
	}
	path := files[len(files)-1]
	was, err := os.ReadFile(path)
	if err != nil {
		s.TB.Fatal(err)
	}
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil { // in place, so that the owner stays
			s.TB.Fatal(err)
		}
	}
	write(how(bytes.Clone(was)))
	return func() { write(was) }
}
