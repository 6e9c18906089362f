package grant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/google/go-cmp/cmp"
)

// set parses files, of which only those named 05-broken… may have a fault.
func set(t *testing.T, files map[string]string) Set {
	t.Helper()
	var s Set
	for _, name := range sortedKeys(files) {
		g, bad := Parse(name, []byte(files[name]), ownFolders())
		if g == nil && !strings.HasPrefix(name, "05-broken") {
			t.Fatalf("%s: %+v", name, bad)
		}
		s.add(&kept{grant: g, problems: bad})
	}
	return s
}

func call(t *testing.T, name, args string) *tool.Call {
	t.Helper()
	c, err := tool.Find(name).Decode(args)
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return c
}

func now() time.Time { return time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC) }

func reads(paths string) string {
	return "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [" + paths + "]\n"
}

func denies(tool, rest string) string { return "tool = \"" + tool + "\"\nmode = \"deny\"\n" + rest }

func TestDecide(t *testing.T) {
	const notes = `{"path":"/home/me/notes/a.txt"}`
	file := func(mode, rest string) string {
		return "tool = \"read_file\"\nmode = \"" + mode + "\"\n" + rest + "[paths]\nread = [\"/home/me/notes\"]\n"
	}
	runs := func(rest string) string { return "tool = \"run\"\nmode = \"auto\"\n" + rest }
	for _, tc := range []struct {
		name      string
		files     map[string]string
		tool      string
		args      string
		taint     proto.Class
		untrusted bool
		used      int
		verdict   proto.Verdict
		code      proto.Code
		grant     string
		why       string
	}{
		{name: "nothing is granted", tool: "read_file", args: notes, verdict: "deny", code: "no-grant", why: "no-grant: read_file is not granted; tell the owner if you need it."},
		{name: "another tool is granted", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "list_files", args: `{"path":"/home/me/notes"}`, verdict: "deny", code: "no-grant", why: "no-grant: list_files is not granted; tell the owner if you need it."},
		{name: "granted", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "read_file", args: notes, verdict: "allow", grant: "10-a.toml"},
		{name: "the tree itself", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "read_file", args: `{"path":"/home/me/notes"}`, verdict: "allow", grant: "10-a.toml"},
		{name: "a name that begins alike", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "read_file", args: `{"path":"/home/me/notes2/a"}`, verdict: "deny", code: "no-grant", why: "no-grant: read_file is granted only in /home/me/notes."},
		{name: "elsewhere, and not after secrets anyway", files: map[string]string{"10-a.toml": file("auto", "")}, taint: "secret", tool: "read_file", args: `{"path":"/etc/x"}`, verdict: "deny", code: "taint-too-high", why: "taint-too-high: read_file is not granted to a conversation that has seen secret text."},
		{name: "elsewhere after secrets, with one grant that is left", files: map[string]string{"10-a.toml": file("auto", ""), "20-b.toml": "max_taint = \"secret\"\n" + reads(`"/data"`)}, taint: "secret", tool: "read_file", args: `{"path":"/etc/x"}`, verdict: "deny", code: "no-grant", why: "no-grant: read_file is granted only in /data."},
		{name: "out by dots", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "read_file", args: `{"path":"/home/me/notes/../x"}`, verdict: "deny", code: "no-grant"},
		{name: "asks", files: map[string]string{"10-a.toml": file("ask", "")}, tool: "read_file", args: notes, verdict: "ask", grant: "10-a.toml"},
		{name: "the first file decides", files: map[string]string{"10-a.toml": file("ask", ""), "20-b.toml": file("auto", "")}, tool: "read_file", args: notes, verdict: "ask", grant: "10-a.toml"},
		{name: "the first that fits", files: map[string]string{"10-a.toml": reads(`"/data"`), "20-b.toml": file("auto", "")}, tool: "read_file", args: notes, verdict: "allow", grant: "20-b.toml"},
		{name: "a deny wins from behind", files: map[string]string{"10-a.toml": file("auto", ""), "90-z.toml": denies("read_file", "")}, tool: "read_file", args: notes, verdict: "deny", code: "denied-by-grant", grant: "90-z.toml", why: "denied-by-grant: the owner does not want read_file to be used for this."},
		{name: "a deny of another path", files: map[string]string{"10-a.toml": file("auto", ""), "90-z.toml": denies("read_file", "[paths]\nread=[\"/home/me/notes/private\"]\n")}, tool: "read_file", args: notes, verdict: "allow", grant: "10-a.toml"},
		{name: "a deny of this path", files: map[string]string{"10-a.toml": file("auto", ""), "90-z.toml": denies("read_file", "[paths]\nread=[\"/home/me/notes/private\"]\n")}, tool: "read_file", args: `{"path":"/home/me/notes/private/x"}`, verdict: "deny", code: "denied-by-grant", grant: "90-z.toml"},
		{
			name: "a search from above a denied path", files: map[string]string{"10-a.toml": "tool = \"search_files\"\nmode=\"auto\"\n[paths]\nread=[\"/home/me/notes\"]\n", "90-z.toml": denies("search_files", "[paths]\nread=[\"/home/me/notes/private\"]\n")},
			tool: "search_files", args: `{"path":"/home/me/notes","pattern":"x"}`, verdict: "deny", code: "denied-by-grant", grant: "90-z.toml",
		},

		{name: "untrusted", files: map[string]string{"10-a.toml": file("auto", "mode_untrusted = \"ask\"\n")}, tool: "read_file", args: notes, untrusted: true, verdict: "ask", grant: "10-a.toml"},
		{name: "trusted", files: map[string]string{"10-a.toml": file("auto", "mode_untrusted = \"ask\"\n")}, tool: "read_file", args: notes, verdict: "allow", grant: "10-a.toml"},
		{name: "deny once untrusted", files: map[string]string{"10-a.toml": file("auto", "mode_untrusted = \"deny\"\n"), "20-b.toml": file("auto", "")}, tool: "read_file", args: notes, untrusted: true, verdict: "deny", code: "denied-by-grant", grant: "10-a.toml"},
		{name: "taint too high", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "read_file", args: notes, taint: "secret", verdict: "deny", code: "taint-too-high", why: "taint-too-high: read_file is not granted to a conversation that has seen secret text."},
		{name: "taint that is none", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "read_file", args: notes, taint: "odd", verdict: "deny", code: "taint-too-high"},
		{name: "public only", files: map[string]string{"10-a.toml": file("auto", "max_taint = \"public\"\n")}, tool: "read_file", args: notes, verdict: "deny", code: "taint-too-high"},
		{name: "another takes the taint", files: map[string]string{"10-a.toml": file("auto", ""), "20-b.toml": file("ask", "max_taint = \"secret\"\n")}, tool: "read_file", args: notes, taint: "secret", verdict: "ask", grant: "20-b.toml"},
		{name: "a deny for all taints", files: map[string]string{"10-a.toml": file("auto", "max_taint = \"secret\"\n"), "20-b.toml": file("auto", "mode_untrusted = \"deny\"\n")}, tool: "read_file", args: notes, taint: "secret", untrusted: true, verdict: "deny", code: "denied-by-grant", grant: "20-b.toml"},
		{name: "expired", files: map[string]string{"10-a.toml": file("auto", "expires = 2026-12-01T12:00:00Z\n")}, tool: "read_file", args: notes, verdict: "deny", code: "no-grant", why: "no-grant: read_file is not granted; tell the owner if you need it."},
		{name: "about to expire", files: map[string]string{"10-a.toml": file("auto", "expires = 2026-12-01T12:00:01Z\n")}, tool: "read_file", args: notes, verdict: "allow", grant: "10-a.toml"},
		{name: "expired deny", files: map[string]string{"10-a.toml": file("auto", ""), "20-b.toml": denies("read_file", "expires = 2020-01-01T00:00:00Z\n")}, tool: "read_file", args: notes, verdict: "allow", grant: "10-a.toml"},
		{name: "rate", files: map[string]string{"10-a.toml": file("auto", "limits.calls_per_hour = 3\n"), "20-b.toml": file("auto", "")}, tool: "read_file", args: notes, used: 3, verdict: "deny", code: "rate-limited", grant: "10-a.toml", why: "rate-limited: read_file may be used 3 times an hour, and was; go on without it."},
		{name: "below the rate", files: map[string]string{"10-a.toml": file("auto", "limits.calls_per_hour = 3\n")}, tool: "read_file", args: notes, used: 2, verdict: "allow", grant: "10-a.toml"},
		{name: "a broken file beside", files: map[string]string{"05-broken.toml": "tool = \"read_file\"\nmode = \"auto\"\nreed = []\n", "10-a.toml": file("ask", "")}, tool: "read_file", args: notes, verdict: "ask", grant: "10-a.toml"},
		{name: "a broken deny", files: map[string]string{"05-broken.toml": "tool = \"read_file\"\nmode = \"deny\"\nreed = []\n", "10-a.toml": file("auto", "")}, tool: "read_file", args: notes, verdict: "allow", grant: "10-a.toml"},

		{name: "write is not read", files: map[string]string{"10-a.toml": file("auto", "")}, tool: "write_file", args: `{"path":"/home/me/notes/a","content":"x","mode":"create"}`, verdict: "deny", code: "no-grant"},
		{name: "argument in one_of", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"a.org:443\"]\n[args.method]\none_of=[\"GET\"]\n"}, tool: "http_fetch", args: `{"url":"https://a.org/"}`, verdict: "allow", grant: "10-a.toml"},
		{name: "argument beyond one_of", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"a.org:443\"]\n[args.method]\none_of=[\"GET\"]\n"}, tool: "http_fetch", args: `{"url":"https://a.org/","method":"POST","body":"x"}`, verdict: "deny", code: "no-grant", why: "no-grant: http_fetch is granted only with a `method` of GET."},
		{name: "another port", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"a.org:443\"]\n"}, tool: "http_fetch", args: `{"url":"http://a.org/"}`, verdict: "deny", code: "no-grant", why: "no-grant: http_fetch is granted only for a.org:443."},
		{name: "below a wildcard", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"*.a.org:443\"]\n"}, tool: "http_fetch", args: `{"url":"https://x.y.a.org/"}`, verdict: "allow", grant: "10-a.toml"},
		{name: "a wildcard is not the name itself", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"*.a.org:443\"]\n"}, tool: "http_fetch", args: `{"url":"https://a.org/"}`, verdict: "deny", code: "no-grant"},
		{name: "a name that ends alike", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"*.a.org:443\"]\n"}, tool: "http_fetch", args: `{"url":"https://xa.org/"}`, verdict: "deny", code: "no-grant"},
		{name: "a denied method", files: map[string]string{"10-a.toml": "tool = \"http_fetch\"\nmode=\"auto\"\n[net]\nhosts=[\"a.org:443\"]\n", "05-d.toml": denies("http_fetch", "[args.method]\none_of=[\"POST\"]\n")}, tool: "http_fetch", args: `{"url":"https://a.org/","method":"POST"}`, verdict: "deny", code: "denied-by-grant", grant: "05-d.toml"},

		{name: "the program is fixed", files: map[string]string{"10-a.toml": runs("[args.argv]\nfirst=[\"git\",\"log\"]\npattern='[a-z0-9-]+'\nmax_items=4\n")}, tool: "run", args: `{"argv":["git","log","--oneline"]}`, verdict: "allow", grant: "10-a.toml"},
		{name: "another program", files: map[string]string{"10-a.toml": runs("[args.argv]\nfirst=[\"git\",\"log\"]\n")}, tool: "run", args: `{"argv":["git","push"]}`, verdict: "deny", code: "no-grant", why: "no-grant: run is granted only with a `argv` that begins with git log."},
		{name: "another argument", files: map[string]string{"10-a.toml": runs("[args.argv]\nfirst=[\"git\",\"log\"]\npattern='[a-z0-9-]+'\n")}, tool: "run", args: `{"argv":["git","log","--output=/x"]}`, verdict: "deny", code: "no-grant"},
		{name: "too many arguments", files: map[string]string{"10-a.toml": runs("[args.argv]\nfirst=[\"git\"]\nmax_items=2\n")}, tool: "run", args: `{"argv":["git","log","x"]}`, verdict: "deny", code: "no-grant"},
		{name: "a folder beyond the grant", files: map[string]string{"10-a.toml": runs("[paths]\nwrite=[\"/home/me/w\"]\n")}, tool: "run", args: `{"argv":["ls"],"dir":"/etc"}`, verdict: "deny", code: "no-grant", why: "no-grant: run is granted only with a `dir` in /home/me/w."},
		{name: "any element hits a deny", files: map[string]string{"10-a.toml": runs(""), "20-d.toml": denies("run", "[args.argv]\npattern='.*passwd.*'\n")}, tool: "run", args: `{"argv":["cat","a\n/etc/passwd\n"]}`, verdict: "deny", code: "denied-by-grant", grant: "20-d.toml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := set(t, tc.files)
			if tc.taint == "" {
				tc.taint = proto.ClassPrivate
			}
			r := Request{Call: call(t, tc.tool, tc.args), Taint: tc.taint, Untrusted: tc.untrusted, Now: now(), Used: func(*Grant) int { return tc.used }}
			v := s.Decide(r)
			id := ""
			if v.Grant != nil {
				id = v.Grant.ID
			}
			if v.Verdict != tc.verdict || v.Code != tc.code || id != tc.grant {
				t.Errorf("%s %s by %q (%s), want %s %s by %q", v.Verdict, v.Code, id, v.Why, tc.verdict, tc.code, tc.grant)
			}
			if tc.why != "" && v.Why != tc.why {
				t.Errorf("why: %s\nwant %s", v.Why, tc.why)
			}
			if v.Code != "" && !strings.HasPrefix(v.Why, string(v.Code)+": ") {
				t.Errorf("why: %s", v.Why)
			}
			if d := cmp.Diff(v, s.Decide(r), cmp.Comparer(func(a, b *Grant) bool { return a == b })); d != "" {
				t.Errorf("asked again: %s", d)
			}
		})
	}
}

