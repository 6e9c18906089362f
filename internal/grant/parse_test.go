package grant

import (
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ownFolders are the folders of Boxmaker in these tests.
func ownFolders() []string {
	return []string{"/home/me/.config/boxmaker", "/home/me/.local/share/boxmaker/audit", "/srv/box/keys"}
}

func parse(t *testing.T, text string) *Grant {
	t.Helper()
	g, bad := Parse("10-x.toml", []byte(text), ownFolders())
	if g == nil {
		t.Fatalf("%v\n%s", bad, text)
	}
	return g
}

// The example of the design document says all of this.
func TestWholeFile(t *testing.T) {
	got := parse(t, `tool    = "http_fetch"
mode    = "auto"                     # auto | ask | deny
mode_untrusted = "ask"
expires = 2027-06-30T02:00:00+02:00
reason  = "my notes"
max_taint    = "public"
result_class = "secret"
untrusted    = false

[net]
hosts = ["api.example.com:443", "*.example.org:8443", "[2001:db8::1]:443", "10.0.0.1:80"]
local = ["10.0.0.1:80"]
[args.method]
one_of = ["GET"]
[args.url]
pattern = 'https://api\.example\.com/.*'
max_bytes = 200
[limits]
calls_per_hour = 60
time = "30s"
memory = "256MiB"
output = "64KiB"
pids = 64
[secrets]
names = ["example-token"]
[[secrets.inject]]
name = "example-token"
host = "api.example.com:443"
header = "Authorization"
prefix = "Bearer "
`)
	want := &Grant{
		ID: "10-x.toml", Tool: "http_fetch", Mode: Auto, ModeUntrusted: Ask, Expires: time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC),
		Reason: "my notes", MaxTaint: proto.ClassPublic, ResultClass: proto.ClassSecret,
		Net: Net{Hosts: []string{"*.example.org:8443", "10.0.0.1:80", "[2001:db8::1]:443", "api.example.com:443"}, Local: []string{"10.0.0.1:80"}},
		Args: []Constraint{
			{Arg: "method", OneOf: []string{"GET"}, MaxBytes: -1, MaxItems: -1},
			{Arg: "url", Pattern: `https://api\.example\.com/.*`, MaxBytes: 200, MaxItems: -1},
		},
		Limits:   Limits{CallsPerHour: 60, Time: 30 * time.Second, Memory: 256 << 20, Output: 64 << 10, PIDs: 64},
		Secrets:  Secrets{Names: []string{"example-token"}, Inject: []Inject{{"example-token", "api.example.com:443", "Authorization", "Bearer "}}},
		Userland: Userland{Kind: proto.UserlandNone},
	}
	opts := cmp.Options{
		cmpopts.IgnoreUnexported(Constraint{}), cmpopts.IgnoreFields(Grant{}, "Hash"), cmpopts.EquateApproxTime(0),
		cmpopts.EquateEmpty(),
	}
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Error(d)
	}
	if proto.CheckHash(got.Hash) != nil {
		t.Errorf("hash %q", got.Hash)
	}
}

func TestDefaults(t *testing.T) {
	g := parse(t, "tool = \"run\"\nmode = \"ask\"\n[paths]\nwrite = [\"/home/me/b/\", \"/home/me/b/c\", \"/home/me/b\"]\nread=[\"/home/me/a//x\"]\n")
	if g.ModeUntrusted != Ask || g.MaxTaint != proto.ClassPrivate || g.ResultClass != proto.ClassPrivate || !g.Untrusted || g.Userland.Kind != proto.UserlandUsr {
		t.Errorf("%+v", g)
	}
	if d := cmp.Diff(Paths{Read: []string{"/home/me/a/x"}, Write: []string{"/home/me/b"}}, g.Paths); d != "" {
		t.Error(d)
	}
}

