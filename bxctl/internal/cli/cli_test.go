package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/bxctl/internal/fakeloop"
	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// run is one bxctl with files as its terminals, none of which is one.
type result struct {
	code     int
	out, err string
}

func run(t *testing.T, home, stdin string, args ...string) result {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) *os.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	env := Env{
		Args: args, Environ: []string{"BOXMAKER_HOME=" + home, "HOME=/nowhere"}, Stdin: file("in", stdin), Stdout: file("out", ""), Stderr: file("err", ""),
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	r := result{code: Main(t.Context(), env)}
	for name, into := range map[string]*string{"out": &r.out, "err": &r.err} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		*into = string(b)
	}
	return r
}

func shortHome(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli-") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // as root, the roles pass through
		t.Fatal(err)
	}
	return filepath.Join(dir, "h")
}

func TestExitCodes(t *testing.T) {
	home := shortHome(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"no command", nil, 0, ""},
		{"help", []string{"ask", "--help"}, 0, ""},
		{"version", []string{"--version"}, 0, ""},
		{"unknown command", []string{"aks"}, 2, `no command "aks"`},
		{"unknown flag", []string{"ask", "--jsn"}, 2, "unknown flag"},
		{"bad flag value", []string{"up", "--wait", "x"}, 2, "--wait"},
		{"two choices", []string{"init", "--practice", "--upstream", "http://h:1"}, 2, "exclude each other"},
		{"session and new", []string{"ask", "--session", "a", "--new", "x"}, 2, "exclude each other"},
		{"too many words", []string{"status", "x"}, 2, "takes no arguments, not 1"},
		{"unknown sessions command", []string{"sessions", "x"}, 2, "no command"},
		{"no id", []string{"sessions", "show"}, 2, "takes one argument, not 0"},
		{"format", []string{"sessions", "export", "--format", "pdf", "a"}, 2, "md or json"},
		{"limit", []string{"sessions", "list", "--limit", "0"}, 2, "1 or more"},
		{"bad session", []string{"ask", "--session", "../x", "hi"}, 2, "no session id"},
		{"empty session", []string{"chat", "--session", ""}, 2, "no session id"},
		{"empty message", []string{"ask"}, 2, "empty"},
		{"ask, not running", []string{"ask", "hi"}, 3, "bxctl up"},
		{"status, not running", []string{"status"}, 3, "bxctl up"},
		{"down, not running", []string{"down"}, 3, "bxctl up"},
		{"logs of nothing yet", []string{"logs"}, 0, ""},
		{"logs as JSON of nothing yet", []string{"logs", "--json"}, 0, ""},
		{"logs of an unknown role", []string{"logs", "nobody"}, 2, "the roles are"},
		{"logs, how many", []string{"logs", "-n", "-1"}, 2, "a number, or all"},
		{"logs, since when", []string{"logs", "--since", "soon"}, 2, "is no time"},
		{"completion for another shell", []string{"completion", "tcsh"}, 2, "bash, zsh or fish"},
		{"help on a topic", []string{"help", "grants"}, 0, ""},
		{"unknown grants command", []string{"grants", "x"}, 2, "no command"},
		{"grants of nothing yet", []string{"grants", "list"}, 1, "bxctl init"},
		{"explain, no arguments", []string{"grants", "explain", "shell"}, 2, "takes a tool and its arguments"},
		{"explain, no such tool", []string{"grants", "explain", "x", "y"}, 2, "no tool"},
		{"explain, bad session", []string{"grants", "explain", "shell", "y", "--session", "../x"}, 2, "session id"},
		{"explain, two sources", []string{"grants", "explain", "shell", "y", "--session", "x", "--untrusted"}, 2, "exclude each other"},
		{"explain for a session, not running", []string{"grants", "explain", "shell", "y", "--session", "x"}, 3, "brokerd"},
		{"new, in the past", []string{"grants", "new", "shell", "--expires", "2020-01-01"}, 2, "has passed"},
		{"new, a name that is a path", []string{"grants", "new", "shell", "--mode", "ask", "--name", "../x.toml"}, 2, "no file name"},
		{"new, no such mode", []string{"grants", "new", "shell", "--mode", "yes"}, 2, "is no mode"},
		{"help on a command", []string{"help", "sessions", "list"}, 0, ""},
		{"help on nothing", []string{"help", "everything"}, 2, "no help on"},
		{"man without a folder", []string{"man"}, 2, "takes one argument, not 0"},
		{"units elsewhere, without units", []string{"init", "--out", "x"}, 2, "--out is for --systemd"},
		{"up, not set up", []string{"up"}, 2, "bxctl init"},
		{"show, not set up", []string{"sessions", "show", "a"}, 3, "not running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, home, "", c.args...)
			if r.code != c.code || !strings.Contains(r.err, c.err) || c.code == 0 && r.err != "" && !strings.HasPrefix(r.err, "(nothing has run here yet") {
				t.Errorf("exit %d, %q", r.code, r.err)
			}
			if c.code != 0 && (r.out != "" || !strings.Contains(r.err, "(see runbook: ")) {
				t.Errorf("output %q, error %q", r.out, r.err)
			}
		})
	}
}