// Every grant of the tool is explained, in the order of the files.
func TestSteps(t *testing.T) {
	s := set(t, map[string]string{
		"10-old.toml":   "tool = \"read_file\"\nmode = \"auto\"\nexpires = 2020-01-01T00:00:00Z\n[paths]\nread = [\"/home/me/notes\"]\n",
		"20-else.toml":  reads(`"/data"`),
		"30-list.toml":  "tool = \"list_files\"\nmode = \"auto\"\n[paths]\nread = [\"/home/me/notes\"]\n",
		"40-taint.toml": "tool = \"read_file\"\nmode = \"auto\"\nmax_taint = \"public\"\n[paths]\nread = [\"/home/me/notes\"]\n",
		"50-yes.toml":   "tool = \"read_file\"\nmode = \"auto\"\nmode_untrusted = \"ask\"\n[paths]\nread = [\"/home/me/notes\"]\n",
		"60-no.toml":    denies("read_file", "[paths]\nread = [\"/home/me/private\"]\n"),
	})
	v := s.Decide(Request{Call: call(t, "read_file", `{"path":"/home/me/notes/a"}`), Taint: proto.ClassPrivate, Untrusted: true, Now: now()})
	want := []proto.ExplainStep{
		{Grant: "10-old.toml", Why: "it expired on 2020-01-01 00:00:00 UTC"},
		{Grant: "20-else.toml", Why: "/home/me/notes/a is not in its paths"},
		{Grant: "40-taint.toml", Why: "it applies up to the taint public, and the session has private"},
		{Grant: "50-yes.toml", Fits: true, Why: "it fits: ask, since the session has seen untrusted text"},
		{Grant: "60-no.toml", Why: "it denies other paths or hosts"},
	}
	if d := cmp.Diff(want, v.Steps); d != "" {
		t.Error(d)
	}
	if v.Why != "50-yes.toml leaves it to the owner" {
		t.Error(v.Why)
	}
}

