package main

import (
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// The owner's bxctl has a socket of its own, on which it is told how gatewayd is;
// nothing that is brokerd's is taken there.
func TestTheSocketForBxctl(t *testing.T) {
	h := newHouse(t)
	h.start()
	h.row("mattermost", "ok", "")
	at := filepath.Join(h.dir, "run/gatewayd/status.sock")
	m, err := ipc.Ask(t.Context(), at, proto.GatewayEvents, &proto.GetGateway{})
	if st, ok := m.(*proto.GatewayStatus); err != nil || !ok || len(st.Checks) != 4 || len(st.Confinement) == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	for name, m := range map[string]proto.Message{
		"an approval": question("a1"), "an end": &proto.Retract{Approval: "a1", Verdict: proto.VerdictDenied, By: "uid 0", Channel: "cli"},
		"a list": &proto.StillWaiting{Approvals: []string{}}, "a head": &proto.Anchor{Checkpoint: "boxmaker/audit\n1\nx\n\n— x y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ipc.Ask(t.Context(), at, proto.GatewayEvents, m)
			if err == nil || !strings.Contains(err.Error(), "bad-request") && !strings.Contains(err.Error(), "not a request") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	h.row("approvals", "ok", "0 wait here, 0 posts")
	if n := len(h.fake.Posts(h.dm)); n != 0 {
		t.Errorf("%d posts", n)
	}
}