// Each command that talks, against a loopd on the socket of the home.
func TestCommands(t *testing.T) {
	home := shortHome(t)
	if r := run(t, home, "", "init"); r.code != 0 || !strings.Contains(r.out, "is set up in "+home) {
		t.Fatalf("init: %+v", r)
	}
	layout, err := config.Locate(func(name string) string { return map[string]string{"BOXMAKER_HOME": home}[name] })
	if err != nil {
		t.Fatal(err)
	}
	now := proto.Time(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	var asked *proto.Submit
	fakeloop.At(t, layout.Socket("loopd", "bxctl", "loop"), func(_ context.Context, req proto.Message, out *ipc.Stream) {
		switch req := req.(type) {
		case *proto.Submit:
			asked = req
			fakeloop.Send(out, &proto.Accepted{}, &proto.Text{Text: "yes"}, &proto.Done{Outcome: proto.TurnAnswered, Answer: "yes"})
		case *proto.ListSessions:
			fakeloop.Send(out, &proto.SessionList{Sessions: []proto.SessionInfo{{Session: "chat-a", Epoch: 1, Records: 3, Bytes: 2048, Modified: now, Title: "first", Open: true}}})
		default:
			fakeloop.Send(out, &proto.Status{Version: "t", State: "ready", Since: now, Server: proto.Server{Practice: true}, Checks: []proto.Check{}, Slots: []proto.SlotState{}, Confinement: []proto.Check{}})
		}
	})
	for _, c := range []struct {
		name, stdin string
		args        []string
		out, text   string
		surface     proto.Surface
	}{
		{"ask with words", "", []string{"ask", "a", "b"}, "yes\n", "a b", proto.SurfaceAsk},
		{"ask with a pipe", "in\n", []string{"ask"}, "yes\n", "in", proto.SurfaceAsk},
		{"ask with both", "in\n", []string{"ask", "words"}, "yes\n", "words\n\nin", proto.SurfaceAsk},
		{"ask as JSON", "", []string{"ask", "--json", "a"}, `{"type":"accepted","record":0}` + "\n" + `{"type":"text","text":"yes"}` + "\n" + `{"type":"done","outcome":"answered","answer":"yes","usage":{}}` + "\n", "a", proto.SurfaceAsk},
		{"chat with a pipe", "l1\nl2\n", []string{"chat"}, "yes\n", "l1\nl2", proto.SurfaceChat},
		{"session", "", []string{"ask", "--session", "chat-x", "a"}, "yes\n", "a", proto.SurfaceAsk},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, home, c.stdin, c.args...)
			if r.code != 0 || r.err != "" || r.out != c.out {
				t.Errorf("%+v", r)
			}
			if asked.Text != c.text || asked.Surface != c.surface || (c.name == "session") != (asked.Session == "chat-x") {
				t.Errorf("asked %+v", asked)
			}
		})
	}
	if r := run(t, home, "", "sessions", "list"); r.code != 0 || !strings.Contains(r.out, "chat-a") || !strings.Contains(r.out, "* first") {
		t.Errorf("list: %+v", r)
	}
	if r := run(t, home, "", "status"); r.code != 0 || !strings.Contains(r.out, "practice model (rules, not a language model)") {
		t.Errorf("status: %+v", r)
	}
	if r := run(t, home, "", "status", "--json"); r.code != 0 || !strings.Contains(r.out, `"state":"ready"`) || strings.Count(r.out, "\n") != 1 {
		t.Errorf("status: %+v", r)
	}
	if r := run(t, home, "", "--home", home+"2", "status"); r.code != 3 {
		t.Errorf("--home: %+v", r)
	}
}
