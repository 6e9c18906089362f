package broker_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/frame"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
	"boxmaker/loopd/internal/broker"
)

const id = "chat-a/1/3/0"

func call(tool string) *proto.Call {
	return &proto.Call{ID: id, Session: "chat-a", Tool: tool, Args: `{"path":"/x"}`}
}

func TestCallAndConfirm(t *testing.T) {
	b := testkit.NewBroker(t)
	c := &broker.Client{Socket: b.Socket}
	if r := c.Call(t.Context(), call("read_file"), nil); r.Outcome != proto.CallOK || r.Text != "done" {
		t.Errorf("%+v", r)
	}
	if r := c.Fate(t.Context(), id); r.Outcome != proto.CallOK { // kept until confirmed
		t.Errorf("%+v", r)
	}
	if err := c.Confirm(t.Context(), id); err != nil {
		t.Error(err)
	}
	if r := c.Fate(t.Context(), id); r.Code != proto.CodeUnknownFate || r.Outcome != proto.CallUnknown {
		t.Errorf("%+v", r)
	}
}

// TestStopEndsACall: a call that runs is ended, and one that never was is said to be so.
func TestStopEndsACall(t *testing.T) {
	b := testkit.NewBroker(t)
	c := &broker.Client{Socket: b.Socket}
	if r := c.Stop(t.Context(), id); r.Code != proto.CodeStopped || r.Outcome != proto.CallDenied {
		t.Errorf("%+v", r)
	}
	begun, gate := make(chan struct{}), make(chan struct{})
	b.On(func(*proto.Call, func(*proto.Asked)) *proto.CallResult {
		close(begun)
		<-gate
		return nil
	})
	got := make(chan *proto.CallResult)
	go func() { got <- c.Call(t.Context(), call("read_file"), nil) }()
	<-begun
	if r := c.Stop(t.Context(), id); r.Code != proto.CodeStopped || r.Outcome != proto.CallDenied {
		t.Errorf("%+v", r)
	}
	close(gate)
	if r := <-got; r.Code != proto.CodeStopped {
		t.Errorf("%+v", r)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if r := (&broker.Client{Socket: filepath.Join(t.TempDir(), "absent.sock")}).Stop(ctx, id); r.Code != proto.CodeUnknownFate {
		t.Errorf("nobody was there to end it: %+v", r)
	}
}

// TestWhatTheModelReads: every result without brokerd's word is one sentence
// that starts with its code, and only then.
func TestWhatTheModelReads(t *testing.T) {
	absent := &broker.Client{Socket: filepath.Join(t.TempDir(), "absent.sock")}
	none := &broker.Client{}
	for _, tc := range []struct {
		name string
		got  *proto.CallResult
		want proto.Code
	}{
		{"no broker", absent.Call(t.Context(), call("read_file"), nil), proto.CodeNoBroker},
		{"none configured", none.Call(t.Context(), call("read_file"), nil), proto.CodeNoBroker},
		{"a name that no tool has", absent.Call(t.Context(), call("Read File"), nil), proto.CodeInvalidArguments},
		{"fate without a broker", absent.Fate(t.Context(), id), proto.CodeUnknownFate},
		{"fate with none configured", (&broker.Client{Grace: time.Hour}).Fate(t.Context(), id), proto.CodeUnknownFate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got.Code != tc.want || !strings.HasPrefix(tc.got.Text, string(tc.want)+": ") || strings.Contains(tc.got.Text, "\n") {
				t.Errorf("%+v", tc.got)
			}
			if err := tc.got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, refused := absent.Find(t.Context(), "chat-a", "x"); refused == nil || !strings.Contains(refused.Text, "denied: no broker") {
		t.Errorf("%+v", refused)
	}
}

// TestABrokenConnectionIsLookedUp: the call was sent, so it is never sent again.
func TestABrokenConnectionIsLookedUp(t *testing.T) {
	b := testkit.NewBroker(t)
	c := &broker.Client{Socket: b.Socket}
	b.On(func(m *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: "chat-b/1/1/0", Outcome: proto.CallOK, Class: proto.ClassPublic} // not ours
	})
	if r := c.Call(t.Context(), call("read_file"), nil); r.Code != proto.CodeUnknownFate || r.ID != id {
		t.Errorf("%+v", r)
	}
	if n := len(b.Calls()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestAWaitThatIsEnded(t *testing.T) {
	b := testkit.NewBroker(t)
	begun, gate := make(chan struct{}), make(chan struct{})
	defer close(gate)
	b.On(func(m *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		close(begun)
		<-gate
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if r := (&broker.Client{Socket: b.Socket}).Call(ctx, call("slow"), nil); r.Code != proto.CodeUnknownFate {
		t.Errorf("%+v", r)
	}
}

// TestABrokerThatTakesNothing: what it refused to read cannot have run, so it is not
// of unknown fate.
func TestABrokerThatTakesNothing(t *testing.T) {
	for _, tc := range []struct {
		runbook string
		code    proto.Code
	}{{"", proto.CodeInternal}, {"brokerd-busy", proto.CodeRateLimited}} {
		takesNothing(t, tc.runbook, tc.code)
	}
}

func takesNothing(t *testing.T, runbook string, code proto.Code) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "broker.sock")
	ln, err := ipc.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	busy, err := proto.Encode(&proto.Error{Code: proto.ErrNotReady, Text: "too many connections", Runbook: runbook})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = frame.Write(conn, busy)
			conn.Close()
		}
	}()
	c := call("read_file")
	c.Args = `{"text":"` + strings.Repeat("x", 3<<20) + `"}` // more than a socket takes that nobody reads
	if r := (&broker.Client{Socket: path}).Call(t.Context(), c, nil); r.Code != code || !strings.Contains(r.Text, "too many connections") {
		t.Errorf("%.200v", r)
	}
}

// TestStop: of a call that the owner stopped, the log has what brokerd says of it.
func TestStop(t *testing.T) {
	b := testkit.NewBroker(t)
	b.Keep(&proto.CallResult{ID: id, Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "it was done before"})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name, id, socket, text string
		ctx                    context.Context
		outcome                proto.CallOutcome
		code                   proto.Code
	}{
		{"a result", id, b.Socket, "it was done before", t.Context(), proto.CallOK, ""},
		{"it never came", "chat-a/1/9/0", b.Socket, "stopped: the turn was stopped before this call began; it did not run.", t.Context(), proto.CallDenied, proto.CodeStopped},
		{"no brokerd", id, "", "unknown-fate: it is not known whether this call ran: the turn was stopped", t.Context(), proto.CallUnknown, proto.CodeUnknownFate},
		{"none answers in time", id, filepath.Join(t.TempDir(), "none"), "unknown-fate: it is not known whether this call ran: the turn was stopped", gone, proto.CallUnknown, proto.CodeUnknownFate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := (&broker.Client{Socket: tc.socket}).Stop(tc.ctx, tc.id)
			if r.ID != tc.id || r.Outcome != tc.outcome || r.Code != tc.code || !strings.HasPrefix(r.Text, tc.text) {
				t.Errorf("%+v", r)
			}
		})
	}
}
