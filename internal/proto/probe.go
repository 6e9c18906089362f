package proto

import "errors"

// Messages of `gatewayd probe`, which bxctl starts to look at a chat's server: the
// question is on its standard input, with the bot's token behind it, and the answer
// on its standard output. Neither is ever kept.

// ProbeRequests is what bxctl may ask.
var ProbeRequests = union("probe request", func() Message { return new(Probe) })

// ProbeEvents is what it is told.
var ProbeEvents = union("probe event", func() Message { return new(Probed) })

// Probe asks for as many steps as it gives what they need. The token is not in it.
type Probe struct {
	URL      string   `json:"url"`
	Plain    bool     `json:"plain,omitzero"` // http:// to another machine
	Owners   []string `json:"owners"`         // names or ids
	Channels []string `json:"channels"`       // names or ids
	Greet    bool     `json:"greet,omitzero"` // a message to the first of the owners
}

// Probed says what came out, up to the first step that failed.
type Probed struct {
	Steps    []ProbeStep `json:"steps"`
	Version  string      `json:"version,omitzero"` // of the server
	Bot      Named       `json:"bot,omitzero"`
	Owners   []Named     `json:"owners"`
	Channels []Named     `json:"channels"`
	Post     string      `json:"post,omitzero"` // id of the message
}

// A ProbeStep is one thing that was looked at.
type ProbeStep struct {
	Name    string `json:"name"`  // server, token, owner, channel, direct, message
	State   string `json:"state"` // ok, warn, failed
	Detail  string `json:"detail,omitzero"`
	Do      string `json:"do,omitzero"`
	Runbook string `json:"runbook,omitzero"`
}

// Named is an account or a channel of the chat's server.
type Named struct {
	ID   string `json:"id,omitzero"`
	Name string `json:"name,omitzero"`
}

// Failed gives the step that failed, which is the last.
func (m *Probed) Failed() (ProbeStep, bool) {
	if n := len(m.Steps); n > 0 && m.Steps[n-1].State == "failed" {
		return m.Steps[n-1], true
	}
	return ProbeStep{}, false
}

// Validate accepts every address: what is wrong with one is for the answer to say.
func (m *Probe) Validate() error {
	if len(m.URL) > 4096 || len(m.Owners) > 64 || len(m.Channels) > 64 {
		return errors.New("proto: a probe of too much")
	}
	return nil
}

// Validate checks the states, and that nothing comes after a step that failed.
func (m *Probed) Validate() error {
	var errs []error
	for i, s := range m.Steps {
		errs = append(errs, oneOf("state of a step", s.State, "ok", "warn", "failed"))
		if s.State == "failed" && i < len(m.Steps)-1 {
			errs = append(errs, errors.New("proto: a step behind one that failed"))
		}
	}
	return errors.Join(errs...)
}

// Tags.

func (*Probe) Tag() string  { return "probe" }
func (*Probed) Tag() string { return "probed" }
