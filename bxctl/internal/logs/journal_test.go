package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/term"
)

// journalctl is a program that keeps its arguments and prints what it is given.
func journalctl(t *testing.T, out, script string) (j Journal, args func() string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("out", out, 0o600)
	write("journalctl", "#!/bin/sh\ncd '"+dir+"'\necho \"$*\" >args\ncat out\n"+script+"\n", 0o700)
	return Journal{Program: filepath.Join(dir, "journalctl"), Prefix: "boxmaker-", Roles: []string{"loopd", "practice"}}, func() string {
		b, err := os.ReadFile(filepath.Join(dir, "args"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
}

// Records as journalctl of systemd 252 prints them, shortened.
const records = `{"__REALTIME_TIMESTAMP":"1796227350885449","MESSAGE":"Started boxmaker-loopd.service - Boxmaker: loopd.","PRIORITY":"6","SYSLOG_IDENTIFIER":"systemd","_SYSTEMD_UNIT":"user@7.service","_SYSTEMD_USER_UNIT":"init.scope","USER_UNIT":"boxmaker-loopd.service"}
{"__REALTIME_TIMESTAMP":"1796227351000000","MESSAGE":"{\"time\":\"2026-12-02T16:02:31.5Z\",\"level\":\"INFO\",\"msg\":\"self-test passed\",\"daemon\":\"loopd\",\"model\":\"m\"}","PRIORITY":"6","SYSLOG_IDENTIFIER":"loopd","_SYSTEMD_USER_UNIT":"boxmaker-loopd.service","_SYSTEMD_UNIT":"user@7.service"}
{"__REALTIME_TIMESTAMP":"1796227352000000","MESSAGE":[101,118,105,108,27,91,50,74],"SYSLOG_IDENTIFIER":["a","b"],"_SYSTEMD_UNIT":"boxmaker-practice.service","NEW_FIELD":{"x":[1]}}
{"__REALTIME_TIMESTAMP":"1796227353000000","MESSAGE":null,"PRIORITY":"3","SYSLOG_IDENTIFIER":"systemd","_SYSTEMD_UNIT":"boxmaker-practice.service"}
`

// What journalctl tells looks as the files do, and nothing in it reaches a terminal.
func TestJournal(t *testing.T) {
	j, args := journalctl(t, records, "")
	var got []string
	err := j.Each(t.Context(), Query{Last: 7}, func(e Entry) error {
		got = append(got, e.Human(term.Plain(nil), time.UTC))
		return nil
	})
	want := []string{
		"2026-12-02 16:02:30.885 INFO  systemd    Started boxmaker-loopd.service - Boxmaker: loopd.",
		"2026-12-02 16:02:31.500 INFO  loopd      self-test passed model=m",
		"2026-12-02 16:02:32.000 -     practice   evil␛[2J",
		"2026-12-02 16:02:33.000 -     practice   ",
	}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
	if got, want := args(), "--quiet --no-pager --all --output=json --lines=7 --unit=boxmaker-loopd.service --unit=boxmaker-loopd.socket --unit=boxmaker-practice.service --unit=boxmaker-practice.socket"; got != want {
		t.Errorf("arguments\n%s\nwant\n%s", got, want)
	}
}

func TestJournalArguments(t *testing.T) {
	at := time.Unix(1000, 5e8)
	for _, c := range []struct {
		name string
		user bool
		q    Query
		want string
	}{
		{"a role, all lines", false, Query{Roles: []string{"loopd"}, Last: All}, "--lines=all --unit=boxmaker-loopd.service --unit=boxmaker-loopd.socket"},
		{"of a user, followed", true, Query{Roles: []string{"loopd", "up"}, Last: 0, Follow: true}, "--lines=0 --follow --user-unit=boxmaker-loopd.service --user-unit=boxmaker-loopd.socket"},
		{"up is systemd", false, Query{Roles: []string{"up"}, Last: 3, Since: at}, "--lines=3 --since=@1000 --identifier=systemd --unit=boxmaker-x.service --unit=boxmaker-x.socket"},
	} {
		j := Journal{User: c.user, Prefix: "boxmaker-", Roles: []string{"x"}}
		if got := strings.Join(j.args(c.q), " "); got != "--quiet --no-pager --all --output=json "+c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// Whatever becomes of journalctl is told, and nothing of it runs on.
func TestJournalEnds(t *testing.T) {
	stop := errors.New("stop")
	for _, c := range []struct {
		name, out, script string
		visit             error
		seen              int
		want              string
	}{
		{"refused", "", "echo first >&2; echo no journal files were opened >&2; exit 1", nil, 0, "journalctl: no journal files were opened: exit status 1"},
		{"no JSON", "-- No entries --\n", "", nil, 0, "a record of the journal can't be read"},
		{"a record without end", strings.Repeat("x", maxRecord+1), "", nil, 0, "token too long"},
		{"enough seen", records, "exec sleep 60", stop, 1, "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, _ := journalctl(t, c.out, c.script)
			n := 0
			err := j.Each(t.Context(), Query{Last: All}, func(Entry) error { n++; return c.visit })
			if err == nil || !strings.Contains(err.Error(), c.want) || n != c.seen {
				t.Errorf("%d seen, %v", n, err)
			}
		})
	}
	j := Journal{Program: filepath.Join(t.TempDir(), "none")}
	var je *JournalError
	if err := j.Each(t.Context(), Query{}, nil); !errors.As(err, &je) {
		t.Errorf("without journalctl: %v", err)
	}
}

// Lines come while journalctl goes on, and the end of the context is no error.
func TestJournalFollows(t *testing.T) {
	j, _ := journalctl(t, records, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := j.Each(ctx, Query{Last: All, Follow: true, Since: time.UnixMicro(1796227351500000)}, func(Entry) error {
		if n++; n == 2 {
			cancel()
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%d seen, %v", n, err)
	}
}

func FuzzJournal(f *testing.F) {
	for line := range strings.Lines(records) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := Journal{Prefix: "boxmaker-"}.parse(line)
		if err != nil {
			return
		}
		if s := fmt.Sprint(e.Human(term.Plain(nil), time.UTC), string(e.JSON())); strings.ContainsAny(s, "\x1b\n\r\x00") {
			t.Errorf("%q", s)
		}
	})
}
