package rights

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxmaker/internal/grant"
	"boxmaker/internal/tool"
)

// A Draft is a grant that is about to be written.
type Draft struct {
	Tool          string
	Mode          grant.Mode
	ModeUntrusted grant.Mode // "" for the same
	Read, Write   []string
	Hosts, Local  []string
	Expires       time.Time
	Reason        string
	CallsPerHour  int
}

// Text is the file: every key that is left out is there as a comment, so that
// the owner sees what else there is.
func (d Draft) Text() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Written by bxctl grants new. It holds as long as this file is here; remove it to take the\n# right away at once. bxctl grants check looks for mistakes; bxctl help grants explains.\n\n")
	p("tool   = %s\nmode   = %s\n", quote(d.Tool), quote(string(d.Mode)))
	switch {
	case d.ModeUntrusted != "" && d.ModeUntrusted != d.Mode:
		p("mode_untrusted = %s  # once the session has seen untrusted text\n", quote(string(d.ModeUntrusted)))
	case d.Mode == grant.Auto:
		p("# mode_untrusted = \"ask\"       # once the session has seen untrusted text; the same if left out\n")
	}
	if d.Expires.IsZero() {
		p("# expires = 2030-01-31T00:00:00Z\n")
	} else {
		p("expires = %s\n", d.Expires.UTC().Format(time.RFC3339))
	}
	if d.Reason != "" {
		p("reason = %s\n", quote(d.Reason))
	} else {
		p("# reason = \"…\"                 # shown when you are asked, and in the audit log\n")
	}
	if d.Mode != grant.Deny {
		p("# max_taint = \"private\"        # it holds for sessions that have seen nothing above this\n# result_class = \"private\"     # what comes back counts as public, private or secret\n# untrusted = true             # and as text that somebody else may have written\n")
	}
	d.places(&b)
	d.secrets(&b)
	d.limits(&b)
	return b.String()
}

func (d Draft) places(b *strings.Builder) {
	if len(d.Read)+len(d.Write) > 0 {
		b.WriteString("\n[paths]                        # a folder stands for all that is in it\n")
		if len(d.Read) > 0 {
			fmt.Fprintf(b, "read = %s\n", quoted(d.Read))
		}
		if len(d.Write) > 0 {
			fmt.Fprintf(b, "write = %s\n", quoted(d.Write))
		}
	}
	if len(d.Hosts) > 0 {
		fmt.Fprintf(b, "\n[net]                          # host:port, exactly\nhosts = %s\n", quoted(d.Hosts))
		if len(d.Local) > 0 {
			fmt.Fprintf(b, "local = %s  # these may have a private address\n", quoted(d.Local))
		}
	}
	if d.Tool == tool.NameRun && d.Mode != grant.Deny {
		b.WriteString("\n# [args.argv]                  # without it: any program of the userland\n# first = [\"git\", \"log\"]       # the command begins with exactly this\n# pattern = '[A-Za-z0-9=./-]+' # each further argument, as a whole\n")
	}
	if (d.Tool == tool.NameRun || d.Tool == tool.NameShell) && d.Mode != grant.Deny {
		b.WriteString("\n# [userland]\n# kind = \"usr\"                 # programs of this machine's /usr; or \"none\"; or \"root\" with a root\n")
	}
}

func (d Draft) secrets(b *strings.Builder) {
	switch {
	case d.Mode == grant.Deny:
	case d.Tool == tool.NameRun || d.Tool == tool.NameShell:
		b.WriteString("\n# [secrets]                    # the program gets each as a file descriptor\n# names = [\"api-token\"]        # bxctl secret set api-token\n")
	case d.Tool == tool.NameHTTPFetch:
		b.WriteString("\n# [args.method]\n# one_of = [\"GET\"]             # no POST\n")
		if len(d.Hosts) > 0 && !strings.HasPrefix(d.Hosts[0], "*") {
			fmt.Fprintf(b, "\n# [[secrets.inject]]           # added to https requests; the tool never sees it\n# name = \"api-token\"           # bxctl secret set api-token\n# host = %s\n# header = \"Authorization\"\n# prefix = \"Bearer \"\n", quote(d.Hosts[0]))
		}
	}
}

func (d Draft) limits(b *strings.Builder) {
	if d.Mode == grant.Deny {
		return
	}
	if d.CallsPerHour > 0 {
		fmt.Fprintf(b, "\n[limits]\ncalls_per_hour = %d\n", d.CallsPerHour)
	} else {
		b.WriteString("\n# [limits]\n# calls_per_hour = 60\n")
	}
	b.WriteString("# time = \"30s\"\n# memory = \"256MiB\"            # a call is refused where this machine can't limit it\n# output = \"64KiB\"\n# pids = 64                    # the same\n")
}

// Name proposes a file name that says what the grant is about.
func (d Draft) Name() string {
	about := ""
	switch {
	case len(d.Write) > 0:
		about = filepath.Base(d.Write[0])
	case len(d.Read) > 0:
		about = filepath.Base(d.Read[0])
	case len(d.Hosts) > 0:
		about, _, _ = strings.Cut(strings.TrimPrefix(d.Hosts[0], "*."), ":")
	}
	number := "50"
	if d.Mode == grant.Deny {
		number = "10"
	}
	return number + "-" + slug(about+"-"+strings.ReplaceAll(d.Tool, "_", "-")) + ".toml"
}

// slug keeps what a file name of a grant may have.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, s)
	return strings.Trim(s[:min(len(s), 80)], ".-")
}

// Host makes host:port of what an owner types: a bare name is https, a URL is
// its host.
func Host(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		s = u.Host
		if u.Port() == "" {
			s += map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
		}
	}
	if i := strings.LastIndexByte(s, ':'); i < 0 || strings.HasSuffix(s, "]") {
		s += ":443"
	}
	return strings.ToLower(s)
}

// ParseExpiry reads a date, a time, or a number of days ("30d") from now.
func ParseExpiry(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 36500 {
			return now.AddDate(0, 0, n).UTC().Truncate(time.Second), nil
		}
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		t, err := time.ParseInLocation(form, s, now.Location())
		if err == nil && t.After(now) {
			return t.UTC(), nil
		}
		if err == nil {
			return time.Time{}, fmt.Errorf("%s has passed", s)
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; write a number of days (30d), or a date such as 2030-01-31", s)
}

// quote writes a text as TOML does.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoted(all []string) string {
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = quote(s)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
