package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type server struct {
	URL   string   `toml:"url"`
	Idle  Duration `toml:"idle"`
	Slots int8     `toml:"slots"`
	Hash  string   `toml:"template_hash"`
}

type sample struct {
	Name    string            `toml:"name"`
	Model   string            `toml:"model"`
	Output  Size              `toml:"output"`
	Fast    bool              `toml:"fast"`
	Temp    float64           `toml:"temperature"`
	Skip    []string          `toml:"skip"`
	Waits   []Duration        `toml:"waits"`
	Until   time.Time         `toml:"until"`
	Token   string            `toml:"bot_token"`
	Owner   string            `toml:"owner" config:"public"`
	Server  server            `toml:"server"`
	Jobs    []server          `toml:"jobs"`
	Aliases map[string]string `toml:"aliases"`
}

func (s *sample) Validate() error {
	var errs []error
	if s.Server.Slots == 99 {
		errs = append(errs, Invalid("server.slots", "at most %d slots", 64))
	}
	if s.Name == "bad" {
		errs = append(errs, errors.New("name: not a good name"))
	}
	return errors.Join(errs...)
}

func preset() *sample {
	return &sample{Name: "preset", Skip: []string{"one", "two"}, Server: server{Idle: Duration(30 * time.Second), Slots: 2}}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loopd.toml")
	text := "# a comment\nname = \"x\"\nskip = [\"three\"]\noutput = \"64KiB\"\nwaits = [\"1s\", \"2m\"]\nuntil = 2027-06-30T00:00:00Z\n" +
		"aliases.a_b = \"c\"\n[server]\nidle = \"10m\"\n[[jobs]]\nurl = \"http://[::1]:8080\"\n[[jobs]]\nidle = \"1h30m\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := preset()
	if err := Load(path, got); err != nil {
		t.Fatal(err)
	}
	want := preset()
	want.Name, want.Skip, want.Output = "x", []string{"three"}, 64<<10
	want.Waits = []Duration{Duration(time.Second), Duration(2 * time.Minute)}
	want.Until = time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC)
	want.Aliases = map[string]string{"a_b": "c"}
	want.Server.Idle = Duration(10 * time.Minute)
	want.Jobs = []server{{URL: "http://[::1]:8080"}, {Idle: Duration(90 * time.Minute)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAbsentKeysKeepTheirDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "[server]\n", "\r\n"} {
		got := preset()
		if err := decode("f", []byte(text), got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if d := cmp.Diff(preset(), got); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

// Each row is a mistake an owner can make, and all that the error must say.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "name = \"x\"\nnmae = \"y\"\n", `f.toml:2: unknown key "nmae"; did you mean "name"? (see runbook: config-unknown-key)`},
		{"unknown key in a table", "[server]\nidel = \"1s\"\n", `f.toml:2: unknown key "idel" in [server]; did you mean "idle"? (see runbook: config-unknown-key)`},
		{"unknown key, dotted", "server.idel = \"1s\"\n", `f.toml:1: unknown key "idel" in [server]; did you mean "idle"? (see runbook: config-unknown-key)`},
		{"unknown key in a list of tables", "[[jobs]]\n[[jobs]]\nslot = 1\n", `f.toml:3: unknown key "slot" in [jobs]; did you mean "slots"? (see runbook: config-unknown-key)`},
		{"unknown key, inline table", "server = { uri = \"x\" }\n", `f.toml:1: unknown key "uri" in [server]; did you mean "url"? (see runbook: config-unknown-key)`},
		{"unknown table", "[servr]\nidle = \"1s\"\n", `f.toml:1: unknown key "servr"; did you mean "server"? (see runbook: config-unknown-key)`},
		{"two unknown keys", "qqqqqq = 1\nzzzzzz = 2\n", `f.toml:1: unknown key "qqqqqq" (and 1 more unknown); known here: name, model, output, fast, temperature, skip, waits, until, bot_token, owner, server, jobs, aliases (see runbook: config-unknown-key)`},
		{
			"key of several tables", "url = \"x\"\n",
			`f.toml:1: unknown key "url"; known here: name, model, output, fast, temperature, skip, waits, until, bot_token, owner, server, jobs, aliases (see runbook: config-unknown-key)`,
		},
		{"key under the wrong heading", "[server]\ntemperature = 0.5\n", `f.toml:2: unknown key "temperature" in [server]; known here: url, idle, slots, template_hash (see runbook: config-unknown-key)`},
		{"other case", "Name = \"x\"\n", `f.toml:1: key "Name": keys have only lower-case letters, digits and _; did you mean "name"? (see runbook: config-unknown-key)`},
		{"other case of a known key beside it", "name = \"x\"\nNAME = \"y\"\n", `f.toml:2: key "NAME": keys have only lower-case letters, digits and _; did you mean "name"? (see runbook: config-unknown-key)`},
		{"other case, in quotes", "\"Name\" = \"x\"\n", `f.toml:1: key "Name": keys have only lower-case letters, digits and _; did you mean "name"? (see runbook: config-unknown-key)`},
		{"other case of a table", "[Server]\n", `f.toml:1: key "Server": keys have only lower-case letters, digits and _; did you mean "server"? (see runbook: config-unknown-key)`},
		{"other case in an inline table", "server = {IDLE = \"1s\"}\n", `f.toml:1: key "IDLE": keys have only lower-case letters, digits and _; did you mean "idle"? (see runbook: config-unknown-key)`},
		{"letters that fold to ASCII", "\"ſerver\" = 1\n", `f.toml:1: key "\u017ferver": keys have only lower-case letters, digits and _; did you mean "server"? (see runbook: config-unknown-key)`},
		{"dash for underscore", "[server]\ntemplate-hash = \"x\"\n", `f.toml:2: key "template-hash": keys have only lower-case letters, digits and _; did you mean "template_hash"? (see runbook: config-unknown-key)`},
		{"empty key", "\"\" = 1\n", `f.toml:1: key "": keys have only lower-case letters, digits and _; did you mistype it? (see runbook: config-unknown-key)`},
		{"duplicate key", "name = \"x\"\n\nname = \"y\"\n", `f.toml:3: key name is already defined; keep one of the two (see runbook: config-duplicate-key)`},
		{"duplicate table", "[server]\n[server]\n", `f.toml:2: table server already exists; keep one of the two (see runbook: config-duplicate-key)`},
		{"duplicate in an inline table", "server = {url = \"a\", url = \"b\"}\n", `f.toml:1: key url is already defined; keep one of the two (see runbook: config-duplicate-key)`},
		{"number for text", "name = 1\n", `f.toml:1: "name" has a value of the wrong type; it takes a text in quotes (see runbook: config-wrong-type)`},
		{"text for number", "[server]\nslots = \"2\"\n", `f.toml:2: "server.slots" has a value of the wrong type; it takes a whole number (see runbook: config-wrong-type)`},
		{"text for boolean", "fast = \"yes\"\n", `f.toml:1: "fast" has a value of the wrong type; it takes true or false (see runbook: config-wrong-type)`},
		{"fraction for number", "server.slots = 1.5\n", `f.toml:1: "server.slots" has a value of the wrong type; it takes a whole number (see runbook: config-wrong-type)`},
		{"text for list", "skip = \"all\"\n", `f.toml:1: "skip" has a value of the wrong type; it takes a list in [ ], each a text in quotes (see runbook: config-wrong-type)`},
		{"numbers in a list of texts", "skip = [\n \"a\",\n 1]\n", `f.toml:3: "skip" has a value of the wrong type; it takes a list in [ ], each a text in quotes (see runbook: config-wrong-type)`},
		{"text for table", "server = \"x\"\n", `f.toml:1: "server" has a value of the wrong type; it takes a table (see runbook: config-wrong-type)`},
		{"table for text", "[name]\n", `f.toml:1: "name" has a value of the wrong type; it takes a text in quotes (see runbook: config-wrong-type)`},
		{"table for list of tables", "[jobs]\nurl = \"x\"\n", `f.toml:1: "jobs" has a value of the wrong type; it takes a list of tables (see runbook: config-wrong-type)`},
		{"dotted key for list of tables", "jobs.url = \"x\"\n", `f.toml:1: "jobs" has a value of the wrong type; it takes a list of tables (see runbook: config-wrong-type)`},
		{"inline table for list of tables", "jobs = {url = \"x\"}\n", `f.toml:1: "jobs" has a value of the wrong type; it takes a list of tables (see runbook: config-wrong-type)`},
		{"list of tables for table", "[[server]]\n", `f.toml:1: "server" has a value of the wrong type; it takes a table (see runbook: config-wrong-type)`},
		{"key below a text", "name.first = \"x\"\n", `f.toml:1: unknown key "first" in [name]; remove it (see runbook: config-unknown-key)`},
		{"duration without a unit", "[server]\nidle = 30\n", `f.toml:2: "server.idle" has a value of the wrong type; it takes a duration in quotes, such as "30s" (see runbook: config-wrong-type)`},
		{"duration without a unit, in a list", "waits = [\"1s\", 30]\n", `f.toml:1: "waits" has a value of the wrong type; it takes a duration in quotes, such as "30s" (see runbook: config-wrong-type)`},
		{"size without a unit", "output = 65536\n", `f.toml:1: "output" has a value of the wrong type; it takes a size in quotes, such as "64KiB" (see runbook: config-wrong-type)`},
		{"bad duration", "server.idle = \"half an hour\"\n", `f.toml:1: "server.idle": "half an hour" is not a duration; write a number and a unit, such as "30s", "10m" or "2h" (see runbook: config-bad-value)`},
		{"bad size", "output = \"64KB\"\n", `f.toml:1: "output": "64KB" is not a size; write a whole number and B, KiB, MiB or GiB, such as "64KiB" (see runbook: config-bad-value)`},
		{"number out of range", "server.slots = 1000\n", `f.toml:1: "server.slots": the number is out of range; write a number that can be meant (see runbook: config-bad-value)`},
		{"number out of all ranges", "server.slots = 99999999999999999999\n", `f.toml:1: "server.slots": the number is out of range; write a number that can be meant (see runbook: config-bad-value)`},
		{"not TOML", "name = \"x\"\nserver: idle\n", `f.toml:2: this is not TOML: expected '=' after key; a line is a [table], a comment, or key = value with texts in "quotes" (see runbook: config-not-toml)`},
		{"text without quotes", "name = hello\n", `f.toml:1: this is not TOML: unexpected character U+0068 'h' at start of value; a line is a [table], a comment, or key = value with texts in "quotes" (see runbook: config-not-toml)`},
		{"text without end", "\nname = \"x\n", `f.toml:2: this is not TOML: basic strings cannot have new lines; a line is a [table], a comment, or key = value with texts in "quotes" (see runbook: config-not-toml)`},
		{"invalid UTF-8", "name = \"x\"\nmodel = \"a\xffb\"\n", `f.toml:2: the file is not UTF-8 text; save it as UTF-8 (see runbook: config-not-text)`},
		{"byte order mark", "\ufeffname = \"x\"\n", `f.toml:1: the file starts with a byte order mark; save it as UTF-8 without a byte order mark (see runbook: config-not-text)`},
		{"Validate, with a key", "\n[server]\n\nslots = 99\n", `f.toml:4: "server.slots": at most 64 slots (see runbook: config-bad-value)`},
		{"Validate, plain error", "name = \"bad\"\n", `f.toml: name: not a good name (see runbook: config-bad-value)`},
		{"Validate, two errors", "name = \"bad\"\nserver.slots = 99\n", "f.toml:2: \"server.slots\": at most 64 slots (see runbook: config-bad-value)\nf.toml: name: not a good name (see runbook: config-bad-value)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := decode("f.toml", []byte(tc.text), preset())
			if err == nil {
				t.Fatal("accepted")
			}
			if err.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%T is not an *Error", err)
			}
		})
	}
}

