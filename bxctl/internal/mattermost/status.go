package mattermost

import (
	"context"
	"fmt"

	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// Socket is where gatewayd tells the owner how it is.
func Socket(l config.Layout) string { return l.Socket("gatewayd", "bxctl", "status") }

// Status asks gatewayd how it is.
func Status(ctx context.Context, l config.Layout) (*proto.GatewayStatus, error) {
	m, err := ipc.Ask(ctx, Socket(l), proto.GatewayEvents, &proto.GetGateway{})
	if err != nil {
		return nil, err
	}
	st, ok := m.(*proto.GatewayStatus)
	if !ok {
		return nil, fmt.Errorf("gatewayd answered with %s", m.Tag())
	}
	return st, nil
}
