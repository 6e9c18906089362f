package mattermost

// A track follows the numbers of events through connections. It is pure.
type track struct {
	id   string // of the connection, for taking it up again; "" for none
	next int64  // the number that the next event should have
	up   bool   // something arrived on this connection
}

// begin starts a connection. It reports whether an older one is to be taken up.
func (t *track) begin() bool {
	t.up = false
	if t.id == "" {
		t.next = 0
	}
	return t.id != ""
}

// feed takes a frame and says what is to be told.
//
// The server greets a new connection with hello, number 0, and one that it takes
// up again not at all. So the first thing that is no hello, an event or the answer
// to our ping, means that it was taken up.
func (t *track) feed(f frame, me string) ([]Event, error) {
	if f.Event == "" {
		switch {
		case f.lost():
			return nil, errSession
		case t.up:
			return nil, nil
		}
		t.up = true
		return []Event{Up{Fresh: t.id == ""}}, nil
	}
	if f.Event == "hello" {
		id, server, err := f.hello()
		if err != nil {
			return nil, err
		}
		t.id, t.next, t.up = id, f.Seq+1, true
		return []Event{Up{Fresh: true, Server: server}}, nil
	}
	if f.Seq < t.next {
		return nil, nil // seen before
	}
	var evs []Event
	if gap := f.Seq > t.next || !t.up && t.id == ""; gap || !t.up {
		evs = append(evs, Up{Fresh: gap})
	}
	t.next, t.up = f.Seq+1, true
	e, err := f.decode(me)
	if e != nil {
		evs = append(evs, e)
	}
	return evs, err
}