// The library quotes little from the file in its messages; whatever it does is
// taken out, since a syntax error can stand inside a secret.
func TestSyntaxErrorsQuoteNothing(t *testing.T) {
	if got := bare(`unable to parse "hunter2": bad "x"`); got != "unable to parse …: bad …" {
		t.Error(got)
	}
}

func TestKeyUnderWrongHeading(t *testing.T) {
	err := decode("f", []byte("idle = \"1s\"\n"), &struct {
		Server struct {
			Idle Duration `toml:"idle"`
		} `toml:"server"`
	}{})
	if want := `f:1: unknown key "idle"; "idle" belongs under [server] (see runbook: config-unknown-key)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, want string
		make       func(path string) error
		is         error
	}{
		{"missing", "there is no such config file; make one with bxctl init, or correct the path (see runbook: config-missing)", func(string) error { return nil }, fs.ErrNotExist},
		{"folder", "this is a folder, not a config file; give the path of the file in it (see runbook: config-unreadable)", func(p string) error { return os.Mkdir(p, 0o700) }, syscall.EISDIR},
		{"fifo", "this is not a regular file; put the config into a plain text file (see runbook: config-unreadable)", func(p string) error { return syscall.Mkfifo(p, 0o600) }, nil},
		{"symlink loop", "the config file cannot be read: too many levels of symbolic links; ", func(p string) error { return os.Symlink(p, p) }, syscall.ELOOP},
		{"too large", "the file is larger than 1 MiB; check that it is the file you mean; no config needs that much (see runbook: config-not-text)", func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("#\n", MaxFile/2)+"#"), 0o600)
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(dir, tc.name)
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			err := Load(path, preset())
			if err == nil || !strings.HasPrefix(err.Error(), path+": "+tc.want) {
				t.Errorf("got  %v\nwant %s: %s", err, path, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
		})
	}
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(full, []byte(strings.Repeat("#\n", MaxFile/2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Load(full, preset()); err != nil {
		t.Errorf("a file of exactly 1 MiB: %v", err)
	}
}

// A file of mode 0 is readable for root, so that this row needs another user.
func TestUnreadableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.toml")
	if err := os.WriteFile(path, nil, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(path); err == nil {
		f.Close()
		err := unreadable(path, &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "permission denied; make it readable for the user") {
			t.Error(err)
		}
		t.Skip("this user reads every file; the other half runs as an ordinary user")
	}
	err := Load(path, preset())
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path+": the config file cannot be read: permission denied; make it readable for the user") {
		t.Error(err)
	}
}

func TestDurationAndSize(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"30s", "30s"}, {"90s", "1m30s"}, {"0s", "0s"}, {"1.5s", "1.5s"}, {"-1s", ""}, {"30", ""}, {"0", ""}, {"", ""}, {"1d", ""}, {"s", ""}, {"1 s", ""}, {"999999999h", ""},
	} {
		var d Duration
		err := d.UnmarshalText([]byte(tc.text))
		if (err == nil) != (tc.want != "") || err == nil && d.String() != tc.want {
			t.Errorf("duration %q: %v %v, want %q", tc.text, d, err, tc.want)
		}
	}
	for _, tc := range []struct{ text, want string }{
		{"64KiB", "64KiB"},
		{"1024KiB", "1MiB"},
		{"0B", "0B"},
		{"0GiB", "0B"},
		{"1536MiB", "1536MiB"},
		{"7B", "7B"},
		{"8589934591GiB", "8589934591GiB"},
		{"8589934592GiB", ""},
		{"99999999999999999999B", ""},
		{"-1B", ""},
		{"+1B", ""},
		{"64", ""},
		{"64KB", ""},
		{"1.5GiB", ""},
		{"", ""},
		{"KiB", ""},
		{"1 KiB", ""},
		{"1_0B", ""},
		{"0x10B", ""},
	} {
		var s Size
		err := s.UnmarshalText([]byte(tc.text))
		if (err == nil) != (tc.want != "") || err == nil && s.String() != tc.want {
			t.Errorf("size %q: %v %v, want %q", tc.text, s, err, tc.want)
		}
	}
}
