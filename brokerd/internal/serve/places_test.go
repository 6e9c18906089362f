package serve

import (
	"testing"
	"time"

	"boxmaker/internal/grant"
)

// TestPlaces: a model learns where a tool may be used, and not what is denied or
// has expired.
func TestPlaces(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	g := func(tool string, mode grant.Mode, read, write, hosts []string) *grant.Grant {
		return &grant.Grant{Tool: tool, Mode: mode, Paths: grant.Paths{Read: read, Write: write}, Net: grant.Net{Hosts: hosts}}
	}
	old := g("read_file", grant.Auto, []string{"/old"}, nil, nil)
	old.Expires = now
	set := grant.Set{Grants: []*grant.Grant{
		g("read_file", grant.Deny, []string{"/home/me/private"}, nil, nil), old,
		g("read_file", grant.Auto, []string{"/home/me/notes", "/home/me/My Files"}, []string{"/home/me/Boxmaker"}, nil),
		g("read_file", grant.Ask, []string{"/home/me/notes"}, nil, nil),
		g("write_file", grant.Ask, []string{"/home/me/notes"}, []string{"/home/me/Boxmaker"}, nil),
		g("http_fetch", grant.Auto, nil, nil, []string{"*.example.com:443"}),
		g("shell", grant.Ask, []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7"}, nil, nil),
	}}
	for tool, want := range map[string]string{
		"read_file":  ` Granted: /home/me/notes, "/home/me/My Files", /home/me/Boxmaker`,
		"write_file": " Granted: /home/me/Boxmaker",
		"http_fetch": " Granted: *.example.com:443",
		"shell":      " Granted: /1, /2, /3, /4, /5, /6, and more",
		"run":        "",
	} {
		if got := places(set, tool, now); got != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
}
