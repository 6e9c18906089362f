package panel

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func same(s string) string { return s }

func example() Data {
	return Data{
		Home: "/h", Now: t0.Add(3 * time.Minute), Use: map[int]Usage{11: {0.251, 12 << 20}},
		Up: report.Up{PID: 10, Since: t0, Version: "v1", Model: "the practice model", State: "running", Roles: []report.Role{
			{Name: "practice", PID: 11, State: "running", Since: t0},
			{Name: "inferproxy", State: "waiting", Restarts: 2, Exit: "exit code 1\x1b[2J", Missing: []string{"landlock: no\nkernel"}},
		}},
		Loopd: &proto.Status{
			State: "testing", Detail: "cache", Server: proto.Server{Practice: true, Context: 32768, Slots: 3},
			Checks: []proto.Check{{Name: "props", State: "ok"}, {Name: "cache", State: "pending"}, {Name: "cap", State: "pending"}},
			Slots:  []proto.SlotState{{Name: "main", Session: "chat-a", Waiting: 1}, {Name: "background"}},
		},
		Broker: &proto.BrokerStatus{Grants: 7, Pending: 1},
		Lines:  []Line{{"03:04:05", "up", "first", same}, {"03:04:06", "loopd", "second and rather long " + strings.Repeat("x", 80), same}},
	}
}

func TestPicture(t *testing.T) {
	const want = `Boxmaker v1 · testing: cache            Ctrl-C stops everything
up 3 min · pid 10 · /h

role         state          pid       up    cpu    memory
practice     running         11    3 min    25%    12 MiB
inferproxy   waiting          -        -      -         -
  restarts: 2, last end: exit code 1␛[2J
  missing: landlock: no kernel

model           the practice model · 32,768 tokens, 3 slots
self-test       █░░ 1 of 3, now: cache
slot main       used by chat-a, 1 waiting
slot background free
authority       7 grants, 1 waiting for you (bxctl approvals)

── log ────────────────────────────────────────────────────────
03:04:05 up         first
03:04:06 loopd      second and rather long xxxxxxxxxxxxxxxxxxx…`
	sc := term.Plain(nil)
	if got := strings.Join(Render(sc, example(), 63, 40), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	d := example()
	d.Loopd = nil
	if got := strings.Join(Render(sc, d, 40, 12), "\n"); !strings.Contains(got, "Boxmaker v1 · starting") || strings.Contains(got, "log") || strings.Contains(got, "%") {
		t.Errorf("got\n%s", got)
	}
	d = example()
	d.Loopd.State, d.Loopd.Checks[1].State, d.Loopd.Checks[2].State = "ready", "failed", "skipped"
	if got := strings.Join(Render(sc, d, 80, 30), "\n"); !strings.Contains(got, "· ready") || !strings.Contains(got, "███ 3 of 3, failed: cache") {
		t.Errorf("got\n%s", got)
	}
}

var ours = regexp.MustCompile("\x1b\\[[0-9]+m")

// Never wider or higher than the screen, whatever is in the data.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := example()
		d.Home, d.Up.Roles[0].Name, d.Loopd.Detail = rapid.String().Draw(t, "home"), rapid.String().Draw(t, "role"), rapid.String().Draw(t, "detail")
		d.Up.Version = rapid.String().Draw(t, "version")
		for i := range rapid.IntRange(0, 30).Draw(t, "lines") {
			d.Lines = append(d.Lines, Line{"03:04:05", fmt.Sprint("r", i), term.Line(rapid.String().Draw(t, "line")), same})
		}
		sc := term.Plain(nil)
		sc.Colour = true
		w, h := rapid.IntRange(20, 200).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
		rows := Render(sc, d, w, h)
		if len(rows) > h {
			t.Errorf("%d rows of %d", len(rows), h)
		}
		for _, r := range rows {
			clean := ours.ReplaceAllString(r, "")
			if strings.ContainsAny(clean, "\x1b\n\r\u009b") || term.Columns(clean) > w {
				t.Errorf("%q in %d columns", r, w)
			}
		}
	})
}
