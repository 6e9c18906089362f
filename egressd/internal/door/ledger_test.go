package door

import (
	"fmt"
	"testing"

	"boxmaker/internal/proto"
)

// A tool cannot hide where it went behind attempts that are refused.
func TestWhatWasReachedIsListed(t *testing.T) {
	var l ledger
	for n := range maxListed + 10 {
		l.add(n, proto.EgressConn{Host: fmt.Sprint("x", n), Verdict: proto.EgressNotAllowed})
	}
	for n := range 3 {
		l.add(1000+n, proto.EgressConn{Host: "a.example:443", Address: "192.0.2.1:443", Verdict: proto.EgressPassed})
	}
	r := l.report()
	if len(r.Connections) != maxListed || r.More != 13 {
		t.Errorf("%d rows and %d more", len(r.Connections), r.More)
	}
	passed := 0
	for _, c := range r.Connections {
		if c.Verdict == proto.EgressPassed {
			passed++
		}
	}
	if passed != 3 || r.Connections[0].Host != "x0" {
		t.Errorf("%d of 3 that passed are listed", passed)
	}
}
