package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

func TestFromLoopdToTheOwnerAndBack(t *testing.T) {
	h := newHouse(t)
	h.start()
	got, err := h.broker(call("s/1/1/0", "read_file", `{"path":"/data/x"}`))
	if r, ok := got.(*proto.CallResult); err != nil || !ok || r.Text != "done" {
		t.Fatalf("%+v %v", got, err)
	}

	follower, err := ipc.Dial(t.Context(), h.at("owner.sock"), proto.OwnerEvents)
	h.try(err)
	defer follower.Close()
	h.try(follower.Send(&proto.ListApprovals{Follow: true}))

	conn, err := ipc.Dial(t.Context(), h.at("broker.sock"), proto.BrokerEvents)
	h.try(err)
	defer conn.Close()
	h.try(conn.Send(call("s/1/2/0", "write_file", `{"path":"/data/x","content":"hello"}`)))
	m, err := conn.Recv()
	asked, ok := m.(*proto.Asked)
	if err != nil || !ok || asked.Call != "s/1/2/0" {
		t.Fatalf("%+v %v", m, err)
	}
	m, err = follower.Recv()
	a, ok := m.(*proto.Approval)
	if err != nil || !ok || a.Approval != asked.Approval || a.Diff != "+hello\n" || a.DiffNote != "a note" {
		t.Fatalf("%+v %v", m, err)
	}
	if l := owner[*proto.ApprovalList](h, &proto.ListApprovals{}); len(l.Approvals) != 1 || l.Approvals[0].Digest != a.Digest {
		t.Errorf("%+v", l)
	}
	if s := owner[*proto.BrokerStatus](h, &proto.GetBroker{}); s.Pending != 1 || s.Kept != 1 {
		t.Errorf("%+v", s)
	}
	answered := owner[*proto.Answered](h, &proto.Answer{Approval: a.Approval, Digest: a.Digest, Verdict: proto.VerdictApproved, Channel: "chat"})
	if !answered.First || !strings.Contains(answered.By, fmt.Sprintf("uid %d", os.Getuid())) || answered.Channel != "chat" {
		t.Errorf("%+v", answered)
	}
	if m, err = conn.Recv(); err != nil || m.(*proto.CallResult).Outcome != proto.CallOK {
		t.Errorf("%+v %v", m, err)
	}
	m, err = follower.Recv()
	if r, ok := m.(*proto.Retracted); err != nil || !ok || r.Approval != a.Approval || r.Verdict != proto.VerdictApproved {
		t.Errorf("%+v %v", m, err)
	}
	for _, id := range []string{"s/1/1/0", "s/1/2/0"} {
		if m, err := h.broker(&proto.Confirm{ID: id}); err != nil || m.(*proto.Confirmed).ID != id {
			t.Errorf("%+v %v", m, err)
		}
	}
	if s := owner[*proto.BrokerStatus](h, &proto.GetBroker{}); s.Pending+s.Kept+s.Running != 0 || s.Version != "v-test" || s.Grants != 3 {
		t.Errorf("%+v", s)
	}
}

func TestRefusedAnswersAreErrors(t *testing.T) {
	h := newHouse(t)
	h.start()
	_, err := ipc.Ask(t.Context(), h.at("owner.sock"), proto.OwnerEvents, &proto.Answer{
		Approval: "abc", Digest: strings.Repeat("0", 64), Verdict: proto.VerdictApproved, Channel: "cli",
	})
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != proto.ErrNoApproval {
		t.Errorf("%v", err)
	}
}

