package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
)

// noDirect is a direct channel with an owner that cannot be opened.
type noDirect struct {
	owner string
	err   error
}

func (e *noDirect) Error() string {
	return "the direct channel with " + e.owner + " cannot be opened: " + e.err.Error()
}

func (e *noDirect) Unwrap() error { return e.err }

// homes opens the direct channels with owners that are not there yet, as for one who
// was added to the settings by hand, and gives all channels. Nothing is posted there.
// What cannot be had is told, and tried again the next time; it holds nobody else up.
func (b *Bot) homes(ctx context.Context, all []mattermost.Channel) ([]mattermost.Channel, error) {
	var lost []string
	for _, o := range b.cfg.Rules.Owners {
		mine := allow.Rules{Owners: []string{o}}
		if slices.ContainsFunc(all, func(ch mattermost.Channel) bool {
			return ch.Type == mattermost.Direct && allow.Relevant(mine, b.self.Bot, ch)
		}) {
			continue
		}
		ch, err := b.cfg.Chat.Direct(ctx, b.self.ID, o)
		var no *mattermost.Refused
		switch {
		case err == nil:
			all = append(all, ch)
		case mattermost.TokenRefused(err) || !errors.As(err, &no):
			return all, err
		default:
			lost = append(lost, (&noDirect{o, err}).Error())
		}
	}
	var away []string
	for _, id := range b.cfg.Rules.Channels {
		if !slices.ContainsFunc(all, func(ch mattermost.Channel) bool { return ch.ID == id && ch.DeleteAt == 0 }) {
			away = append(away, id)
		}
	}
	var rows []proto.Check
	if len(lost) > 0 {
		rows = append(rows, proto.Check{Name: "owners", State: "failed", Detail: strings.Join(lost, "; "), Runbook: "mattermost-direct"})
	}
	if len(away) > 0 {
		rows = append(rows, proto.Check{Name: "channels", State: "failed", Detail: fmt.Sprintf("nobody is heard in %s: archived, or the bot is not in it", strings.Join(away, ", ")), Runbook: "mattermost-channel"})
	}
	b.missing(rows)
	return all, nil
}

// missing keeps what is to be told of places, and says it in the log once.
func (b *Bot) missing(rows []proto.Check) {
	b.note(func(s *state) {
		for _, r := range rows {
			if !slices.Contains(s.missing, r) {
				b.cfg.Log.Warn("a place where the owner should be heard cannot be had", "what", r.Name, "detail", r.Detail, "runbook", r.Runbook)
			}
		}
		s.missing = rows
	})
}
