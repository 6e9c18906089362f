package boot

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"boxmaker/brokerd/internal/gateway"
	"boxmaker/internal/proto"
)

// chat makes the client of gatewayd, if there is one, and a row of the status.
// Neither can hold anything up or end brokerd.
func (b *Broker) chat() {
	if b.cfg.Gateway == "" {
		return
	}
	g := b.cfg.Settings.Gateway
	b.gateway = gateway.New(gateway.Config{
		Socket: b.cfg.Gateway, Desk: b.desk, State: b.cfg.State, Head: b.log.Head, Checkpoint: b.checkpoint,
		Rules: gateway.Rules{Approve: g.Approve, MaxTaint: g.MaxTaint, Never: g.Never},
		Now:   b.cfg.Clock.Now, Rand: rand.Float64, Log: b.cfg.Log,
	})
	b.cfg.Looks = append(b.cfg.Looks, gatewayLook(b.cfg.Gateway, b.gateway.Trouble))
}

// gatewayEach is short: it costs gatewayd nothing, and whether messages are heard is
// what the owner looks for.
const gatewayEach = 5 * time.Second

// gatewayLook asks gatewayd how it is.
func gatewayLook(socket string, trouble func() error) Look {
	return Look{Name: "gateway", Each: gatewayEach, Ask: func(ctx context.Context) []proto.Check {
		m, err := ask[*proto.GatewayStatus](ctx, socket, proto.GatewayEvents, &proto.GetGateway{})
		if err != nil {
			return failed("gateway", err, "gatewayd-away")
		}
		rows := []proto.Check{{Name: "gateway", State: "ok", Detail: "gatewayd " + m.Version}}
		switch err := trouble(); {
		case errors.Is(err, gateway.ErrNotYet):
			rows[0].State, rows[0].Detail = "pending", err.Error()
		case err != nil:
			rows = failed("gateway", err, "gatewayd-away")
		}
		return append(rows, within("gateway", m.Checks, m.Confinement)...)
	}}
}
