package tui

import (
	"context"

	"boxmaker/bxctl/internal/stats"
	"boxmaker/bxctl/internal/tui/chat"
)

// context plots the turns of a session.
func (s *shell) context(ctx context.Context, session string) (any, error) {
	st, err := stats.Read(ctx, s.cfg.Dir, session)
	if err != nil {
		return nil, err
	}
	return chat.Said{Text: st.Text(s.cfg.Screen, s.cfg.Screen.Width()-1, s.cfg.Now())}, nil
}
