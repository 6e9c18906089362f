package proto

import "errors"

// Checks of the loop.sock messages. They bound identifiers, enums and signs;
// lengths are bounded by the frame.

// Validate checks the identifiers. An empty or oversized text is refused by
// loopd with an error of its own, so that the client hears why.
func (m *Submit) Validate() error {
	return errors.Join(CheckSession(m.Session), CheckToken(m.Origin), m.Surface.Validate())
}

// Validate checks the session id and the signs.
func (m *Watch) Validate() error {
	return errors.Join(CheckSession(m.Session), nonNegative(m.After, int64(m.Epoch)))
}

// Validate checks the session id.
func (m *Stop) Validate() error { return CheckSession(m.Session) }

// Validate checks the prefix.
func (m *ListSessions) Validate() error {
	if m.Prefix != "" {
		return errors.Join(CheckSession(m.Prefix), nonNegative(int64(m.Limit)))
	}
	return nonNegative(int64(m.Limit))
}

// Validate checks the session id.
func (m *GetSession) Validate() error { return CheckSession(m.Session) }

// Validate checks the identifiers.
func (m *Delivery) Validate() error { return errors.Join(CheckSession(m.Session), CheckToken(m.Key)) }

// Validate accepts the only value.
func (m *GetStatus) Validate() error { return nil }

// Validate checks the signs.
func (m *Accepted) Validate() error { return nonNegative(m.Record, int64(m.Queued)) }

// Validate checks role, time, and what is there of identifiers and enums.
func (m *Past) Validate() error {
	_, err := ParseTime(m.Time)
	err = errors.Join(err, oneOf("role", m.Role, "user", "assistant", "tool", "turn"), nonNegative(m.Record, int64(m.Epoch), m.MS))
	if m.Origin != "" {
		err = errors.Join(err, CheckToken(m.Origin))
	}
	if m.Call != "" {
		_, bad := ParseCallID(m.Call)
		err = errors.Join(err, bad)
	}
	for _, v := range []struct {
		set   bool
		check func() error
	}{
		{m.Surface != "", m.Surface.Validate}, {m.Outcome != "", m.Outcome.Validate}, {m.Code != "", m.Code.Validate}, {m.Class != "", m.Class.Validate},
	} {
		if v.set {
			err = errors.Join(err, v.check())
		}
	}
	return err
}

// Validate checks the reason.
func (m *Waiting) Validate() error {
	return errors.Join(m.Reason.Validate(), nonNegative(int64(m.Ahead)))
}

// Validate checks the signs.
func (m *Prefill) Validate() error { return nonNegative(m.Total, m.Cached, m.Done, m.MS) }

// Validate accepts any text.
func (m *Thinking) Validate() error { return nil }

// Validate accepts any text.
func (m *Text) Validate() error { return nil }

// Validate checks the call id.
func (m *ToolStarted) Validate() error { _, err := ParseCallID(m.Call); return err }

// Validate checks enums and the call id.
func (m *Result) Validate() error {
	_, err := ParseCallID(m.Call)
	return errors.Join(err, checkResult(m.Outcome, m.Code, m.Class), nonNegative(m.Bytes, m.MS))
}

// checkResult: a call that went well has no code, any other has one.
func checkResult(o CallOutcome, c Code, class Class) error {
	if err := errors.Join(o.Validate(), class.Validate()); err != nil {
		return err
	}
	if o == CallOK {
		if c != "" {
			return errors.New("proto: an ok call has a code")
		}
		return nil
	}
	return c.Validate()
}

// Validate checks the kind.
func (m *Notice) Validate() error { return errors.Join(m.Kind.Validate(), nonNegative(m.Lost, m.MS)) }

// Validate checks the signs.
func (u Usage) Validate() error {
	return nonNegative(int64(u.Completions), u.Prompt, u.Cached, u.Generated, u.PromptMS, u.GenerateMS, u.Context, u.Window)
}

// Validate checks the outcome.
func (m *Done) Validate() error { return errors.Join(m.Outcome.Validate(), m.Usage.Validate()) }

// Validate checks the code.
func (m *Error) Validate() error { return m.Code.Validate() }

// Validate accepts both values.
func (m *Stopped) Validate() error { return nil }

// Validate checks the row.
func (s SessionInfo) Validate() error {
	_, err := ParseTime(s.Modified)
	return errors.Join(err, CheckSession(s.Session), nonNegative(int64(s.Epoch), s.Records, s.Bytes))
}

// Validate checks each row.
func (m *SessionList) Validate() error {
	var errs []error
	for _, s := range m.Sessions {
		errs = append(errs, s.Validate())
	}
	return errors.Join(errs...)
}

// Validate checks the row.
func (m *SessionDetail) Validate() error {
	return errors.Join(m.Info.Validate(), m.Usage.Validate(), nonNegative(int64(m.Queued), int64(m.Turns)))
}

// Validate checks the states.
func (m *Status) Validate() error {
	_, err := ParseTime(m.Since)
	errs := []error{err, oneOf("state", m.State, "starting", "waiting", "ready")}
	for _, c := range append(append([]Check{}, m.Checks...), m.Confinement...) {
		errs = append(errs, oneOf("check state", c.State, "ok", "failed", "skipped", "pending"))
	}
	return errors.Join(errs...)
}