// Each row is a mistake an owner can make, the line that is named, and a part of
// what is said.
func TestMistakes(t *testing.T) {
	read := "tool = \"read_file\"\nmode = \"auto\"\n[paths]\n"
	fetch := "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\n"
	for _, tc := range []struct {
		name, text string
		line       int
		what, do   string
	}{
		{"no tool", "mode = \"auto\"\n", 0, `no key "tool"`, "read_file"},
		{"unknown tool", "tool = \"format_disk\"\nmode = \"auto\"\n", 1, `no tool "format_disk"`, "http_fetch"},
		{"no mode", "# x\ntool = \"read_file\"\n[paths]\nread = [\"/a\"]\n", 2, `no key "mode"`, `mode = "ask"`},
		{"unknown mode", "tool = \"read_file\"\nmode = \"yes\"\n", 2, `"yes" is no mode`, `"ask"`},
		{"mode in capitals", "tool = \"read_file\"\nmode = \"Deny\"\n", 2, `"Deny" is no mode`, ""},
		{"unknown mode for untrusted", "tool = \"read_file\"\nmode = \"auto\"\nmode_untrusted = \"no\"\n", 3, `"no" is no mode`, ""},
		{"other case of a key", "Tool = \"read_file\"\n", 1, "Tool", `did you mean "tool"?`},
		{"unknown key", read + "read = [\"/a\"]\nreed = []\n", 5, `unknown key "reed"`, `did you mean "read"?`},
		{"key twice", read + "read = [\"/a\"]\nread = [\"/b\"]\n", 5, "already defined", "keep one"},
		{"key in another table", "tool = \"read_file\"\nmode = \"auto\"\nread = [\"/a\"]\n", 3, `unknown key "read"`, "[paths]"},
		{"more for untrusted", "tool = \"read_file\"\nmode = \"ask\"\nmode_untrusted = \"auto\"\n[paths]\nread = [\"/a\"]\n", 3, "gives more", "swap"},
		{"a deny made to give", "tool = \"read_file\"\nmode = \"deny\"\nmode_untrusted = \"ask\"\n", 3, "gives more", "swap"},
		{"deny with taint", "tool = \"read_file\"\nmode = \"deny\"\nmax_taint = \"public\"\n", 3, "no meaning", "remove"},
		{"unknown class", "tool = \"read_file\"\nmode = \"auto\"\nmax_taint = \"top\"\n", 3, `"top" is no class`, `"secret"`},
		{"empty class", "tool = \"read_file\"\nmode = \"auto\"\nresult_class = \"\"\n", 3, "no class", ""},
		{"date without zone", "tool = \"read_file\"\nmode = \"auto\"\nexpires = 2027-06-30T00:00:00\n[paths]\nread = [\"/a\"]\n", 3, "no time zone", "Z"},
		{"date alone", "tool = \"read_file\"\nmode = \"auto\"\nexpires = 2027-06-30\n[paths]\nread = [\"/a\"]\n", 3, "no time zone", "Z"},
		{"a word for a date", "tool = \"read_file\"\nmode = \"auto\"\nexpires = \"soon\"\n[paths]\nread = [\"/a\"]\n", 3, "no time with its zone", "2027-06-30T00:00:00Z"},
		{"a date in quotes without its zone", "tool = \"read_file\"\nmode = \"auto\"\nexpires = \"2027-06-30T00:00:00\"\n[paths]\nread = [\"/a\"]\n", 3, "no time with its zone", "2027-06-30T00:00:00Z"},
		{"two lines of reason", "tool = \"read_file\"\nmode = \"auto\"\nreason = \"a\\nb\"\n[paths]\nread = [\"/a\"]\n", 3, "one line", "comment"},

		{"no paths", "tool = \"read_file\"\nmode = \"auto\"\n", 1, "no paths", "read ="},
		{"no paths to write", "tool = \"write_file\"\nmode = \"auto\"\n", 1, "no paths", "write ="},
		{"relative", read + "read = [\"notes\"]\n", 4, "relative", "/home/me/notes"},
		{"home sign", read + "read = [\"~/notes\"]\n", 4, "~", "/home/me"},
		{"dots", read + "read = [\"/home/me/../you\"]\n", 4, `".."`, "really leads"},
		{"dots at the end", read + "read = [\"/home/..\"]\n", 4, `".."`, ""},
		{"wildcard", read + "read = [\"/home/me/*.txt\"]\n", 4, "wildcard", "folder"},
		{"root", read + "read = [\"/\"]\n", 4, "whole machine", ""},
		{"root in disguise", read + "read = [\"//./\"]\n", 4, "whole machine", ""},
		{"empty path", read + "read = [\"\"]\n", 4, "empty path", ""},
		{"line break in a path", read + "read = [\"/a\\nb\"]\n", 4, "control", ""},
		{"NUL in a path", read + "read = [\"/a\\u0000b\"]\n", 4, "control", ""},
		{"proc", read + "read = [\"/proc/self\"]\n", 4, "/proc is not a folder", ""},
		{"sys", read + "read = [\"/sys\"]\n", 4, "/sys", ""},
		{"dev", read + "read = [\"/dev/shm/x\"]\n", 4, "/dev", ""},
		{"run", read + "read = [\"/run/user/1000\"]\n", 4, "/run", ""},
		{"above the old run", read + "read = [\"/var\"]\n", 4, "/var", ""},
		{"own folder", read + "read = [\"/home/me/.config/boxmaker\"]\n", 4, "Boxmaker's own folder", "its rights"},
		{"in an own folder", read + "read = [\"/home/me/.config/boxmaker/grants/\"]\n", 4, "Boxmaker's own folder", ""},
		{"above an own folder", read + "read = [\"/home/me\"]\n", 4, "has Boxmaker's own folder", "below it"},
		{"write for a reader", read + "write = [\"/a\"]\n", 4, "only reads", "paths.read"},
		{"read for a writer", "tool = \"write_file\"\nmode = \"auto\"\n[paths]\nread = [\"/a\"]\n", 4, "paths.write", ""},
		{"paths for a fetcher", fetch + "hosts = [\"a.org:443\"]\n[paths]\nread = [\"/a\"]\n", 6, "uses no files", ""},
		{"deny of paths for programs", "tool = \"shell\"\nmode = \"deny\"\n[paths]\nread = [\"/a\"]\n", 4, "stop nothing", "as a whole"},

		{"net for a reader", read + "read = [\"/a\"]\n[net]\nhosts = [\"a.org:443\"]\n", 5, "no network", "remove"},
		{"no hosts", "tool = \"http_fetch\"\nmode = \"auto\"\n", 1, "no hosts", "hosts ="},
		{"no port", fetch + "hosts = [\"a.org\"]\n", 4, "no port", ":443"},
		{"IPv6 without a port", fetch + "hosts = [\"[::1]\"]\n", 4, "no port", ":443"},
		{"port 0", fetch + "hosts = [\"a.org:0\"]\n", 4, "port", ""},
		{"port with zeros", fetch + "hosts = [\"a.org:0443\"]\n", 4, "port", ""},
		{"port by name", fetch + "hosts = [\"a.org:https\"]\n", 4, "port", ""},
		{"port too high", fetch + "hosts = [\"a.org:65536\"]\n", 4, "port", ""},
		{"URL", fetch + "hosts = [\"https://a.org:443\"]\n", 4, "URL", "host:port"},
		{"user name", fetch + "hosts = [\"me@a.org:443\"]\n", 4, "user name", ""},
		{"path", fetch + "hosts = [\"a.org/x:443\"]\n", 4, "path", ""},
		{"trailing dot", fetch + "hosts = [\"a.org.:443\"]\n", 4, "ends in a dot", ""},
		{"capitals", fetch + "hosts = [\"A.org:443\"]\n", 4, "capital", `"a.org:443"`},
		{"look-alike", fetch + "hosts = [\"аpple.com:443\"]\n", 4, "beyond a to z", "xn--"},
		{"star in the middle", fetch + "hosts = [\"a.*.org:443\"]\n", 4, "* stands only at the start", ""},
		{"star alone", fetch + "hosts = [\"*:443\"]\n", 4, "* stands only at the start", ""},
		{"star in a label", fetch + "hosts = [\"a*.example.org:443\"]\n", 4, "* stands only at the start", ""},
		{"a whole top-level domain", fetch + "hosts = [\"*.org:443\"]\n", 4, "every host below .org", ""},
		{"below an address", fetch + "hosts = [\"*.1.2.3.4:443\"]\n", 4, "nothing below an address", ""},
		{"empty label", fetch + "hosts = [\"a..org:443\"]\n", 4, "no host name", ""},
		{"space", fetch + "hosts = [\"a.org :443\"]\n", 4, "no host name", ""},
		{"short IPv4", fetch + "hosts = [\"127.1:80\"]\n", 4, "usual form", "192.0.2.1"},
		{"decimal IPv4", fetch + "hosts = [\"2130706433:80\"]\n", 4, "usual form", ""},
		{"hex IPv4", fetch + "hosts = [\"0x7f000001:80\"]\n", 4, "usual form", ""},
		{"octal IPv4", fetch + "hosts = [\"0177.0.0.1:80\"]\n", 4, "usual form", ""},
		{"bare IPv6", fetch + "hosts = [\"::1:80\"]\n", 4, "brackets", ""},
		{"long IPv6", fetch + "hosts = [\"[2001:db8:0:0::1]:80\"]\n", 4, "usual form", "2001:db8::1"},
		{"IPv4 in IPv6", fetch + "hosts = [\"[::ffff:1.2.3.4]:80\"]\n", 4, "IPv4 address", `"1.2.3.4:80"`},
		{"zone", fetch + "hosts = [\"[fe80::1%eth0]:80\"]\n", 4, "zone", ""},
		{"local beyond hosts", fetch + "hosts = [\"a.org:443\"]\nlocal = [\"b.org:443\"]\n", 5, "not in net.hosts", ""},
		{"deny of hosts for programs", "tool = \"run\"\nmode = \"deny\"\n[net]\nhosts = [\"a.org:443\"]\n", 4, "stop nothing", ""},

		{"argument that is none", read + "read = [\"/a\"]\n[args.file]\none_of = [\"x\"]\n", 5, `no argument "file"`, "path"},
		{"nothing said", read + "read = [\"/a\"]\n[args.path]\n", 5, "nothing is said", "one_of"},
		{"empty one_of", read + "read = [\"/a\"]\n[args.path]\none_of = []\n", 6, "no value could ever fit", ""},
		{"empty pattern", read + "read = [\"/a\"]\n[args.path]\npattern = \"\"\n", 6, "empty", ""},
		{"broken pattern", read + "read = [\"/a\"]\n[args.path]\npattern = \"(a\"\n", 6, "no regular expression", "'single quotes'"},
		{"pattern that would close our group", read + "read = [\"/a\"]\n[args.path]\npattern = \"a)|(?:.*\"\n", 6, "no regular expression", ""},
		{"look-around", read + "read = [\"/a\"]\n[args.path]\npattern = \"(?!x)a\"\n", 6, "no regular expression", ""},
		{"huge pattern", read + "read = [\"/a\"]\n[args.path]\npattern = \"" + strings.Repeat("a", 1001) + "\"\n", 6, "1000", ""},
		{"pattern for a shell", "tool = \"shell\"\nmode = \"ask\"\n[args.command]\npattern = \"ls.*\"\n", 4, "`ls; rm -r x`", "grant run instead"},
		{"deny of a command line", "tool = \"shell\"\nmode = \"deny\"\n[args.command]\none_of = [\"rm\"]\n", 4, "always another way", "as a whole"},
		{"first of no list", read + "read = [\"/a\"]\n[args.path]\nfirst = [\"x\"]\n", 5, "for a list", ""},
		{"max_bytes 0", read + "read = [\"/a\"]\n[args.path]\nmax_bytes = 0\n", 6, "at least 1", ""},
		{"deny of size", "tool = \"write_file\"\nmode = \"deny\"\n[args.content]\nmax_bytes = 10\n", 4, "deny what is small", "allows"},

		{"no calls", read + "read = [\"/a\"]\n[limits]\ncalls_per_hour = 0\n", 6, "out of its range", "deny"},
		{"negative calls", read + "read = [\"/a\"]\n[limits]\ncalls_per_hour = -1\n", 6, "out of its range", ""},
		{"no time", read + "read = [\"/a\"]\n[limits]\ntime = \"0s\"\n", 6, "out of its range", "24h"},
		{"time without a unit", read + "read = [\"/a\"]\n[limits]\ntime = 30\n", 6, "wrong type", "30s"},
		{"little memory", read + "read = [\"/a\"]\n[limits]\nmemory = \"1KiB\"\n", 6, "out of its range", ""},
		{"much output", read + "read = [\"/a\"]\n[limits]\noutput = \"1GiB\"\n", 6, "out of its range", ""},
		{"no processes", read + "read = [\"/a\"]\n[limits]\npids = 1\n", 6, "out of its range", ""},
		{"limits of a deny", "tool = \"read_file\"\nmode = \"deny\"\n[limits]\npids = 9\n", 3, "runs nothing", ""},

		{"secret for a reader", read + "read = [\"/a\"]\n[secrets]\nnames = [\"x\"]\n", 5, "uses no secrets", ""},
		{"bad name of a secret", "tool = \"run\"\nmode = \"ask\"\n[secrets]\nnames = [\"../x\"]\n", 4, "name of a secret", "bxctl secret set"},
		{"inject elsewhere", fetch + "hosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"b.org:443\"\nheader = \"Authorization\"\n", 5, "not in net.hosts", ""},
		{"inject on another port", fetch + "hosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"a.org:80\"\nheader = \"Authorization\"\n", 5, "not in net.hosts", ""},
		{"inject for a wildcard", fetch + "hosts = [\"*.a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"*.a.org:443\"\nheader = \"Authorization\"\n", 5, "any name below", "one host"},
		{"inject a line break", fetch + "hosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"a.org:443\"\nheader = \"X\"\nprefix = \"a\\r\\nB: c\"\n", 5, "plain text", ""},
		{"inject a bad header", fetch + "hosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"a.org:443\"\nheader = \"X: y\"\n", 5, "name of a header", ""},
		{"inject the host", fetch + "hosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"a.org:443\"\nheader = \"hOST\"\n", 5, "belongs to the connection", ""},
		{"inject a header twice", fetch + "hosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"a.org:443\"\nheader = \"X-A\"\n[[secrets.inject]]\nname = \"y\"\nhost = \"a.org:443\"\nheader = \"x-a\"\n", 5, "stands twice", ""},
		{"inject for programs", "tool = \"run\"\nmode = \"ask\"\n[net]\nhosts = [\"a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"a.org:443\"\nheader = \"X-A\"\n", 5, "only http_fetch", "secrets.names"},

		{"userland for a reader", read + "read = [\"/a\"]\n[userland]\nkind = \"usr\"\n", 5, "only grants that allow run or shell", ""},
		{"unknown userland", "tool = \"run\"\nmode = \"ask\"\n[userland]\nkind = \"etc\"\n", 4, "no userland", ""},
		{"root without a path", "tool = \"run\"\nmode = \"ask\"\n[userland]\nkind = \"root\"\n", 3, "go together", ""},
		{"path without root", "tool = \"run\"\nmode = \"ask\"\n[userland]\nroot = \"/srv/fs\"\n", 3, "go together", ""},
		{"the machine as root", "tool = \"run\"\nmode = \"ask\"\n[userland]\nkind = \"root\"\nroot = \"/\"\n", 5, "whole machine", ""},

		{"not TOML", "tool = read_file\n", 1, "not TOML", ""},
		{"a pasted key", "# sk-proj-abcdefghijklmnop1234\ntool = \"read_file\"\n", 1, "API key", "take it out"},
		{"not text", "tool = \"\xff\"\n", 1, "UTF-8", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, bad := Parse("10-x.toml", []byte(tc.text), ownFolders())
			if g != nil {
				t.Fatalf("it is taken: %+v", g)
			}
			for _, p := range bad {
				if p.Warning || p.File != "10-x.toml" || p.Runbook == "" || p.What == "" {
					t.Errorf("%+v", p)
				}
				if p.Line == tc.line && strings.Contains(p.What, tc.what) && strings.Contains(p.Do, tc.do) {
					return
				}
			}
			t.Errorf("want line %d, %q, %q in %+v", tc.line, tc.what, tc.do, bad)
		})
	}
}

