package archive

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"
)

// An Item is one row of a session as it is shown: a message, a tool call with
// its result, or the end of a turn.
type Item struct {
	Time     time.Time
	Role     string // user, assistant, call, turn
	Text     string // of a call: the result
	Thinking string
	Call     *Call
	Epoch    int   // where it stands
	Record   int64 // in the epoch's log
	Origin   string
	Surface  proto.Surface // of a user's message
}

// A Call is a tool call and how it ended.
type Call struct {
	ID      string // empty where the source does not tell
	Tool    string
	Args    string
	Ended   bool // the members below are known
	Outcome proto.CallOutcome
	Code    proto.Code
	Class   proto.Class
	MS      int64
	Dropped int64 // bytes of the result that the model does not see
}

// A Mark is a place in a session's logs. The zero value is the end.
type Mark struct {
	epoch int
	end   int64
	start bool // nothing stands before it
}

// AtStart reports that nothing stands before the mark.
func (m Mark) AtStart() bool { return m.start }

// Before gives the last items before a mark, oldest first: about n of them, more
// where a turn would be cut in the middle. It reads from the end, so its cost
// does not grow with the session.
func (f Files) Before(ctx context.Context, id string, at Mark, n int) ([]Item, Mark, error) {
	if err := CheckID(id); err != nil {
		return nil, at, err
	}
	if at.start {
		return nil, at, nil
	}
	root, err := f.open()
	if err != nil {
		return nil, at, err
	}
	defer root.Close()
	all, err := epochs(root, id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(all) == 0 {
		return nil, at, NoSession(id)
	} else if err != nil {
		return nil, at, err
	}
	if at.epoch == 0 {
		at = Mark{epoch: all[len(all)-1], end: -1}
	}
	var items []Item // newest first
	for {
		err := appendlog.Back(root, id+"/"+fileName(at.epoch), at.end, func(start int64, line []byte) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			h, r, err := proto.DecodeTrustedRecord(line)
			if err != nil {
				return err
			}
			was := len(items)
			items = appendItems(items, h, r)
			for i := range items[was:] {
				items[was+i].Epoch, items[was+i].Record = at.epoch, h.N
			}
			at.end = start
			if _, user := r.(*proto.User); user && len(items) >= n {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, at, err
		}
		i := slices.Index(all, at.epoch)
		switch {
		case err == nil && i <= 0:
			at = Mark{start: true, epoch: at.epoch}
		case err == nil:
			at = Mark{epoch: all[i-1], end: -1}
		}
		if err != nil || at.start || len(items) >= n {
			slices.Reverse(items)
			return Join(items), at, nil
		}
	}
}

// appendItems adds a record's items, last one first.
func appendItems(items []Item, h proto.Header, r proto.Record) []Item {
	switch r := r.(type) {
	case *proto.User:
		return append(items, Item{Time: h.Time, Role: "user", Text: parse(r.Message).Content, Origin: r.Origin, Surface: r.Surface})
	case *proto.Assistant:
		m := parse(r.Message)
		for i := len(m.Calls) - 1; i >= 0; i-- {
			c := m.Calls[i].Function
			items = append(items, Item{Time: h.Time, Role: "call", Call: &Call{Tool: c.Name, Args: c.Arguments}})
		}
		if m.Content == "" && m.Reasoning == "" {
			return items
		}
		return append(items, Item{Time: h.Time, Role: "assistant", Text: m.Content, Thinking: m.Reasoning})
	case *proto.Tool:
		c := &Call{ID: r.Call, Ended: true, Outcome: r.Outcome, Code: r.Code, Class: r.Class, MS: r.MS, Dropped: r.Dropped}
		return append(items, Item{Time: h.Time, Role: "result", Text: parse(r.Message).Content, Call: c})
	case *proto.TurnEnd:
		text := ""
		if r.Outcome != proto.TurnAnswered {
			text = strings.TrimSpace(string(r.Outcome) + ". " + r.Text)
		}
		return append(items, Item{Time: h.Time, Role: "turn", Text: text, Origin: r.Origin})
	default:
		return items
	}
}

// Join puts results (role "result") to their calls: they follow in the same
// order.
func Join(items []Item) []Item {
	out := make([]Item, 0, len(items))
	waiting := []int{}
	for _, it := range items {
		switch it.Role {
		case "result":
			if len(waiting) == 0 {
				it.Role = "call"
				if it.Call == nil {
					it.Call = &Call{}
				}
				it.Call.Tool = "a tool"
				out = append(out, it)
				continue
			}
			c := &out[waiting[0]]
			waiting = waiting[1:]
			if it.Call != nil {
				it.Call.Tool, it.Call.Args = c.Call.Tool, c.Call.Args
				c.Call = it.Call
			}
			c.Text = it.Text
		case "call":
			waiting = append(waiting, len(out))
			out = append(out, it)
		default:
			waiting = waiting[:0]
			out = append(out, it)
		}
	}
	return out
}

// FromPast makes items of what loopd tells.
func FromPast(p *proto.Past) []Item {
	t, err := proto.ParseTime(p.Time)
	if err != nil {
		t = time.Time{}
	}
	it := Item{Time: t, Role: p.Role, Text: p.Text, Epoch: p.Epoch, Record: p.Record, Origin: p.Origin, Surface: p.Surface}
	switch p.Role {
	case "tool":
		it.Role = "result"
		if p.Outcome != "" {
			it.Call = &Call{ID: p.Call, Ended: true, Outcome: p.Outcome, Code: p.Code, Class: p.Class, MS: p.MS}
		}
	case "turn":
		if p.Text == string(proto.TurnAnswered) {
			it.Text = ""
		}
	case "assistant":
		var out []Item
		if p.Text != "" || p.Thinking != "" {
			it.Thinking = p.Thinking
			out = append(out, it)
		}
		if p.Tool != "" {
			it.Role, it.Text, it.Thinking = "call", "", ""
			it.Call = &Call{Tool: p.Tool, Args: p.Args}
			out = append(out, it)
		}
		return out
	}
	return []Item{it}
}

// Fill gives how many tokens the window of a session holds now, and how many it
// may hold.
func (f Files) Fill(id string) (context, window int64, err error) {
	root, err := f.open()
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	all, err := epochs(root, id)
	if err != nil || len(all) == 0 {
		return 0, 0, err
	}
	name := id + "/" + fileName(all[len(all)-1])
	_, err = appendlog.Scan(root, name, func(_ int64, line []byte) error {
		if _, r, err := proto.DecodeTrustedRecord(line); err == nil {
			if b, ok := r.(*proto.Baseline); ok {
				window = b.Window
			}
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, 0, err
	}
	err = appendlog.Back(root, name, -1, func(_ int64, line []byte) error {
		_, r, err := proto.DecodeTrustedRecord(line)
		if err != nil {
			return err
		}
		if c, ok := r.(*proto.Completion); ok {
			context = c.CacheN + c.PromptN + c.PredictedN
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return context, window, err
}
