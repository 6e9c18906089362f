package main

import (
	"context"
	"errors"
	"time"

	"boxmaker/gatewayd/internal/allow"
	"boxmaker/gatewayd/internal/approve"
	"boxmaker/gatewayd/internal/bridge"
	"boxmaker/gatewayd/internal/loop"
	"boxmaker/gatewayd/internal/queue"
	"boxmaker/internal/daemon"
	"boxmaker/internal/proto"

	"golang.org/x/sync/errgroup"
)

// Pauses between two lives.
const (
	restMin = time.Second
	restMax = time.Minute
)

// live has the bot work. What it cannot note on disk it does not take, and nothing is
// acknowledged after a failed write: that life of it ends, with all that it holds in
// memory, and the next one reads what is on disk, as a new start would. Nothing else
// of Boxmaker has to end for that: the program stays, tells what is wrong, and tries
// again, for as long as it takes.
func (p *parts) live(ctx context.Context) error {
	for n := 0; ; n++ {
		began := time.Now()
		err := p.life(ctx, n > 0)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, bridge.ErrChanged):
			return errors.Join(err, p.renew(ctx))
		case time.Since(began) > restMax:
			n = 0
		}
		pause := p.rest(n, err)
		for end := time.Now().Add(pause); time.Until(end) > 0 && sleep(ctx, min(time.Second, time.Until(end))); {
			if p.set.Changed() {
				return errors.Join(bridge.ErrChanged, p.renew(ctx))
			}
		}
	}
}

// rest tells why nothing is heard or posted now, and gives for how long.
func (p *parts) rest(n int, err error) time.Duration {
	pause := min(restMin<<min(n, 10), restMax)
	p.d.Log().Error("gatewayd's own folder cannot be used, so that nothing is heard or posted", "error", err.Error(), "retry", pause.String())
	p.front.rest(err)
	return pause
}

// life is the time between two looks at the disk. again says that the last one ended
// in an error.
func (p *parts) life(ctx context.Context, again bool) error {
	if again {
		if err := queue.Room(p.state); err != nil {
			return err
		}
	}
	q, rec, err := queue.Open(p.state)
	if err != nil {
		return err
	}
	defer q.Close()
	if rec.Torn > 0 {
		p.d.Log().Warn("the end of the queue was cut off: it was not written whole, and so nothing was promised", "bytes", rec.Torn, "file", rec.Side)
	}
	desk, bot, err := p.open(q)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	p.front.begin(ctx, desk)
	defer p.front.rest(errNotYet)
	defer desk.Close()
	g.Go(func() error { return ended(ctx, "the cards of approvals", desk.Run(ctx)) })
	g.Go(func() error { return ended(ctx, "the bot", bot.Run(ctx)) })
	return g.Wait()
}

// open makes what lives, on what is on disk.
func (p *parts) open(q *queue.Queue) (*approve.Desk, *bridge.Bot, error) {
	var bot *bridge.Bot
	desk, bad, err := approve.Open(approve.Config{
		Chat: p.chat, Owners: p.set.Owners, Root: p.state, Now: time.Now, Zone: time.Local, Log: p.d.Log(),
		Self: func() (approve.Self, bool) {
			s, ok := bot.Self()
			return approve.Self{Me: s.ID, Home: s.Home, Limit: s.Limit}, ok
		},
		Place:  func(session string) (string, string, bool) { return bot.Place(session) },
		Status: func() *proto.GatewayStatus { return p.status(bot.Checks()) },
	})
	if err != nil {
		return nil, nil, err
	}
	for _, b := range bad {
		p.d.Log().Error("an approval of the chat cannot be read and is moved aside; it is shown again if it still waits", "file", b)
	}
	bot = bridge.NewBot(bridge.BotConfig{
		Chat: p.chat, Loop: loop.Client{Path: p.o.loop}, Desk: desk, Queue: q,
		Rules: allow.Rules{Owners: p.set.Owners, Channels: p.set.Channels}, Changed: p.set.Changed,
		Parts: p.set.Limits.Parts, Open: p.set.Limits.Open, CatchUp: time.Duration(p.set.Limits.CatchUp), Past: &p.past, Log: p.d.Log(),
	})
	return desk, bot, nil
}

func (p *parts) status(rows []proto.Check) *proto.GatewayStatus {
	return &proto.GatewayStatus{Version: daemon.Version, Checks: append(rows, p.check()...), Confinement: p.confined}
}

// renew prepares an end for new settings, which only a new start can read. Until what
// held before is kept there is none: a start that finds a slip would end all.
func (p *parts) renew(ctx context.Context) error {
	p.d.Log().Info("the settings have changed: ending, to be started with them")
	p.front.rest(bridge.ErrChanged)
	for n := 0; ; n++ {
		err := p.set.Keep(p.state)
		if err == nil {
			break
		}
		if !sleep(ctx, p.rest(n, err)) {
			return err
		}
	}
	sleep(ctx, time.Until(p.began.Add(settled)))
	return nil
}

// sleep reports whether the whole time went by.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
