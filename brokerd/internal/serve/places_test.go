package serve

import (
	"testing"
	"time"

	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
)

// TestPlaces: a model learns where a tool may be used now, and not what is
// denied, has expired, or is not for a session that has seen what this one has.
func TestPlaces(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	g := func(tool string, mode grant.Mode, read, write, hosts []string) *grant.Grant {
		return &grant.Grant{
			Tool: tool, Mode: mode, ModeUntrusted: mode, MaxTaint: proto.ClassPrivate,
			Paths: grant.Paths{Read: read, Write: write}, Net: grant.Net{Hosts: hosts},
		}
	}
	old := g("read_file", grant.Auto, []string{"/old"}, nil, nil)
	old.Expires = now
	clean := g("http_fetch", grant.Auto, nil, nil, []string{"clean.example.com:443"})
	clean.ModeUntrusted = grant.Deny
	public := g("list_files", grant.Auto, []string{"/pub"}, nil, nil)
	public.MaxTaint = proto.ClassPublic
	set := grant.Set{Grants: []*grant.Grant{
		g("read_file", grant.Deny, []string{"/home/me/private"}, nil, nil), old,
		g("read_file", grant.Auto, []string{"/home/me/notes", "/home/me/private/x", "/home/me/My Files"}, []string{"/home/me/Boxmaker"}, nil),
		g("read_file", grant.Ask, []string{"/home/me/notes"}, nil, nil),
		g("write_file", grant.Ask, []string{"/home/me/notes"}, []string{"/home/me/Boxmaker"}, nil),
		g("http_fetch", grant.Auto, nil, nil, []string{"*.example.com:443", "bad.example.org:443"}), clean,
		g("http_fetch", grant.Deny, nil, nil, []string{"bad.example.org:443"}),
		g("shell", grant.Ask, []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7"}, nil, nil), public,
	}}
	private := grant.Request{Now: now, Taint: proto.ClassPrivate}
	untrusted, secret := private, private
	untrusted.Untrusted, secret.Taint = true, proto.ClassSecret
	for _, tc := range []struct {
		name, tool string
		r          grant.Request
		want       string
		shown      bool
	}{
		{"paths", "read_file", private, ` Granted: /home/me/notes, "/home/me/My Files", /home/me/Boxmaker`, true},
		{"a writer's", "write_file", private, " Granted: /home/me/Boxmaker", true},
		{"hosts", "http_fetch", private, " Granted: *.example.com:443, clean.example.com:443", true},
		{"hosts after untrusted text", "http_fetch", untrusted, " Granted: *.example.com:443", true},
		{"many", "shell", private, " Granted: /1, /2, /3, /4, /5, /6, and more", true},
		{"none", "run", private, "", false},
		{"after a secret", "read_file", secret, "", false},
		{"of a session that is public", "list_files", grant.Request{Now: now, Taint: proto.ClassPublic}, " Granted: /pub", true},
		{"not of a private one", "list_files", private, "", false},
	} {
		if got := places(set, tc.tool, tc.r); got != tc.want || set.Permits(tc.tool, tc.r) != tc.shown {
			t.Errorf("%s: %q, want %q; shown %v", tc.name, got, tc.want, set.Permits(tc.tool, tc.r))
		}
	}
}