// What a deny takes from what a grant gives.
func TestDenyTakesFromTheGrant(t *testing.T) {
	s := set(t, map[string]string{
		"10-a.toml": reads(`"/home/me/notes", "/data"`),
		"20-b.toml": denies("read_file", "[paths]\nread = [\"/home/me/notes/private\", \"/opt\"]\n"),
		"30-c.toml": "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [\"*.a.org:443\", \"b.org:443\", \"*.c.org:80\"]\nlocal = [\"*.a.org:443\"]\n",
		"40-d.toml": denies("http_fetch", "[net]\nhosts = [\"evil.a.org:443\"]\n"),
	})
	v := s.Decide(Request{Call: call(t, "read_file", `{"path":"/home/me/notes/a"}`), Taint: proto.ClassPrivate, Now: now()})
	if d := cmp.Diff([]string{"/home/me/notes/private"}, v.Hidden); d != "" {
		t.Error(d)
	}
	v = s.Decide(Request{Call: call(t, "http_fetch", `{"url":"https://good.a.org/"}`), Taint: proto.ClassPrivate, Now: now()})
	if d := cmp.Diff([]string{"good.a.org:443", "*.c.org:80", "b.org:443"}, v.Hosts); d != "" {
		t.Error(d) // a redirect from good to evil must not pass
	}
	if d := cmp.Diff([]string{"good.a.org:443"}, v.Local); d != "" {
		t.Error(d)
	}
	v = s.Decide(Request{Call: call(t, "http_fetch", `{"url":"https://evil.a.org/"}`), Taint: proto.ClassPrivate, Now: now()})
	if v.Code != proto.CodeDeniedByGrant || v.Hosts != nil || v.Hidden != nil {
		t.Errorf("%+v", v)
	}
}

