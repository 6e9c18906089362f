package tui

import (
	"context"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/stats"
	"boxmaker/bxctl/internal/tui/chat"
)

// context plots the turns of a session.
func (s *shell) context(ctx context.Context, session string) (any, error) {
	st, err := stats.Read(ctx, s.cfg.Dir, session)
	if err != nil {
		return nil, err
	}
	text := st.Text(s.cfg.Screen, s.cfg.Screen.Width()-1, s.cfg.Now())
	if err := archive.Incomplete(st.Unread); err != nil {
		text += "\n" + s.cfg.Screen.Warn(fault.Text(err))
	}
	return chat.Said{Text: text}, nil
}
