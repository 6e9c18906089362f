package proto

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseCallID(t *testing.T) {
	for _, s := range []string{"s/1/0/0", exCall, strings.Repeat("z", 64) + "/9223372036854775807/9223372036854775807/9223372036854775807"} {
		if c, err := ParseCallID(s); err != nil || c.String() != s {
			t.Errorf("%s: %v, %v", s, c, err)
		}
	}
	for _, s := range []string{
		"", "s", "s/1/0", "s/1/0/0/0", "/1/0/0", "s/0/0/0", "s/-1/0/0", "s/1/-1/0", "s/1/0/-1", "s/01/0/0", "s/1/+0/0",
		"s/1/0/0 ", " s/1/0/0", "S/1/0/0", "s/1/0/x", "s/1/0/", "s//0/0", "../1/0/0", "s/1/0/99999999999999999999", "s/1/0/0\n", "s/1_0/0/0", "s/0x1/0/0",
	} {
		if c, err := ParseCallID(s); !errors.Is(err, ErrID) || c != (CallID{}) {
			t.Errorf("%q: %v, %v", s, c, err)
		}
	}
}

func TestCheckHash(t *testing.T) {
	for _, s := range []string{exHash, NoHash} {
		if err := CheckHash(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", exHash[1:], exHash + "0", strings.ToUpper(exHash), "g" + exHash[1:], exHash[1:] + "\n", exHash[1:32] + "-" + exHash[32:], exHash[2:] + "é"} {
		if err := CheckHash(s); !errors.Is(err, ErrID) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestParseTime(t *testing.T) {
	for _, s := range []string{exTime, "0000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2024-02-29T00:00:00.000Z"} {
		if got, err := ParseTime(s); err != nil || Time(got) != s {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "2026-03-04T05:06:07Z", "2026-03-04T05:06:07.08Z", "2026-03-04T05:06:07.0890Z", "2026-03-04T05:06:07,089Z",
		"2026-03-04T05:06:07.089+00:00", "2026-03-04t05:06:07.089z", "2026-03-04 05:06:07.089Z", "2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z",
		"2026-03-04T24:00:00.000Z", "2026-03-04T05:06:60.000Z", "12026-03-04T05:06:07.089Z", " 2026-03-04T05:06:07.089Z",
	} {
		if got, err := ParseTime(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
	// Any zone, and what is finer than a millisecond is dropped.
	at := time.Date(2026, 3, 4, 6, 6, 7, 89_999_999, time.FixedZone("", 3600))
	if Time(at) != exTime {
		t.Error(Time(at))
	}
}

func TestIDsNeverLeaveAFolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "id")
		if CheckSession(s) == nil && strings.ContainsAny(s, "./\\\x00 ") {
			t.Fatalf("session id %q", s)
		}
		if CheckToken(s) == nil && strings.ContainsAny(s, "./\\\x00 \"") {
			t.Fatalf("token %q", s)
		}
	})
}

func TestCallIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := CallID{
			Session: rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "session"),
			Epoch:   rapid.IntMin(1).Draw(t, "epoch"),
			Record:  rapid.Int64Min(0).Draw(t, "record"),
			Index:   rapid.IntMin(0).Draw(t, "index"),
		}
		if back, err := ParseCallID(c.String()); err != nil || back != c {
			t.Fatalf("%v: %v, %v", c, back, err)
		}
	})
}
