package up

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"boxmaker/bxctl/internal/term"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxLog  = 16 << 20 // a log file that grew larger is moved to <name>.1
	tailLen = 12       // last lines kept for an error
	maxLine = 64 << 10 // a longer line is cut into pieces
)

// A journal takes what one role prints: all of it into a file, a short form to
// the terminal, the last lines into memory.
type journal struct {
	role string
	path string
	loud bool // show lines of the terminal too
	out  *console

	file *os.File
	size int64

	mu   sync.Mutex // guards what follows
	tail []string
	// missing is protection that the role said it could not get.
	missing func(string)
}

func openJournal(role, path string, loud bool, out *console) (*journal, error) {
	j := &journal{role: role, path: path, loud: loud, out: out}
	return j, j.open()
}

func (j *journal) open() error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.file, j.size = f, st.Size()
	return nil
}

// rotate keeps one older file.
func (j *journal) rotate() error {
	if err := errors.Join(j.file.Close(), os.Rename(j.path, j.path+".1")); err != nil {
		return err
	}
	return j.open()
}

// follow takes lines from r until its end. It never stops reading on an error
// of the file: a role must not block because a disk is full.
func (j *journal) follow(r io.Reader) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			j.line(line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (j *journal) line(line []byte) {
	if j.size > maxLog {
		if err := j.rotate(); err != nil {
			j.out.say("up", "the log "+j.path+" can't be rotated: "+err.Error())
		}
	}
	n, _ := j.file.Write(line) // a full disk shows in the daemons' own errors
	j.size += int64(n)
	text := strings.TrimRight(string(line), "\r\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	e := parseEntry(text)
	j.mu.Lock()
	if j.tail = append(j.tail, text); len(j.tail) > tailLen {
		j.tail = j.tail[1:]
	}
	missing := j.missing
	j.mu.Unlock()
	if e.missing != "" && missing != nil {
		missing(e.missing)
	}
	if j.loud && !e.dull && e.level != "DEBUG" {
		j.out.entry(j.role, e)
	}
}

// last gives the last lines, in their short form.
func (j *journal) last() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, l := range j.tail {
		out = append(out, parseEntry(l).text)
	}
	return out
}

// reason gives the last line that the role printed about its own end, which is
// plain text that starts with its name.
func (j *journal) reason() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.tail) - 1; i >= 0; i-- {
		if s, ok := strings.CutPrefix(j.tail[i], j.role+": "); ok {
			return s
		}
	}
	return ""
}

func (j *journal) watch(missing func(string)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.missing = missing
}

// An entry is one line of a log, for people.
type entry struct {
	level   string // DEBUG, INFO, WARN, ERROR; empty for a line that is no record
	text    string
	dull    bool   // of no interest on the terminal
	missing string // what a record about confinement says is not there
}

// parseEntry reads a JSON record of slog; any other line is its own text.
func parseEntry(line string) entry {
	if !strings.HasPrefix(line, "{") {
		return entry{text: term.Line(line)}
	}
	var e entry
	var msg string
	var rest []string
	part := map[string]string{}
	d := jsontext.NewDecoder(strings.NewReader(line))
	if _, err := d.ReadToken(); err != nil {
		return entry{text: term.Line(line)}
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return entry{text: term.Line(line)}
		}
		name := key.String() // the token is void after the next read
		value, err := d.ReadValue()
		if err != nil {
			return entry{text: term.Line(line)}
		}
		text := string(value)
		if value.Kind() == '"' {
			if b, err := jsontext.AppendUnquote(nil, value); err == nil {
				text = string(b)
			}
		}
		switch name {
		case "time", "daemon", "role", "name", "pid":
		case "level":
			e.level = text
		case "msg":
			msg = text
		default:
			rest = append(rest, name+"="+text)
			part[name] = text
		}
	}
	if msg == "confined" { // as package daemon logs it
		e.dull = part["state"] == "ok"
		if !e.dull {
			e.missing = term.Line(part["check"] + ": " + part["detail"])
		}
	}
	e.text = term.Line(strings.Join(append([]string{msg}, rest...), " "))
	return e
}

// A console is where up talks to the owner; several roles write to it at once.
type console struct {
	screen term.Screen
	now    func() time.Time
	mu     sync.Mutex // guards the screen
}

func (c *console) entry(role string, e entry) {
	text := term.Clip(e.text, c.screen.Width()-22)
	switch e.level {
	case "WARN":
		text = c.screen.Warn(text)
	case "ERROR":
		text = c.screen.Bad(text)
	}
	c.print(role, text)
}

// say prints a line of up's own, whole.
func (c *console) say(role, text string) { c.print(role, term.Line(text)) }

func (c *console) print(role, clean string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.screen.W, "%s %-10s %s\n", c.screen.Dim(c.now().Format("15:04:05")), role, clean)
}
