package loop

import (
	"context"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// behindAll is a record number that no log reaches: nothing past is told.
const behindAll = 1 << 40

// Follow hands the events of the turn that runs in a session on, up to its end.
// It does not try again when loopd goes away.
func (c Client) Follow(ctx context.Context, session string, event func(proto.Message)) error {
	conn, err := ipc.Dial(ctx, c.Path, proto.LoopEvents)
	if err != nil {
		return Explain(err)
	}
	defer conn.Close()
	if err := conn.Send(&proto.Watch{Session: session, After: behindAll, Follow: true}); err != nil {
		return Explain(err)
	}
	for {
		m, err := conn.Recv()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return Explain(err)
		}
		switch m := m.(type) {
		case *proto.Error:
			return Explain(m)
		case *proto.Past:
		case *proto.Done:
			event(m)
			return nil
		default:
			event(m)
		}
	}
}
