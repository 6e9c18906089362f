package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/bxctl/internal/tui/chat"
	"boxmaker/internal/proto"
)

// shownAtResume is about how many rows of a session are shown when it is gone
// on with.
const shownAtResume = 12

// query answers a request of the chat. It runs beside Update, and touches
// nothing that Update owns.
func (s *shell) query(ctx context.Context, q chat.Query) any {
	m, err := s.answer(ctx, q)
	if err != nil && q.What == chat.AskTail {
		return chat.NoTail{Err: err}
	}
	if err != nil {
		return chat.Failed{Err: err}
	}
	return m
}

func (s *shell) answer(ctx context.Context, q chat.Query) (any, error) {
	var b bytes.Buffer
	sc := s.cfg.Screen
	sc.W = &b
	switch q.What {
	case chat.AskStatus:
		st, err := s.cfg.Client.Status(ctx)
		if err != nil {
			return nil, err
		}
		return chat.Said{Text: report.Brief(sc, st, q.Session)}, nil
	case chat.AskSessions:
		list, err := s.cfg.Client.Sessions(ctx, "", 20)
		if err != nil {
			return nil, err
		}
		return chat.Said{Text: s.table(list)}, nil
	case chat.AskList:
		list, err := s.cfg.Client.Sessions(ctx, "", 100)
		if err != nil {
			return nil, err
		}
		return chat.Listed{Sessions: list.Sessions}, nil
	case chat.AskTail:
		return s.tail(ctx, q)
	case chat.AskExport:
		return s.export(ctx, q)
	case chat.AskResult:
		return s.result(ctx, q), nil
	case chat.AskContext:
		return s.context(ctx, q.Session)
	default:
		return nil, errors.New("unknown request of the chat")
	}
}

// table lists sessions in rows that fit any window.
func (s *shell) table(list *proto.SessionList) string {
	if len(list.Sessions) == 0 {
		return s.cfg.Screen.Dim("(there are no sessions yet)")
	}
	var b strings.Builder
	for _, info := range list.Sessions {
		when := ""
		if t, err := proto.ParseTime(info.Modified); err == nil {
			when = term.When(t, s.cfg.Now())
		}
		row := fmt.Sprintf("%s  %-12s %8s  %s", term.Line(info.Session), when, term.Bytes(info.Bytes), term.Line(info.Title))
		b.WriteString(term.Clip(row, s.cfg.Screen.Width()-1) + "\n")
	}
	if list.More {
		b.WriteString(s.cfg.Screen.Dim("(there are more: bxctl sessions list)"))
	}
	return b.String()
}

func (s *shell) tail(ctx context.Context, q chat.Query) (any, error) {
	id := q.Arg
	list, err := s.cfg.Client.Sessions(ctx, "", 100)
	if err != nil {
		return nil, err
	}
	for _, info := range list.Sessions {
		if id == "" && info.Session != q.Session {
			id = info.Session
		}
	}
	if id == "" {
		return chat.NoTail{Text: "(there is no earlier session; this one is new)"}, nil
	}
	if err := archive.CheckID(id); err != nil {
		return nil, err
	}
	t := chat.Tail{Session: id}
	if s.cfg.Files {
		var at archive.Mark
		if t.Items, at, err = s.files().Before(ctx, id, archive.Mark{}, shownAtResume); err != nil {
			return nil, err
		}
		if !at.AtStart() { // is there anything but the baseline?
			older, _, err := s.files().Before(ctx, id, at, 1)
			if err != nil {
				return nil, err
			}
			t.More = len(older) > 0
		}
		if t.Context, t.Window, err = s.files().Fill(id); err != nil {
			return nil, err
		}
		return t, nil
	}
	items, d, err := s.overSocket(ctx, id, shownAtResume)
	if err != nil {
		return nil, err
	}
	t.Items, t.More = items, d.more
	t.Context, t.Window = d.context, d.window
	return t, nil
}

// result reads what the model was told of a call. The chat waits for it, so that
// there is always an answer; the text is empty where it can't be had, and the
// reader of the session may still show it.
func (s *shell) result(ctx context.Context, q chat.Query) chat.Result {
	r := chat.Result{Call: q.Arg}
	if !s.cfg.Files {
		return r // loopd does not tell by call
	}
	items, _, err := s.files().Before(ctx, q.Session, archive.Mark{}, 1)
	if err != nil {
		return r
	}
	for _, it := range items {
		if it.Call != nil && it.Call.ID == q.Arg {
			r.Text = it.Text
		}
	}
	return r
}

type socketDetail struct {
	more            bool
	context, window int64
}

// overSocket reads the last n rows through loopd, which tells all of them.
func (s *shell) overSocket(ctx context.Context, id string, n int) ([]archive.Item, socketDetail, error) {
	var d socketDetail
	var items []archive.Item
	detail, err := s.cfg.Client.Past(ctx, id, ring(&items, &d.more, 4*n))
	if err != nil {
		return nil, d, err
	}
	d.context, d.window = detail.Usage.Context, detail.Usage.Window
	items = archive.Join(items)
	if from := min(len(items)-n, lastUser(items)); from > 0 {
		items, d.more = items[from:], true
	}
	return items, d, nil
}

// lastUser is where the last turn begins.
func lastUser(items []archive.Item) int {
	for i, it := range slices.Backward(items) {
		if it.Role == "user" {
			return i
		}
	}
	return len(items)
}

func (s *shell) export(ctx context.Context, q chat.Query) (any, error) {
	name := q.Arg
	if name == "" {
		name = q.Session + ".md"
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	e := archive.Export{Source: s.source(), Now: s.cfg.Now()}
	var b bytes.Buffer
	e.Screen = term.Plain(&b)
	if err := e.Markdown(ctx, q.Session); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, &fault.Fault{What: path + " is there already", Means: "nothing was written", Do: "name another file: /export FILE", Key: "export-exists"}
	case err != nil:
		return nil, &fault.Fault{What: "the session can't be written", Err: err, Do: "name another file: /export FILE", Key: "export-exists"}
	}
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, &fault.Fault{What: "the session can't be written", Err: err, Key: "export-exists"}
	}
	return chat.Said{Text: s.cfg.Screen.Dim("(written to " + term.Line(path) + ", " + term.Bytes(int64(b.Len())) + ")")}, nil
}

func (s *shell) source() archive.Source {
	if s.cfg.Files {
		return s.files()
	}
	return s.cfg.Client
}
