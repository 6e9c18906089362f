package up

import (
	"context"
	"log/slog"
	"time"

	"boxmaker/bxctl/internal/audit"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/owner"
)

// anchorPeriod is how often the head of the audit log is kept where brokerd
// can't write, so that not more of the log than that can be cut off unnoticed.
const anchorPeriod = 5 * time.Minute

// anchors keeps heads until ctx ends.
func (s *session) anchors(ctx context.Context) {
	t := time.NewTicker(anchorPeriod)
	defer t.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			told = s.anchor(ctx, told)
		}
	}
}

// anchor keeps one head. It gives what it told of, so as not to tell it twice.
func (s *session) anchor(ctx context.Context, told string) string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	added, err := audit.At(s.o.Layout).Anchor(ctx, owner.At(s.o.Layout), s.o.Now(), false)
	switch {
	case err == nil && added.New:
		s.out.own.Info("kept the head of the audit log", "n", added.Head.N, "hash", added.Head.Hash)
		return ""
	case err == nil || ctx.Err() != nil || owner.Away(err):
		return ""
	}
	text := fault.Line(err)
	if text != told {
		s.out.say("the head of the audit log could not be kept: "+text, slog.LevelWarn, "the head of the audit log could not be kept", "error", text)
	}
	return text
}

// knownHeads are brokerd's arguments about the audit log: it does not go on with
// one that is shorter than what was kept of it.
func (s *session) knownHeads() []string {
	args, err := audit.At(s.o.Layout).Flags()
	if err != nil {
		text := fault.Line(err)
		s.out.say("brokerd starts without the heads that were kept of the audit log: "+text, slog.LevelWarn, "the kept heads of the audit log can't be read", "error", text)
	}
	return args
}
