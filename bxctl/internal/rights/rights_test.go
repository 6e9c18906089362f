package rights

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/grant"
	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func now() time.Time { return time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC) }

func parse(t testing.TB, name, text string) *grant.Grant {
	t.Helper()
	g, bad := grant.Parse(name, []byte(text), nil)
	if g == nil {
		t.Fatalf("%+v\n%s", bad, text)
	}
	return g
}

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"reading", "tool=\"read_file\"\nmode=\"auto\"\nmode_untrusted=\"ask\"\nuntrusted=false\nresult_class=\"public\"\n[paths]\nread=[\"/a\",\"/b\"]\n", []string{
			"read_file runs at once; once the session has seen untrusted text it asks you each time",
			"it can read: /a, /b",
			"what comes back counts as public",
			"it holds for sessions that have seen nothing above private",
		}},
		{"a deny", "tool=\"write_file\"\nmode=\"deny\"\nexpires=2030-01-31T00:00:00Z\n[paths]\nwrite=[\"/a\"]\n", []string{
			"write_file is refused, whatever other grants say", "about: /a", "until 2030-01-31 00:00 UTC",
		}},
		{"programs", "tool=\"run\"\nmode=\"ask\"\n[args.argv]\nfirst=[\"git\",\"log\"]\npattern='[a-z]+'\nmax_items=5\nmax_bytes=100\n[limits]\ncalls_per_hour=9\ntime=\"30s\"\nmemory=\"256MiB\"\noutput=\"64KiB\"\npids=8\n[secrets]\nnames=[\"key\"]\n", []string{
			"run asks you each time", "it sees none of your files", "it has no network",
			`its argument argv begins with ["git" "log"], and matches [a-z]+ as a whole, and has at most 100B, and has at most 5 elements`,
			"its programs are those of this machine's /usr", "it is handed the secrets: key",
			"at most: 9 calls an hour, 30s, 256MiB of memory, 64KiB of output, 8 processes",
			"what comes back counts as private and as untrusted text", "it holds for sessions that have seen nothing above private",
		}},
		{"fetching", "tool=\"http_fetch\"\nmode=\"ask\"\n[net]\nhosts=[\"a.org:443\",\"10.0.0.1:80\"]\nlocal=[\"10.0.0.1:80\"]\n[args.method]\none_of=[\"GET\"]\n[[secrets.inject]]\nname=\"key\"\nhost=\"a.org:443\"\nheader=\"X-Key\"\n", []string{
			"http_fetch asks you each time", "it can connect to: 10.0.0.1:80, a.org:443", "even at a private address: 10.0.0.1:80",
			`its argument method is one of ["GET"]`, "the secret key is added to what it sends to a.org:443; it never sees it",
			"what comes back counts as private and as untrusted text", "it holds for sessions that have seen nothing above private",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Words(parse(t, "x.toml", tc.text))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTable(t *testing.T) {
	grants := []*grant.Grant{
		parse(t, "10-a.toml", "tool=\"read_file\"\nmode=\"auto\"\nmode_untrusted=\"deny\"\nexpires=2020-01-01T00:00:00Z\n[paths]\nread=[\"/a\"]\n"),
		parse(t, "20-long-name.toml", "tool=\"run\"\nmode=\"ask\"\nexpires=2030-01-31T00:00:00Z\n[paths]\nread=[\"/a\"]\nwrite=[\"/b\"]\n[net]\nhosts=[\"a.org:443\"]\n[args.argv]\nfirst=[\"ls\"]\n"),
		parse(t, "30-b.toml", "tool=\"shell\"\nmode=\"deny\"\n"),
	}
	want := `GRANT              TOOL       MODE       EXPIRES     ABOUT
10-a.toml          read_file  auto/deny  expired     /a
20-long-name.toml  run        ask        2030-01-31  /a /b (write) a.org:443 [argv]
30-b.toml          shell      deny       -           every call`
	var b strings.Builder
	if d := cmp.Diff(want, strings.Join(Table(grants, now(), term.Plain(&b), 200), "\n")); d != "" {
		t.Error(d)
	}
	for _, l := range Table(grants, now(), term.Plain(&b), 40) {
		if term.Columns(l) > 40 {
			t.Errorf("%q is too wide", l)
		}
	}
}

// Whatever is in a draft: its text is a grant that says just that, or none.
func TestDraftRoundTripProperty(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("aZ 0.-_\"\\'#=[]{}\n\tä€/")))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(tool.All()).Draw(t, "tool").Name
		d := Draft{
			Tool: name, Mode: rapid.SampledFrom([]grant.Mode{grant.Auto, grant.Ask, grant.Deny}).Draw(t, "mode"),
			ModeUntrusted: rapid.SampledFrom([]grant.Mode{"", grant.Auto, grant.Ask, grant.Deny}).Draw(t, "untrusted"),
			Reason:        text.Draw(t, "reason"), CallsPerHour: rapid.IntRange(0, 3).Draw(t, "calls"),
		}
		path := rapid.Map(text, func(s string) string { return "/" + s })
		d.Read = rapid.SliceOfN(path, 0, 2).Draw(t, "read")
		d.Write = rapid.SliceOfN(path, 0, 2).Draw(t, "write")
		d.Hosts = rapid.SliceOfN(rapid.SampledFrom([]string{"a.org:443", "*.b.org:80", "x\"y:1"}), 0, 2).Draw(t, "hosts")
		if rapid.Bool().Draw(t, "expires") {
			d.Expires = now().Add(time.Hour)
		}
		g, bad := grant.Parse("50-x.toml", []byte(d.Text()), nil)
		if g == nil {
			for _, p := range bad {
				if strings.HasPrefix(p.Runbook, "config-") && p.Runbook != "config-secret" {
					t.Fatalf("the text is broken, not the draft: %+v\n%s", p, d.Text())
				}
			}
			return
		}
		want := d.ModeUntrusted
		if want == "" {
			want = d.Mode
		}
		if g.Tool != d.Tool || g.Mode != d.Mode || g.ModeUntrusted != want || g.Reason != d.Reason || !g.Expires.Equal(d.Expires) || g.Mode != grant.Deny && g.Limits.CallsPerHour != d.CallsPerHour {
			t.Fatalf("%+v became %+v", d, g)
		}
		for _, h := range g.Net.Hosts {
			if h == "x\"y:1" {
				t.Fatal("a host that is none")
			}
		}
	})
}