func TestEachSocketTakesItsOwnRequests(t *testing.T) {
	h := newHouse(t)
	h.start()
	for name, ask := range map[string]func() (proto.Message, error){
		"an answer by loopd": func() (proto.Message, error) {
			return h.broker(&proto.Answer{Approval: "a", Digest: strings.Repeat("0", 64), Verdict: proto.VerdictApproved, Channel: "cli"})
		},
		"a resume by loopd": func() (proto.Message, error) { return h.broker(&proto.Resume{}) },
		"a call by the owner": func() (proto.Message, error) {
			return ipc.Ask(t.Context(), h.at("owner.sock"), proto.OwnerEvents, call("s/1/1/0", "read_file", "{}"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ask()
			var e *proto.Error
			if !errors.As(err, &e) || e.Code != proto.ErrBadRequest {
				t.Errorf("%+v %v", m, err)
			}
		})
	}
}

// P56: whoever is not the owner cannot answer, whatever he knows.
func TestCaseP56OnlyTheOwnerAnswers(t *testing.T) {
	h := newHouse(t)
	h.owner = []uint32{uint32(os.Getuid()) + 1}
	h.start()
	m, err := ipc.Ask(t.Context(), h.at("owner.sock"), proto.OwnerEvents, &proto.ListApprovals{})
	if err == nil {
		t.Errorf("%+v", m)
	}
	if _, err := h.broker(&proto.FindTools{Session: "s"}); err != nil {
		t.Errorf("loopd is refused too: %v", err)
	}
}

func TestFindTools(t *testing.T) {
	h := newHouse(t)
	h.start()
	for _, tc := range []struct {
		query string
		want  string
	}{
		{"", "read_file write_file"}, // no grant for the others, or an expired one
		{"replace the text of a file", "write_file read_file"},
		{"reading", "read_file"},
		{"zebra", "read_file write_file"}, // nothing fits: better all than none
	} {
		m, err := h.broker(&proto.FindTools{Session: "s", Query: tc.query})
		h.try(err)
		var names []string
		for n, i := range m.(*proto.ToolList).Tools {
			names = append(names, i.Name)
			if n == 0 && i.Schema == "" || i.Line == "" {
				t.Errorf("%+v", i)
			}
		}
		if got := strings.Join(names, " "); got != tc.want && !strings.HasPrefix(got, strings.Fields(tc.want)[0]) {
			t.Errorf("%q: %s", tc.query, got)
		}
	}
	table := owner[*proto.ToolTable](h, &proto.ListTools{})
	for _, r := range table.Tools {
		want := map[string]string{"read_file": "10-read.toml", "write_file": "20-write.toml"}[r.Name]
		if got := strings.Join(r.Grants, " "); got != want {
			t.Errorf("%s: %q", r.Name, got)
		}
	}
}

func TestExplain(t *testing.T) {
	h := newHouse(t)
	h.start()
	for _, tc := range []struct {
		name string
		ask  proto.Explain
		want proto.Verdict
		code proto.Code
	}{
		{"allowed", proto.Explain{Tool: "read_file", Args: `{"path":"/data/x"}`}, proto.VerdictAllow, ""},
		{"asked", proto.Explain{Session: "s", Tool: "write_file", Args: `{"path":"/data/x","content":""}`}, proto.VerdictAsk, ""},
		{"denied", proto.Explain{Tool: "read_file", Args: `{"path":"/etc/x"}`}, proto.VerdictDeny, proto.CodeNoGrant},
		{"bad arguments", proto.Explain{Tool: "read_file", Args: `{"paths":"/etc/x"}`}, proto.VerdictDeny, proto.CodeInvalidArguments},
		{"no such tool", proto.Explain{Tool: "rm", Args: `{}`}, proto.VerdictDeny, proto.CodeUnknownTool},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h.t = t
			before := owner[*proto.BrokerStatus](h, &proto.GetBroker{}).Head
			e := owner[*proto.Explained](h, &tc.ask)
			if e.Verdict != tc.want || e.Code != tc.code || e.Why == "" {
				t.Errorf("%+v", e)
			}
			if after := owner[*proto.BrokerStatus](h, &proto.GetBroker{}).Head; after != before {
				t.Error("it is on record")
			}
		})
	}
	if len(h.runs) != 0 {
		t.Error("something ran")
	}
}

func TestStatusNamesWhatIsWrong(t *testing.T) {
	h := newHouse(t)
	h.grant("40-broken.toml", "tool = \"read_file\"\nmod = \"auto\"\n")
	asked := make(chan struct{}, 16)
	h.start(Look{Name: "runner", Ask: func(context.Context) []proto.Check {
		asked <- struct{}{}
		return []proto.Check{{Name: "runner", State: "failed", Detail: "away", Runbook: "runnerd-away"}}
	}})
	<-asked
	<-asked // asked again, since it was not well; the first answer is there
	s := owner[*proto.BrokerStatus](h, &proto.GetBroker{})
	rows := map[string]string{}
	for _, c := range s.Checks {
		rows[c.Name] = c.State
	}
	if rows["runner"] != "failed" || rows["grants"] != "failed" || rows["audit"] != "ok" || rows["secrets"] != "skipped" {
		t.Errorf("%v", rows)
	}
	if len(s.Broken) != 1 || !strings.HasPrefix(s.Broken[0], "40-broken.toml:2: ") {
		t.Errorf("%v", s.Broken)
	}
}

func TestCheckpointAndHalt(t *testing.T) {
	h := newHouse(t)
	h.start()
	head := owner[*proto.Head](h, &proto.GetHead{})
	if head.Head.N == 0 || !strings.Contains(head.Checkpoint, "boxmaker/audit\n") {
		t.Errorf("%+v", head)
	}
	if s := owner[*proto.BrokerStatus](h, &proto.Halt{Reason: "a test"}); !s.Halted || s.HaltReason != "a test" {
		t.Errorf("%+v", s)
	}
	got, err := h.broker(call("s/1/1/0", "read_file", `{"path":"/data/x"}`))
	if r, ok := got.(*proto.CallResult); err != nil || !ok || r.Code != proto.CodeHalted {
		t.Errorf("%+v %v", got, err)
	}
	if s := owner[*proto.BrokerStatus](h, &proto.Resume{}); s.Halted {
		t.Errorf("%+v", s)
	}
}
