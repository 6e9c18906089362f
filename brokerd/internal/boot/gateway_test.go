package boot

import (
	"context"
	"errors"
	"testing"

	"boxmaker/brokerd/internal/gateway"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

func TestAChatIsToldAndSeen(t *testing.T) {
	h := newHouse(t)
	ln, err := ipc.Listen(h.at("gw.sock"))
	h.try(err)
	asked := make(chan *proto.Ask, 1)
	srv := &ipc.Server{Listener: ln, Requests: proto.GatewayRequests, Handle: func(ctx context.Context, m proto.Message, s *ipc.Stream) {
		switch m := m.(type) {
		case *proto.StillWaiting:
			_ = s.Send(&proto.Stale{Approvals: []string{}})
		case *proto.Ask:
			asked <- m
			_ = s.Send(&proto.ChatAnswer{Approval: m.Approval, Digest: m.Digest, Verdict: proto.VerdictApproved, By: "owner1"})
		case *proto.GetGateway:
			_ = s.Send(&proto.GatewayStatus{Version: "v-gw", Checks: []proto.Check{{Name: "server", State: "ok"}}, Confinement: []proto.Check{}})
		default:
			_ = s.Send(&proto.Noted{})
		}
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() { cancel(); h.try(<-done) })
	h.chat = h.at("gw.sock")
	h.start()
	conn, err := ipc.Dial(t.Context(), h.at("broker.sock"), proto.BrokerEvents)
	h.try(err)
	defer conn.Close()
	h.try(conn.Send(call("s/1/1/0", "write_file", `{"path":"/data/a","content":"x","mode":"overwrite"}`)))
	for {
		m, err := conn.Recv()
		h.try(err)
		if r, ok := m.(*proto.CallResult); ok {
			if r.Outcome != proto.CallOK {
				t.Errorf("%+v", r)
			}
			break
		}
	}
	if m := <-asked; m.Tool != "write_file" || m.Elsewhere() {
		t.Errorf("%+v", m)
	}
}

func TestRowsOfAChat(t *testing.T) {
	none := gatewayLook(t.TempDir()+"/none.sock", func() error { return nil }).Ask(t.Context())
	if len(none) != 1 || none[0].State != "failed" || none[0].Runbook != "gatewayd-away" {
		t.Errorf("%+v", none)
	}
	path := t.TempDir() + "/g.sock"
	ln, err := ipc.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &ipc.Server{Listener: ln, Requests: proto.GatewayRequests, Handle: func(_ context.Context, _ proto.Message, s *ipc.Stream) {
		_ = s.Send(&proto.GatewayStatus{Version: "v1", Checks: []proto.Check{{Name: "server", State: "ok", Detail: "connected"}}, Confinement: []proto.Check{}})
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	defer func() { cancel(); <-done }()
	rows := gatewayLook(path, func() error { return nil }).Ask(t.Context())
	if len(rows) != 2 || rows[0].State != "ok" || rows[1].Name != "gateway: server" {
		t.Errorf("%+v", rows)
	}
	rows = gatewayLook(path, func() error { return errors.New("it answers nonsense") }).Ask(t.Context())
	if len(rows) != 2 || rows[0].State != "failed" || rows[0].Detail != "it answers nonsense" {
		t.Errorf("%+v", rows)
	}
	rows = gatewayLook(path, gateway.New(gateway.Config{}).Trouble).Ask(t.Context()) // at a start
	if len(rows) != 2 || rows[0].State != "pending" {
		t.Errorf("%+v", rows)
	}
}