// What is commented out in a draft is right when the # is taken away.
func TestCommentsInADraftAreRight(t *testing.T) {
	for _, d := range []Draft{
		{Tool: "read_file", Mode: grant.Auto, Read: []string{"/a"}},
		{Tool: "run", Mode: grant.Ask, Write: []string{"/a"}},
		{Tool: "shell", Mode: grant.Ask},
		{Tool: "http_fetch", Mode: grant.Ask, Hosts: []string{"a.org:443"}, Local: []string{"a.org:443"}, CallsPerHour: 3, Reason: "x", Expires: now()},
		{Tool: "write_file", Mode: grant.Deny},
	} {
		lines := strings.Split(d.Text(), "\n")
		for i, l := range lines {
			if rest, ok := strings.CutPrefix(l, "# "); ok && (strings.Contains(rest, " = ") || strings.HasPrefix(rest, "[")) {
				lines[i] = rest
			}
		}
		g, bad := grant.Parse("x.toml", []byte(strings.Join(lines, "\n")), nil)
		if g == nil {
			t.Errorf("%+v\n%s", bad, strings.Join(lines, "\n"))
			continue
		}
		if secrets := len(g.Secrets.Names) + len(g.Secrets.Inject); g.Mode != grant.Deny && (secrets > 0) != (d.Tool == "run" || d.Tool == "shell" || d.Tool == "http_fetch") {
			t.Errorf("%s: the comments show %d secrets", d.Tool, secrets)
		}
		if g.Mode != grant.Deny && g.Limits.PIDs == 0 {
			t.Errorf("%s: the comments show no limit of processes", d.Tool)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		d    Draft
		want string
	}{
		{Draft{Tool: "read_file", Read: []string{"/home/me/My Notes"}}, "50-my-notes-read-file.toml"},
		{Draft{Tool: "http_fetch", Hosts: []string{"*.example.org:443"}}, "50-example.org-http-fetch.toml"},
		{Draft{Tool: "shell", Mode: grant.Deny}, "10-shell.toml"},
		{Draft{Tool: "edit_file", Write: []string{"/ä/" + strings.Repeat("x", 200)}}, "50-" + strings.Repeat("x", 80) + ".toml"},
	} {
		if got := tc.d.Name(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestHost(t *testing.T) {
	for in, want := range map[string]string{
		"example.org": "example.org:443", "Example.ORG:8443": "example.org:8443", "https://example.org/x?y": "example.org:443", "http://example.org": "example.org:80",
		"http://example.org:8080/": "example.org:8080", "[2001:db8::1]": "[2001:db8::1]:443", "[2001:db8::1]:80": "[2001:db8::1]:80", "*.example.org": "*.example.org:443",
	} {
		if got := Host(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	for in, want := range map[string]string{
		"30d": "2026-12-31T12:00:00Z", "2030-01-31": "2030-01-31T00:00:00Z", "2030-01-31T10:00:00+02:00": "2030-01-31T08:00:00Z",
		"0d": "", "-3d": "", "2020-01-01": "", "soon": "", "99999999999d": "", "": "",
	} {
		got, err := ParseExpiry(in, now())
		if want == "" && err == nil || want != "" && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v %v, want %q", in, got, err, want)
		}
	}
}

func TestArgumentsInShort(t *testing.T) {
	for _, tl := range tool.All() {
		word := "/home/me/a b"
		switch tl.Name {
		case tool.NameHTTPFetch:
			word = "https://example.org/a"
		case tool.NameShell, tool.NameRun:
			word = `ls -l "x"`
		}
		c, err := tl.Decode(Arguments(tl.Name, word))
		if err != nil {
			t.Errorf("%s: %v", tl.Name, err)
			continue
		}
		if tl.Name == tool.NameRun && c.Canonical != `{"argv":["ls","-l","\"x\""]}` {
			t.Error(c.Canonical)
		}
	}
	if got := Arguments("read_file", ` {"path":"/a"}`); got != ` {"path":"/a"}` {
		t.Error(got)
	}
}

func TestExplain(t *testing.T) {
	set := grant.Set{Grants: []*grant.Grant{parse(t, "10-a.toml", "tool=\"read_file\"\nmode=\"ask\"\n[paths]\nread=[\"/a\"]\n")}}
	got, err := Explain(set, "read_file", `{"path":"/a/x"}`, proto.ClassPrivate, true, now())
	want := Explanation{Verdict: "ask", Grant: "10-a.toml", Why: "10-a.toml leaves it to the owner", Taint: "private", Untrusted: true, Steps: []Step{{"10-a.toml", true, "it fits: ask"}}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	got, err = Explain(set, "read_file", `{"path":5}`, proto.ClassPrivate, false, now())
	if err != nil || got.Code != "invalid-arguments" || !strings.HasPrefix(got.Why, "invalid-arguments: ") || got.Verdict != "deny" {
		t.Error(got, err)
	}
	if l := Explained(got, term.Plain(&strings.Builder{})); !strings.HasSuffix(l[len(l)-1], "refused before any grant is looked at") {
		t.Errorf("there is a grant for the tool, and it says %q", l)
	}
	if _, err := Explain(set, "none", `{}`, proto.ClassPrivate, false, now()); !errors.Is(err, ErrTool) {
		t.Error(err)
	}
	same := Said(&proto.Explained{Verdict: proto.VerdictDeny, Code: proto.CodeNoGrant, Why: "no-grant: x", Taint: proto.ClassSecret, Steps: []proto.ExplainStep{{Grant: "a", Why: "b"}}})
	var b strings.Builder
	lines := strings.Join(Explained(same, term.Plain(&b)), "\n")
	if lines != "deny: the model would read “no-grant: x”\na session with the taint secret that has not seen untrusted text\n  · a: b" {
		t.Error(lines)
	}
}

// A path that leads elsewhere is told of; one that leads to Boxmaker's own
// folders is a fault.
func TestPlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	for _, d := range []string{"own", "real"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("real", filepath.Join(dir, "link")), os.Symlink("own", filepath.Join(dir, "hole")), os.Symlink("own", filepath.Join(dir, "pit"))); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("tool=\"read_file\"\nmode=\"auto\"\n[paths]\nread=[")
	for _, p := range []string{"real", "link", "hole", "pit/gone", "gone"} {
		text.WriteString(quote(filepath.Join(dir, p)) + ",")
	}
	text.WriteString("]\n")
	g, bad := grant.Parse("x.toml", []byte(text.String()), []string{own})
	if g == nil {
		t.Fatal(bad)
	}
	var got []string
	for _, p := range Places(g, []string{own}) {
		s := strings.ReplaceAll(p.What, dir, "")
		if !p.Warning {
			s = "FAULT " + s
		}
		got = append(got, s)
	}
	want := []string{
		"/gone is not there, so that a call that needs it is refused",
		"FAULT /hole leads to /own: /own is in Boxmaker's own folder /own",
		"/link is a link, or lies behind one, and links are not followed",
		"FAULT /pit/gone leads to /own/gone: /own/gone is in Boxmaker's own folder /own",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A link to the folder of the programs is no way around that they can't be
// granted for writing; reading them is harmless.
func TestPlacesOfPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "bin")
	if err := os.Symlink(filepath.Dir(self), link); err != nil {
		t.Fatal(err)
	}
	for tool, fault := range map[string]bool{"write_file": true, "read_file": false} {
		list := map[bool]string{true: "write", false: "read"}[fault]
		g, bad := grant.Parse("x.toml", []byte("tool=\""+tool+"\"\nmode=\"auto\"\n[paths]\n"+list+"=["+quote(link)+"]\n"), nil)
		if g == nil {
			t.Fatal(bad)
		}
		got := Places(g, nil)
		if len(got) != 1 || got[0].Warning == fault || fault && !strings.Contains(got[0].What, "Boxmaker's own programs") {
			t.Errorf("%s: %+v", tool, got)
		}
	}
}

// The questions, with answers that can't be used in between.
func TestGuide(t *testing.T) {
	for _, tc := range []struct {
		name, tool, in string
		want           Draft
		says           []string
	}{
		{"defaults", "read_file", "\n\n\n\n", Draft{Tool: "read_file", Mode: grant.Ask, Read: []string{"/home/me/Boxmaker"}}, []string{"A grant for read_file", "[ask]", "[/home/me/Boxmaker]", "[never]"}},
		{
			"mistakes are asked again", "write_file", "yes\nauto\n\nnotes\n/\n/home/me/own/x\n~/a b, /data\nsoon\n30d\n" + strings.Repeat("x", 201) + "\nletters\n",
			Draft{Tool: "write_file", Mode: grant.Auto, ModeUntrusted: grant.Ask, Write: []string{"/home/me/a b", "/data"}, Expires: now().AddDate(0, 0, 30), Reason: "letters"},
			[]string{"answer with auto, ask, deny", "is relative", "whole machine", "Boxmaker's own folder", "is no time", "at most 200 bytes"},
		},
		{"hosts", "http_fetch", "\n\nA.org\n\n\n", Draft{Tool: "http_fetch", Mode: grant.Ask, Hosts: []string{"a.org:443"}}, []string{"without a host no call"}},
		{"hosts, wrong", "http_fetch", "\n*.org, x\nhttps://a.org, *.b.org:80\n\n\n", Draft{Tool: "http_fetch", Mode: grant.Ask, Hosts: []string{"a.org:443", "*.b.org:80"}}, []string{"every host below .org"}},
		{"programs", "run", "\n\n\n\n\n\n", Draft{Tool: "run", Mode: grant.Ask, Write: []string{"/home/me/Boxmaker"}}, []string{"[none]"}},
		{"deny all", "shell", "deny\n\n\n", Draft{Tool: "shell", Mode: grant.Deny}, nil},
		{"deny some", "read_file", "deny\n\n\n\n", Draft{Tool: "read_file", Mode: grant.Deny}, []string{"[none]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			g := &Guide{In: bufio.NewReader(strings.NewReader(tc.in)), Out: &out, Own: []string{"/home/me/own"}, Home: "/home/me", Work: "/home/me/Boxmaker", Now: now()}
			d, err := g.Ask(tc.tool)
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if diff := cmp.Diff(tc.want, d, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			for _, s := range tc.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("no %q in\n%s", s, out.String())
				}
			}
			if made, bad := grant.Parse(d.Name(), []byte(d.Text()), g.Own); made == nil {
				t.Errorf("%+v", bad)
			}
		})
	}
	var out strings.Builder
	g := &Guide{In: bufio.NewReader(strings.NewReader("auto\n")), Out: &out, Now: now()}
	if _, err := g.Ask("read_file"); !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
	for in, want := range map[string]bool{"\n": true, "y\n": true, "YES\n": true, "n\n": false, "what\n": false} {
		g.In = bufio.NewReader(strings.NewReader(in))
		if ok, err := g.Yes("Write it"); ok != want || err != nil {
			t.Errorf("%q: %v %v", in, ok, err)
		}
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	good, odd := filepath.Join(dir, "10-a.toml"), filepath.Join(dir, "pipe.toml")
	if err := errors.Join(os.WriteFile(good, []byte("tool=\"shell\"\nmode=\"ask\"\n"), 0o600), unix.Mkfifo(odd, 0o600)); err != nil {
		t.Fatal(err)
	}
	if g, found, err := File(good, nil); g == nil || len(found) != 0 || err != nil {
		t.Error(g, found, err)
	}
	for _, path := range []string{odd, dir, filepath.Join(dir, "none")} {
		if g, _, err := File(path, nil); g != nil || err == nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	f := Finding{Path: "/g/x.toml", Problem: grant.Problem{Line: 3, What: "a", Do: "b", Runbook: "c"}}
	if f.Line() != "/g/x.toml:3: a; b (see runbook: c)" {
		t.Error(f.Line())
	}
}

// A file that brokerd does not read grants nothing, and denies nothing: the
// owner is told of it, but not of what was turned off on purpose.
func TestUnread(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"10-a.toml", "20-closed.toml", "30-b.TOML", "40-c.toml.txt", "50-d.toml.off", "60-e.toml~", ".70-f.TOML", "README"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	may := func(path string) error {
		if filepath.Base(path) == "20-closed.toml" {
			return os.ErrPermission
		}
		return nil
	}
	names := func(all []grant.Problem) (out []string) {
		for _, p := range all {
			out = append(out, fmt.Sprint(p.File, " ", p.Warning))
		}
		return out
	}
	if d := cmp.Diff([]string{"20-closed.toml false", "30-b.TOML true", "40-c.toml.txt true"}, names(Unread(dir, 62105, may))); d != "" {
		t.Error(d)
	}
	rest := []string{"30-b.TOML true", "40-c.toml.txt true"}
	if d := cmp.Diff(rest, names(Unread(dir, 0, nil))); d != "" {
		t.Errorf("of an ordinary user: %s", d)
	}
	if d := cmp.Diff(rest, names(Unread(dir, 0, func(string) error { return os.ErrPermission }))); d != "" {
		t.Errorf("where the folder is out of reach, each file is blamed: %s", d)
	}
}
