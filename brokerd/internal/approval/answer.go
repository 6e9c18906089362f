package approval

import (
	"context"

	"boxmaker/internal/proto"
)

// Answer takes the owner's word. It returns when the end of the approval is on
// record, whoever ended it. ctx ends the wait for that, not the answer.
func (d *Desk) Answer(ctx context.Context, m *proto.Answer, by string) (*proto.Answered, error) {
	i, mine, end, err := d.offer(m, by)
	if err != nil || end != nil {
		return end, err
	}
	select {
	case <-i.end:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	got := d.ended[m.Approval]
	got.First = mine && got.Verdict == m.Verdict // a stop may have come between
	return &got, nil
}

// offer makes m the answer if there is none, and says whether it did. It gives
// the end of an approval that has one.
func (d *Desk) offer(m *proto.Answer, by string) (i *item, mine bool, end *proto.Answered, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i = d.live[m.Approval]
	if i == nil {
		if end, ok := d.ended[m.Approval]; ok {
			return nil, false, &end, nil
		}
		return nil, false, nil, &proto.Error{
			Code: proto.ErrNoApproval, Runbook: "approval-gone",
			Text: "no approval of that id waits, and none ended lately; `bxctl approvals` lists those that wait",
		}
	}
	if m.Digest != i.held.Approval.Digest {
		return nil, false, nil, &proto.Error{
			Code: proto.ErrWrongDigest, Runbook: "approval-changed",
			Text: "the answer is for another call than the one that waits under this id, so nothing was decided; look at it again with `bxctl approvals`",
		}
	}
	if i.taken != nil {
		return i, false, nil, nil
	}
	i.taken = &proto.Answered{Approval: m.Approval, Verdict: m.Verdict, By: by, Channel: m.Channel}
	if i.expiry.left(d.clock) <= 0 { // its timer is late
		i.taken = &proto.Answered{Approval: m.Approval, Verdict: proto.VerdictExpired, Channel: "brokerd"}
	}
	close(i.answer)
	return i, true, nil, nil
}