func TestPermits(t *testing.T) {
	s := set(t, map[string]string{
		"10-a.toml": reads(`"/data"`),
		"20-b.toml": denies("read_file", "[paths]\nread = [\"/data/x\"]\n"),
		"30-c.toml": "tool = \"list_files\"\nmode = \"auto\"\nexpires = 2020-01-01T00:00:00Z\n[paths]\nread = [\"/data\"]\n",
		"40-d.toml": "tool = \"run\"\nmode = \"ask\"\n",
		"50-e.toml": denies("run", ""),
		"60-f.toml": denies("shell", "[args.dir]\none_of=[\"/x\"]\n"),
	})
	var got []string
	for _, tl := range tool.All() {
		if s.Permits(tl.Name, Request{Now: now(), Taint: proto.ClassPrivate}) {
			got = append(got, tl.Name)
		}
	}
	if !slices.Equal(got, []string{"read_file"}) {
		t.Error(got)
	}
}

// A text that a model reads stays short and on one line.
func TestRefusalIsShort(t *testing.T) {
	var paths []string
	for i := range 50 {
		paths = append(paths, fmt.Sprintf("%q", fmt.Sprintf("/data/%02d/%s", i, strings.Repeat("x", 200))))
	}
	s := set(t, map[string]string{"10-a.toml": reads(strings.Join(paths, ", "))})
	v := s.Decide(Request{Call: call(t, "read_file", `{"path":"/etc/passwd"}`), Taint: proto.ClassPrivate, Now: now()})
	if len(v.Why) > 700 || strings.ContainsAny(v.Why, "\n\t") || !strings.Contains(v.Why, "45 more") {
		t.Error(len(v.Why), v.Why)
	}
}

func TestHostIn(t *testing.T) {
	for _, tc := range []struct {
		host, pattern string
		in            bool
	}{
		{"a.org:443", "a.org:443", true},
		{"a.org:443", "a.org:80", false},
		{"x.a.org:443", "*.a.org:443", true},
		{"x.y.a.org:443", "*.a.org:443", true},
		{"a.org:443", "*.a.org:443", false},
		{".a.org:443", "*.a.org:443", false},
		{"xa.org:443", "*.a.org:443", false},
		{"x.a.org:443.evil.org:443", "*.a.org:443", false},
		{"x.a.org:4430", "*.a.org:443", false},
		{"x.a.org:443", "x.a.org", false},
	} {
		if hostIn(tc.host, []string{tc.pattern}) != tc.in {
			t.Errorf("%s in %s: %v", tc.host, tc.pattern, !tc.in)
		}
	}
}
