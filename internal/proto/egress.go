package proto

import "errors"

// Messages of egress.sock: brokerd asks, egressd answers.

// EgressRequests is what brokerd may send to egressd.
var EgressRequests = union("egress request",
	func() Message { return new(OpenDoor) },
	func() Message { return new(CloseDoor) },
	func() Message { return new(GetEgress) },
)

// EgressEvents is what egressd may send back; each ends the stream.
var EgressEvents = union("egress event",
	func() Message { return new(Door) },
	func() Message { return new(EgressReport) },
	func() Message { return new(EgressStatus) },
	func() Message { return new(Error) },
)

// OpenDoor asks for a way out for one call: a Unix socket that speaks HTTP
// proxy (CONNECT, and absolute-form requests for plain http).
type OpenDoor struct {
	Call  string   `json:"call"`
	Allow []string `json:"allow"` // host:port in lower case; "*.example.com:443" stands for the names below, not for example.com
	Local []string `json:"local"` // those of Allow that may have a private address
	Bytes int64    `json:"bytes"` // cap of both directions together
	Until string   `json:"until"` // when the door closes by itself
}

// Door answers [OpenDoor]: the socket, as a path relative to the run folder.
// The connection stays open: the door lives as long as it does, at most.
type Door struct {
	Path string `json:"path"`
}

// CloseDoor closes the door of a call and all its connections.
type CloseDoor struct {
	Call string `json:"call"`
}

// EgressReport answers [CloseDoor].
type EgressReport struct {
	Connections []EgressConn `json:"connections"`
	More        int64        `json:"more,omitzero"` // connections that are not listed, beyond the first 256
}

// EgressConn is one attempt to connect. There is no content in it.
type EgressConn struct {
	Host     string        `json:"host"`             // host:port as it was asked for, escaped and clipped if it was no such thing
	Address  string        `json:"address,omitzero"` // ip:port that was dialled
	Verdict  EgressVerdict `json:"verdict"`
	Sent     int64         `json:"sent,omitzero"` // bytes towards the host
	Received int64         `json:"received,omitzero"`
	MS       int64         `json:"ms,omitzero"`
}

// GetEgress asks how egressd is.
type GetEgress struct{}

// EgressStatus answers [GetEgress].
type EgressStatus struct {
	Version     string  `json:"version"`
	Doors       int     `json:"doors,omitzero"`
	Confinement []Check `json:"confinement"`
}

// Validate checks id, sign and time. The hosts are checked by egressd.
func (m *OpenDoor) Validate() error {
	_, err := ParseCallID(m.Call)
	_, err2 := ParseTime(m.Until)
	return errors.Join(err, err2, nonNegative(m.Bytes))
}

// Validate accepts any path that is not empty.
func (m *Door) Validate() error {
	if m.Path == "" {
		return errors.New("proto: a door without a path")
	}
	return nil
}

// Validate checks the id.
func (m *CloseDoor) Validate() error { _, err := ParseCallID(m.Call); return err }

// Validate checks each row.
func (m *EgressReport) Validate() error {
	errs := []error{nonNegative(m.More)}
	for _, c := range m.Connections {
		errs = append(errs, c.Validate())
	}
	return errors.Join(errs...)
}

// Validate checks verdict and signs.
func (c EgressConn) Validate() error {
	return errors.Join(c.Verdict.Validate(), nonNegative(c.Sent, c.Received, c.MS))
}

// Validate accepts the only value.
func (m *GetEgress) Validate() error { return nil }

// Validate checks the states.
func (m *EgressStatus) Validate() error {
	errs := []error{nonNegative(int64(m.Doors))}
	for _, c := range m.Confinement {
		errs = append(errs, oneOf("check state", c.State, "ok", "failed", "skipped", "pending"))
	}
	return errors.Join(errs...)
}

// Tags.

func (*OpenDoor) Tag() string     { return "open" }
func (*CloseDoor) Tag() string    { return "close" }
func (*GetEgress) Tag() string    { return "status" }
func (*Door) Tag() string         { return "door" }
func (*EgressReport) Tag() string { return "report" }
func (*EgressStatus) Tag() string { return "status" }