// All mistakes of a file are told at once.
func TestSeveralMistakes(t *testing.T) {
	_, bad := Parse("x.toml", []byte("tool = \"run\"\nmode = \"auto\"\n[paths]\nread = [\"a\", \"/proc\"]\n[net]\nhosts = [\"b\"]\n[limits]\npids = 0\n"), nil)
	if len(bad) != 4 {
		t.Errorf("%d: %+v", len(bad), bad)
	}
}

func TestWarnings(t *testing.T) {
	for _, tc := range []struct{ name, text, what string }{
		{"private address", "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [\"192.168.1.1:80\"]\n", "private address"},
		{"tailnet address", "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [\"100.100.1.1:80\"]\n", "private address"},
		{"localhost", "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [\"localhost:80\"]\n", "private address"},
		{"secret that is not sent", "tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [\"a.org:443\"]\n[secrets]\nnames = [\"x\"]\n", "does nothing with x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, w := Parse("x.toml", []byte(tc.text), nil)
			if g == nil || len(w) != 1 || !w[0].Warning || w[0].Line == 0 || !strings.Contains(w[0].What, tc.what) {
				t.Errorf("%v %+v", g, w)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	text := "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"/a\"]\n"
	text += strings.Repeat("#", MaxFile-len(text))
	if g, bad := Parse("x.toml", []byte(text), nil); g == nil {
		t.Errorf("64 KiB: %v", bad)
	}
	if g, _ := Parse("x.toml", []byte(text+"#"), nil); g != nil {
		t.Error("more than 64 KiB was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"/a\"]\n")
	f.Add("tool = \"run\"\nmode = \"ask\"\n[args.argv]\nfirst = [\"git\"]\npattern = '[a-z]+'\n[userland]\nkind = \"root\"\nroot = \"/srv/x\"\n")
	f.Add("tool = \"http_fetch\"\nmode = \"ask\"\n[net]\nhosts = [\"*.a.org:443\"]\n[[secrets.inject]]\nname = \"x\"\nhost = \"b.a.org:443\"\nheader = \"X\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, bad := Parse("x.toml", []byte(text), ownFolders())
		if g == nil {
			if len(bad) == 0 {
				t.Error("refused without a reason")
			}
			return
		}
		for _, p := range append(append([]string{}, g.Paths.Read...), g.Paths.Write...) {
			if what, _ := CheckPath(p, ownFolders()); what != "" || !clean(p) {
				t.Errorf("%q was granted: %s", p, what)
			}
		}
		if g.ModeUntrusted.rank() < g.Mode.rank() || abilities(g.Tool) == (ability{}) {
			t.Errorf("%+v", g)
		}
	})
}
