package grant

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// gives orders the verdicts by what they let happen.
func gives(v Verdict) int {
	return map[proto.Verdict]int{proto.VerdictDeny: 0, proto.VerdictAsk: 1, proto.VerdictAllow: 2}[v.Verdict]
}

func anyPath() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "c"}), 1, 3), func(p []string) string { return "/" + strings.Join(p, "/") })
}

func anyHost() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a.org:443", "b.a.org:443", "c.b.a.org:443", "a.org:80", "*.a.org:443", "*.b.a.org:443"})
}

// anyFile draws a grant file. Some have a fault.
func anyFile(deny bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom([]string{"read_file", "search_files", "write_file", "run", "http_fetch"}).Draw(t, "tool")
		mode := rapid.SampledFrom([]string{"auto", "ask", "deny"}).Draw(t, "mode")
		if deny {
			mode = "deny"
		}
		var b strings.Builder
		fmt.Fprintf(&b, "tool = %q\nmode = %q\n", name, mode)
		opt := func(s string) {
			if rapid.IntRange(0, 2).Draw(t, "option") == 0 {
				b.WriteString(s)
			}
		}
		opt("mode_untrusted = \"" + rapid.SampledFrom([]string{"ask", "deny"}).Draw(t, "untrusted") + "\"\n")
		if mode != "deny" {
			opt("max_taint = \"" + rapid.SampledFrom([]string{"public", "secret"}).Draw(t, "taint") + "\"\n")
		}
		opt("expires = " + rapid.SampledFrom([]string{"2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"}).Draw(t, "expires") + "\n")
		opt(rapid.SampledFrom([]string{"broken = 1\n", "\n"}).Draw(t, "fault"))
		list := func(g *rapid.Generator[string]) string {
			return `["` + strings.Join(rapid.SliceOfN(g, 1, 3).Draw(t, "list"), `","`) + `"]`
		}
		if mode != "deny" || rapid.Bool().Draw(t, "narrow") {
			switch name {
			case "read_file", "search_files":
				b.WriteString("[paths]\nread = " + list(anyPath()) + "\n")
			case "write_file":
				b.WriteString("[paths]\nwrite = " + list(anyPath()) + "\n")
			case "http_fetch":
				b.WriteString("[net]\nhosts = " + list(anyHost()) + "\n")
			case "run":
				if mode != "deny" {
					b.WriteString("[paths]\nread = " + list(anyPath()) + "\n")
				}
				opt("[args.argv]\nfirst = [\"a\"]\npattern = \"[ab]*\"\n")
			}
		}
		return b.String()
	})
}

func anyRequest() *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		var args string
		name := rapid.SampledFrom([]string{"read_file", "search_files", "write_file", "run", "http_fetch"}).Draw(t, "tool")
		switch name {
		case "read_file":
			args = fmt.Sprintf(`{"path":%q}`, anyPath().Draw(t, "path"))
		case "search_files":
			args = fmt.Sprintf(`{"path":%q,"pattern":"x"}`, anyPath().Draw(t, "path"))
		case "write_file":
			args = fmt.Sprintf(`{"path":%q,"content":"x","mode":"create"}`, anyPath().Draw(t, "path"))
		case "run":
			args = fmt.Sprintf(`{"argv":[%q,%q],"dir":%q}`, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "program"), rapid.SampledFrom([]string{"a", "ab", "c"}).Draw(t, "argument"), anyPath().Draw(t, "path"))
		case "http_fetch":
			args = fmt.Sprintf(`{"url":"https://%s/"}`, rapid.SampledFrom([]string{"a.org", "b.a.org", "c.b.a.org", "xa.org"}).Draw(t, "host"))
		}
		c, err := tool.Find(name).Decode(args)
		if err != nil {
			t.Fatal(args, err)
		}
		return Request{
			Call: c, Untrusted: rapid.Bool().Draw(t, "untrusted"), Now: now(),
			Taint: rapid.SampledFrom([]proto.Class{proto.ClassPublic, proto.ClassPrivate, proto.ClassSecret}).Draw(t, "taint"),
		}
	})
}

// read makes the set of some files, in their order.
func read(files []string) (s Set) {
	for i, text := range files {
		g, bad := Parse(fmt.Sprintf("%02d-x.toml", i), []byte(text), ownFolders())
		k := &kept{grant: g, problems: bad}
		if g == nil {
			k.salvage(fmt.Sprintf("%02d-x.toml", i), []byte(text))
		}
		s.add(k)
	}
	return s
}

func sameGrant(a, b *Grant) bool { return a == b }

// subset reports whether all that a gives is given by b.
func subset(a, b []string, in func(x, y string) bool) bool {
	for _, x := range a {
		if !slices.ContainsFunc(b, func(y string) bool { return in(x, y) }) {
			return false
		}
	}
	return true
}

