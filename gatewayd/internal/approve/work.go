package approve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/proto"
)

// Run does what is to be done on the server, until ctx ends or the disk fails, whoever
// noticed that.
func (d *Desk) Run(ctx context.Context) error {
	next := time.NewTimer(lookEach)
	defer next.Stop()
	lookAt := d.cfg.Now().Add(lookEach)
	for {
		if d.cfg.Now().After(lookAt) {
			d.hintAll()
			lookAt = d.cfg.Now().Add(lookEach)
		}
		soon, err := d.round(ctx)
		if err != nil {
			return err
		}
		next.Reset(min(soon, lookEach))
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-next.C:
		}
	}
}

// round goes over all items once or more, until each has to wait. It gives when
// the first of those that failed is to be tried again.
func (d *Desk) round(ctx context.Context) (time.Duration, error) {
	self, ok := d.cfg.Self()
	if !ok {
		return 5 * time.Second, d.trouble()
	}
	for {
		if err := d.trouble(); err != nil {
			return 0, err
		}
		id, step, soon := d.pick(self)
		if id == "" || ctx.Err() != nil {
			return soon, nil
		}
		i := d.copy(id)
		failed := d.do(ctx, self, &i, step)
		if ctx.Err() != nil && failed != nil {
			return soon, nil
		}
		if err := d.settle(&i, step, failed); err != nil {
			return 0, err
		}
	}
}

func (d *Desk) copy(id string) Item { d.mu.Lock(); defer d.mu.Unlock(); return *d.items[id] }

// pick finds an item with something to do, the oldest first.
func (d *Desk) pick(self Self) (string, Step, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, soon := d.cfg.Now(), lookEach
	var ids []string
	for id := range d.items {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return strings.Compare(d.items[a].Made+a, d.items[b].Made+b)
	})
	for _, id := range ids {
		i := d.items[id]
		if wait := d.later[id].Sub(now); wait > 0 {
			soon = min(soon, wait)
			continue
		}
		step := i.Next(d.look[id], i.Post == "" && i.Anchor == "" && Draw(&i.Ask, self.Limit, d.cfg.Zone).File != "")
		if step == StepWait {
			continue
		}
		if step == StepLook { // what comes while it is read is looked at again
			d.look[id] = false
		}
		return id, step, soon
	}
	return "", StepWait, soon
}

// do carries a step out and puts what came of it into i, a copy.
func (d *Desk) do(ctx context.Context, self Self, i *Item, step Step) error {
	chat := d.cfg.Chat
	switch step {
	case StepForget:
		return nil
	case StepUpload:
		d.place(self, i)
		file, err := chat.Upload(ctx, i.Channel, "approval-"+word(i.Ask.Code)+".txt", strings.NewReader(Draw(&i.Ask, self.Limit, d.cfg.Zone).File))
		i.File = file
		return d.elsewhere(self, i, err)
	case StepFind:
		made, err := proto.ParseTime(i.Made)
		if err != nil {
			return err
		}
		p, found, err := chat.Find(ctx, self.Me, i.draft(), made.Add(-findBack).UnixMilli())
		if err == nil && found {
			i.Post, i.At = p.ID, p.CreateAt
		}
		if err == nil && !found {
			i.Tried = false
		}
		return err
	case StepPost:
		return d.create(ctx, self, i)
	case StepMark:
		for _, emoji := range []string{EmojiYes, EmojiNo} {
			if err := chat.React(ctx, self.Me, i.Post, emoji); err != nil && !refused(err) { // replies do as well
				return err
			}
		}
		i.Marked = true
		return nil
	case StepLook:
		return d.read(ctx, self, i)
	case StepClose:
		text := Outcome(&i.Ask, i.End, self.Limit)
		_, err := chat.Patch(ctx, i.Post, text)
		if err == nil || refused(err) { // gone, or not ours to change any more
			i.Closed, err = true, nil
		}
		return err
	case StepMend:
		_, err := chat.Patch(ctx, i.Post, changed(&i.Ask))
		if err == nil || refused(err) {
			i.Mute, err = true, nil
		}
		return err
	default:
		return errors.New("approve: no such step")
	}
}

// findBack is how far the server's clock may be behind ours.
const findBack = time.Hour

// place says where a card will stand.
func (d *Desk) place(self Self, i *Item) {
	if i.Channel != "" {
		return
	}
	i.Channel = self.Home
	if i.Anchor != "" {
		return
	}
	if channel, root, ok := d.cfg.Place(i.Ask.Session); ok {
		i.Channel, i.Root = channel, root
	}
}

