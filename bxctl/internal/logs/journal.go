package logs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Systemd is the role of what systemd itself says of the units.
const Systemd = "systemd"

// maxRecord bounds one record of the journal as JSON: a line of a program is at
// most 48 KiB there, and five bytes for one where it is not printable.
const maxRecord = 1 << 20

// A Journal is systemd's, read by the program journalctl, which alone knows where
// it lies and who may read it.
type Journal struct {
	Program string // journalctl
	User    bool   // the units of a user's own manager
	Roles   []string
	Prefix  string // of the names of units, before the role
}

// A JournalError is what journalctl said instead.
type JournalError struct {
	Text string // its last line; not safe for a terminal
	Err  error
}

func (e *JournalError) Error() string { return "journalctl: " + e.Text + ": " + e.Err.Error() }

// Unwrap gives the error of the process.
func (e *JournalError) Unwrap() error { return e.Err }

// Each is [Query.Each] for the journal. It is in the journal's own order. Of the
// query, Dir and Poll are not used, and no roles means those of j.
func (j Journal) Each(ctx context.Context, q Query, visit func(Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.Program, j.args(q)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return &JournalError{"it does not start", err}
	}
	visited := j.read(ctx, out, q, visit)
	interrupted := ctx.Err() != nil
	if visited != nil {
		cancel() // it may still follow
	}
	err = cmd.Wait()
	switch {
	case visited != nil || interrupted:
		return visited
	case err != nil:
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return &JournalError{lines[len(lines)-1], err}
	default:
		return nil
	}
}

// read visits the records until their end, or until visit wants no more.
func (j Journal) read(ctx context.Context, out io.Reader, q Query, visit func(Entry) error) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxRecord)
	for lines.Scan() && ctx.Err() == nil {
		e, err := j.parse(lines.Bytes())
		if err != nil {
			return fmt.Errorf("a record of the journal can't be read: %w", err)
		}
		if e.Time.Before(q.Since) {
			continue
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the journal can't be read: %w", err)
	}
	return nil
}

// args are those of journalctl(1). Units are named one by one: a pattern that
// matches nothing is an error there.
func (j Journal) args(q Query) []string {
	args := []string{"--quiet", "--no-pager", "--all", "--output=json"}
	if q.Last >= 0 {
		args = append(args, "--lines="+strconv.Itoa(q.Last))
	} else {
		args = append(args, "--lines=all") // with --follow, nothing means ten
	}
	if !q.Since.IsZero() {
		args = append(args, "--since=@"+strconv.FormatInt(q.Since.Unix(), 10))
	}
	if q.Follow {
		args = append(args, "--follow")
	}
	roles := slices.DeleteFunc(slices.Clone(q.Roles), func(r string) bool { return r == "up" })
	if len(roles) == 0 {
		if len(q.Roles) > 0 { // systemd's own words alone: what up says elsewhere
			args = append(args, "--identifier="+Systemd)
		}
		roles = j.Roles
	}
	unit := "--unit="
	if j.User { // not --user: that reads no journal that is in memory only
		unit = "--user-unit="
	}
	for _, r := range roles {
		args = append(args, unit+j.Prefix+r+".service", unit+j.Prefix+r+".socket")
	}
	return args
}

// record is what is read of one: systemd.journal-fields(7).
type record struct {
	At       jsontext.Value `json:"__REALTIME_TIMESTAMP"` // µs
	Message  jsontext.Value `json:"MESSAGE"`
	Priority jsontext.Value `json:"PRIORITY"`
	Name     jsontext.Value `json:"SYSLOG_IDENTIFIER"`
	Unit     jsontext.Value `json:"_SYSTEMD_UNIT"`
	UserUnit jsontext.Value `json:"_SYSTEMD_USER_UNIT"`
	Of       jsontext.Value `json:"UNIT"` // of a record of systemd's own
	OfUser   jsontext.Value `json:"USER_UNIT"`
}

// parse reads one line of --output=json.
func (j Journal) parse(line []byte) (Entry, error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return Entry{}, err
	}
	message := bytes.TrimRight(field(r.Message), "\n")
	var e Entry
	if string(field(r.Name)) == Systemd && len(r.Of)+len(r.OfUser) > 0 {
		e = Entry{Role: Systemd, Msg: string(message), Level: level(string(field(r.Priority)))}
	} else {
		unit := field(r.UserUnit)
		if !bytes.HasPrefix(unit, []byte(j.Prefix)) {
			unit = field(r.Unit)
		}
		e = Parse(strings.TrimSuffix(strings.TrimPrefix(string(unit), j.Prefix), ".service"), message)
	}
	if us, err := strconv.ParseInt(string(field(r.At)), 10, 64); err == nil && e.Time.IsZero() {
		e.Time = time.UnixMicro(us)
	}
	return e, nil
}

// field gives the bytes of a field: a string; numbers, where they are not printable;
// several values, of which the first one counts.
func field(v jsontext.Value) []byte {
	switch v.Kind() {
	case '"':
		if b, err := jsontext.AppendUnquote(nil, v); err == nil {
			return b
		}
	case '[':
		var numbers []uint16
		if json.Unmarshal(v, &numbers) == nil {
			out := make([]byte, len(numbers))
			for i, n := range numbers {
				out[i] = byte(n)
			}
			return out
		}
		var values []jsontext.Value
		if json.Unmarshal(v, &values) == nil && len(values) > 0 {
			return field(values[0])
		}
	}
	return nil
}

// level gives the level of a priority of syslog.
func level(priority string) string {
	switch priority {
	case "0", "1", "2", "3":
		return "ERROR"
	case "4":
		return "WARN"
	case "5", "6":
		return "INFO"
	case "7":
		return "DEBUG"
	default:
		return ""
	}
}
