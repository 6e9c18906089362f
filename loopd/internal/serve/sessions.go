package serve

import (
	"cmp"
	"strings"

	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// defaultRows is how many sessions a list has when the client names no number.
const defaultRows = 100

// maxRows is what surely fits a frame.
const maxRows = 4000

func (s *server) list(m *proto.ListSessions, out *ipc.Stream) error {
	all, err := s.cfg.Store.List()
	if err != nil {
		return err
	}
	limit := min(cmp.Or(m.Limit, defaultRows), maxRows)
	list := &proto.SessionList{Sessions: []proto.SessionInfo{}}
	for _, info := range all {
		if !strings.HasPrefix(info.Session, m.Prefix) {
			continue
		}
		if len(list.Sessions) == limit {
			list.More = true
			break
		}
		list.Sessions = append(list.Sessions, info)
	}
	return out.Send(list)
}

// detail sums a session up from its files.
func (s *server) detail(id string, out *ipc.Stream) error {
	if err := s.exists(id); err != nil {
		return err
	}
	var sum proto.Summary
	err := s.cfg.Store.Read(id, func(_ int, _ proto.Header, r proto.Record) error {
		sum.Add(r)
		return nil
	})
	if err != nil {
		return err
	}
	if sum.Detail.Info, err = s.cfg.Store.Info(id); err != nil {
		return err
	}
	return out.Send(&sum.Detail)
}