// elsewhere moves a card whose place takes none to the owner's direct channel.
func (d *Desk) elsewhere(self Self, i *Item, err error) error {
	if refused(err) && (i.Channel != self.Home || i.Root != "") {
		i.Channel, i.Root, i.File = self.Home, "", ""
		return nil
	}
	return err
}

func (d *Desk) create(ctx context.Context, self Self, i *Item) error {
	d.place(self, i)
	if i.Anchor != "" {
		i.Text = anchorText(i.Anchor)
	} else {
		card := Draw(&i.Ask, self.Limit, d.cfg.Zone)
		i.Text, i.Mute = card.Text, card.Mute
	}
	i.Tried = true
	if err := d.note(i); err != nil {
		return &diskError{err}
	}
	p, err := d.cfg.Chat.Create(ctx, i.draft())
	var unsure *mattermost.Unsure
	switch {
	case err == nil:
		i.Post, i.At = p.ID, p.CreateAt
	case !errors.As(err, &unsure): // it is surely not there
		i.Tried = false
		return d.elsewhere(self, i, err)
	}
	return err
}

// note saves a copy as the item, but for what others have set meanwhile.
func (d *Desk) note(i *Item) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.merge(i)
}

// merge is note. Precondition: mu is held.
func (d *Desk) merge(i *Item) error {
	if was := d.items[i.ID]; was != nil {
		i.End = was.End
		if i.Said == (Answer{}) {
			i.Said = was.Said
		}
	}
	now := *i
	if err := d.save(&now); err != nil {
		return err
	}
	d.items[i.ID] = &now
	return nil
}

func (i *Item) draft() mattermost.Draft {
	m := mattermost.Draft{Channel: i.Channel, Root: i.Root, Message: i.Text, Key: i.Key, Pending: i.Key}
	if i.File != "" {
		m.Files = []string{i.File}
	}
	return m
}

func (d *Desk) read(ctx context.Context, self Self, i *Item) error {
	// The reactions first: whoever edits the post between the two is found out.
	rs, err := d.cfg.Chat.Reactions(ctx, i.Post)
	if gone(err) {
		rs, err = nil, nil
	}
	if err != nil {
		return err
	}
	p, err := d.cfg.Chat.Get(ctx, i.Post)
	if err != nil && !gone(err) {
		return err
	}
	i.Seen(p, rs, self.Me, d.cfg.Owners, d.cfg.Now())
	return nil
}

// settle makes what a step did durable, and says when to go on after a failure.
// An error is the disk's.
func (d *Desk) settle(i *Item, step Step, failed error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var disk *diskError
	if errors.As(failed, &disk) {
		return disk.err
	}
	id := i.ID
	if step == StepForget {
		if i.Anchor == "" {
			d.remember(id)
		}
		delete(d.items, id)
		delete(d.look, id)
		delete(d.later, id)
		delete(d.tries, id)
		err := d.store.remove(id)
		if err != nil {
			d.fail(err)
		}
		return err
	}
	if err := d.merge(i); err != nil {
		return err
	}
	if failed == nil {
		delete(d.later, id)
		delete(d.tries, id)
		for told := range d.asks[id] {
			select {
			case told <- struct{}{}:
			default:
			}
		}
		return nil
	}
	if step == StepLook {
		d.look[id] = true
	}
	wait := min(backMin<<min(d.tries[id], 10), backMax)
	var busy *mattermost.Busy
	if errors.As(failed, &busy) {
		wait = max(wait, busy.After)
	}
	if d.tries[id]++; d.tries[id] == 1 {
		d.cfg.Log.Warn("a card of an approval cannot be brought up to date", "step", int(step), "error", failed.Error())
	}
	d.later[id] = d.cfg.Now().Add(wait)
	return nil
}

// diskError is a failure of our own disk, after which nothing can be promised.
type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }
func (e *diskError) Unwrap() error { return e.err }

func refused(err error) bool {
	var no *mattermost.Refused
	return errors.As(err, &no) && !no.Token()
}

func gone(err error) bool {
	var no *mattermost.Refused
	return errors.As(err, &no) && no.Gone()
}

// anchorText is the post of an anchor.
func anchorText(note string) string {
	if strings.ContainsFunc(note, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '—' }) { // no note has such
		note = visible(note)
	}
	f := fence(note)
	const most = 3000
	if utf8.RuneCountInString(note) > most { // no note is as long
		note = string([]rune(note)[:most])
	}
	return Seal + " **Head of the audit log.** Keep this message: a log that was cut short or written anew does not fit it any more (docs/formats/audit-log.md says how to compare).\n" +
		f + "text\n" + strings.TrimSuffix(note, "\n") + "\n" + f
}