// Whatever files there are: one more deny, in any place, never lets more happen.
func TestDenyNeverAllowsMoreProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(anyFile(false), 0, 5).Draw(t, "files")
		at := rapid.IntRange(0, len(files)).Draw(t, "place")
		r := anyRequest().Draw(t, "request")
		before := read(files).Decide(r)
		after := read(slices.Insert(slices.Clone(files), at, anyFile(true).Draw(t, "deny"))).Decide(r)
		if gives(after) > gives(before) {
			t.Fatalf("%s by %v became %s by %v", before.Verdict, before.Grant, after.Verdict, after.Grant)
		}
		if gives(after) > 0 && !subset(after.Hosts, before.Hosts, func(x, y string) bool { return hostIn(x, []string{y}) }) {
			t.Fatalf("hosts %q became %q", before.Hosts, after.Hosts)
		}
		if gives(after) > 0 && !subset(before.Hidden, after.Hidden, func(x, y string) bool { return x == y }) {
			t.Fatalf("hidden %q became %q", before.Hidden, after.Hidden)
		}
	})
}

// A file that is removed takes rights away, unless it denied. "ask" may turn
// into "allow": the removed file came first, and the next one says auto. So what
// is compared is whether anything can happen at all.
func TestRemovingNeverAllowsMoreProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(anyFile(false), 1, 6).Draw(t, "files")
		at := rapid.IntRange(0, len(files)-1).Draw(t, "place")
		r := anyRequest().Draw(t, "request")
		removed := read(files[at : at+1])
		if len(removed.Grants) == 1 && removed.Grants[0].ModeFor(r.Untrusted) == Deny {
			return
		}
		before, after := read(files).Decide(r), read(slices.Delete(slices.Clone(files), at, at+1)).Decide(r)
		if gives(before) == 0 && gives(after) > 0 {
			t.Fatalf("%s became %s by %v", before.Verdict, after.Verdict, after.Grant)
		}
	})
}

// Files with a fault, and files that have expired, change nothing.
func TestBrokenAndExpiredGiveNothingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(anyFile(false), 0, 6).Draw(t, "files")
		r := anyRequest().Draw(t, "request")
		s := read(files)
		v := s.Decide(r)
		live := Set{}
		for _, g := range s.Grants {
			if !g.Expired(r.Now) {
				live.Grants = append(live.Grants, g)
			}
		}
		w := live.Decide(r)
		v.Steps, w.Steps = nil, nil
		if d := cmp.Diff(v, w, cmp.Comparer(sameGrant)); d != "" {
			t.Fatal(d)
		}
		for _, p := range s.Broken {
			if v.Grant != nil && v.Grant.ID == p.File && gives(v) > 0 {
				t.Fatalf("%s is broken and allows", p.File)
			}
		}
		if len(s.Broken) > 0 && len(s.Grants) == 0 && gives(v) > 0 {
			t.Fatal("only broken files, and it is allowed")
		}
	})
}

// An independent reading of what an allowance means: the path lies in a granted
// tree of one grant for this tool, which no deny reaches.
func TestAllowedIsGrantedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(anyFile(false), 0, 6).Draw(t, "files")
		r := anyRequest().Draw(t, "request")
		v := read(files).Decide(r)
		again := read(files).Decide(r)
		if v.Why != again.Why || v.Verdict != again.Verdict || v.Code != again.Code {
			t.Fatalf("%+v, then %+v", v, again)
		}
		if gives(v) == 0 {
			if v.Code == "" || !strings.HasPrefix(v.Why, string(v.Code)+": ") {
				t.Fatalf("denied with %q: %s", v.Code, v.Why)
			}
			return
		}
		if v.Grant.Tool != r.Call.Tool.Name || v.Grant.Expired(r.Now) || v.Code != "" {
			t.Fatalf("%+v", v)
		}
		for _, p := range append(r.Call.Reads(), r.Call.Writes()...) {
			in := false
			for dir := p; !in && dir != "/"; dir = path.Dir(dir) {
				in = slices.Contains(v.Grant.Paths.Read, dir) || slices.Contains(v.Grant.Paths.Write, dir)
			}
			if !in {
				t.Fatalf("%s is allowed by %+v", p, v.Grant.Paths)
			}
		}
	})
}

// Time only takes away.
func TestExpiryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(anyFile(false), 0, 6).Draw(t, "files")
		r := anyRequest().Draw(t, "request")
		s := read(files)
		s.Grants = slices.DeleteFunc(s.Grants, func(g *Grant) bool { return g.ModeFor(r.Untrusted) == Deny })
		before := s.Decide(r)
		r.Now = r.Now.Add(time.Duration(rapid.Int64Range(0, int64(100*365*24*time.Hour)).Draw(t, "later")))
		after := s.Decide(r)
		if gives(before) == 0 && gives(after) > 0 {
			t.Fatalf("%s became %s", before.Verdict, after.Verdict)
		}
	})
}
