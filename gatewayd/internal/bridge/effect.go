package bridge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"boxmaker/gatewayd/internal/loop"
	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/gatewayd/internal/split"
	"boxmaker/internal/proto"
)

// fileName is what a long answer is called.
const fileName = "answer.md"

// effect starts what the machine wants. Nothing here waits.
func (b *Bot) effect(ctx context.Context, f Effect) {
	switch f := f.(type) {
	case Do:
		b.wg.Go(func() { b.box.put(b.do(ctx, f)) })
	case Submit:
		b.wg.Go(func() { b.turn(ctx, f) })
	case Command:
		item, ok := b.cfg.Queue.Get(f.Post)
		if !ok {
			return
		}
		text := item.Text
		b.wg.Go(func() { b.box.put(b.command(ctx, f, text)) })
	case Stop:
		b.wg.Go(func() { _, _ = b.cfg.Loop.Stop(ctx, f.Session) }) // the thread is gone: nobody to tell
	case Tell:
		b.wg.Go(func() {
			err := b.cfg.Loop.Delivered(ctx, f.Session, f.Key)
			b.box.put(Told{f.Post, err == nil || !loop.Again(err)})
		})
	case Typing:
		b.wg.Go(func() { _ = b.cfg.Chat.Typing(ctx, f.Channel, f.Root) }) // a courtesy
	case Warn:
		b.cfg.Log.Warn(f.What, "post", f.Post)
	}
}

// turn follows a turn of loopd.
func (b *Bot) turn(ctx context.Context, s Submit) {
	m := &proto.Submit{Session: s.Session, Origin: s.Post, Text: s.Text, Surface: proto.SurfaceMattermost}
	last := ""
	err := b.cfg.Loop.Turn(ctx, m, func(m proto.Message) {
		switch tag := m.Tag(); m.(type) {
		case *proto.Text, *proto.Thinking:
			if tag != last { // of many pieces one says it all
				b.box.put(Turn{s.Post, m})
			}
			last = tag
		default:
			last = tag
			b.box.put(Turn{s.Post, m})
		}
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	lost := Lost{Post: s.Post, Final: !loop.Again(err)}
	var e *proto.Error
	if errors.As(err, &e) {
		lost.Text = "**This did not work.** " + split.Harmless(sentence(e.Text, e.Runbook))
	}
	if !lost.Final {
		b.cfg.Log.Info("a turn is not followed at the moment", "post", s.Post, "error", err.Error())
	}
	b.box.put(lost)
}

// do carries out a request about a post.
func (b *Bot) do(ctx context.Context, d Do) Did {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return Did{Do: d, Fault: Away}
	}
	out := Did{Do: d}
	id, err := b.request(ctx, d)
	out.ID = id
	var busy *mattermost.Busy
	var unsure *mattermost.Unsure
	var refused *mattermost.Refused
	switch {
	case err == nil:
		return out
	case mattermost.TokenRefused(err):
		b.box.put(fatal{err})
		out.Fault = Away
	case errors.As(err, &busy):
		out.Fault, out.After = Away, max(busy.After, time.Second)
	case errors.As(err, &unsure):
		out.Fault = Unsure
	case errors.As(err, &refused):
		out.Fault, out.ID = Refused, d.ID
		var doubt error
		if out.Closed, doubt = b.closed(ctx, d.Channel); doubt != nil {
			out.Fault = Away // what the refusal means is not known: it is asked again
			break
		}
		out.Root = !out.Closed && d.Root != "" && b.rootGone(ctx, d.Root)
	default:
		out.Fault = Away
	}
	if ctx.Err() == nil {
		b.cfg.Log.Warn("a request about a post failed", "post", d.Post, "error", err.Error())
	}
	return out
}

func (b *Bot) request(ctx context.Context, d Do) (string, error) {
	draft := mattermost.Draft{Channel: d.Channel, Root: d.Root, Message: d.Text, Key: d.Key, Pending: d.Key}
	switch d.Kind {
	case Find:
		p, _, err := b.cfg.Chat.Find(ctx, b.self.ID, draft, d.Since-behind)
		return p.ID, err
	case Patch:
		p, err := b.cfg.Chat.Patch(ctx, d.ID, d.Text)
		return p.ID, err
	case Create:
		if d.File != "" {
			id, err := b.cfg.Chat.Upload(ctx, d.Channel, fileName, strings.NewReader(d.File))
			if err != nil {
				return "", upload(err)
			}
			draft.Files = []string{id}
		}
		p, err := b.cfg.Chat.Create(ctx, draft)
		return p.ID, err
	default:
		return "", errors.New("bridge: no rule for a request")
	}
}

// upload takes the doubt off the end of an upload: no post names the file yet. A
// server that has no room for files at all says so with 501.
func upload(err error) error {
	var u *mattermost.Unsure
	if errors.As(err, &u) {
		err = u.Err
	}
	var no *mattermost.Failed
	if errors.As(err, &no) && no.Status == http.StatusNotImplemented {
		return &mattermost.Refused{Status: no.Status, ID: no.ID, Text: no.Text}
	}
	return err
}

// rootGone reports whether the server says that a thread is no more.
func (b *Bot) rootGone(ctx context.Context, root string) bool {
	p, err := b.cfg.Chat.Get(ctx, root)
	var no *mattermost.Refused
	return err == nil && p.DeleteAt != 0 || errors.As(err, &no) && no.Gone()
}

// closed reports whether the server says that a channel is none of ours: an archived one
// is not listed, nor one that we were taken out of.
func (b *Bot) closed(ctx context.Context, channel string) (bool, error) {
	all, err := b.cfg.Chat.Channels(ctx)
	return err == nil && !slices.ContainsFunc(all, func(ch mattermost.Channel) bool { return ch.ID == channel && ch.DeleteAt == 0 }), err
}
