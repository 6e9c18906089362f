package proto

import "testing"

// Examples of `gatewayd probe`.

func probeRequests() []example[Message] {
	return []example[Message]{{
		&Probe{URL: "http://chat.example.com/sub", Plain: true, Owners: []string{"ann"}, Channels: []string{"town-square"}, Greet: true},
		&Probe{URL: "https://chat.example.com"},
	}}
}

func probeEvents() []example[Message] {
	return []example[Message]{{
		&Probed{
			Steps:   []ProbeStep{{Name: "server", State: "warn", Detail: "its certificate ends soon", Do: "renew it", Runbook: "mattermost-certificate"}, {Name: "token", State: "failed", Detail: "it is refused", Do: "make another", Runbook: "mattermost-token"}},
			Version: "11.1.0", Bot: Named{ID: exOwner, Name: "boxmaker"}, Owners: []Named{{ID: exOwner, Name: "ann"}}, Channels: []Named{{ID: exOwner, Name: "town-square"}}, Post: exOwner,
		},
		&Probed{},
	}}
}

// A failed step is the last one, or what follows would be built upon it.
func TestNothingComesBehindAFailedStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		states []string
		ok     bool
	}{
		{"none", nil, true},
		{"all well", []string{"ok", "warn", "ok"}, true},
		{"the last failed", []string{"ok", "failed"}, true},
		{"gone on", []string{"failed", "ok"}, false},
		{"no such state", []string{"fine"}, false},
	} {
		m := &Probed{}
		for _, s := range c.states {
			m.Steps = append(m.Steps, ProbeStep{Name: "server", State: s})
		}
		if err := m.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		_, failed := m.Failed()
		if want := len(c.states) > 0 && c.states[len(c.states)-1] == "failed"; failed != want {
			t.Errorf("%s: failed is %v", c.name, failed)
		}
	}
	if (&Probe{URL: "x", Owners: make([]string, 65)}).Validate() == nil {
		t.Error("65 owners are accepted")
	}
}
