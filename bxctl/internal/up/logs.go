package up

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"boxmaker/bxctl/internal/logs"
	"boxmaker/bxctl/internal/term"
)

const tailLen = 12 // last lines kept for an error

// A journal takes what one role prints: all of it into a file, a short form to
// the terminal, the last lines into memory.
type journal struct {
	role string
	loud bool // show lines of the terminal too
	out  *console
	file *logs.Writer

	mu   sync.Mutex // guards what follows
	tail []string
	// plain is the first line of this life that is no record. The daemons log
	// records only, so it is what went wrong: a wrong flag, a panic.
	plain string
	told  string // the last trouble with the file
	// missing is protection that the role said it could not get.
	missing func(string)
}

func openJournal(role, dir string, loud bool, out *console) (*journal, error) {
	w, err := logs.Open(dir, role, out.now)
	return &journal{role: role, file: w, loud: loud, out: out}, err
}

// follow takes lines from r until its end. It never stops reading on an error
// of the file: a role must not block because a disk is full.
func (j *journal) follow(r io.Reader) {
	in := bufio.NewReaderSize(r, logs.MaxLine)
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
	text := strings.TrimRight(string(line), "\r\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	if err := j.file.Line([]byte(text)); err != nil {
		j.trouble(err)
	}
	e := logs.Parse(j.role, []byte(text))
	dull, lacks := confinement(e)
	j.mu.Lock()
	if j.tail = append(j.tail, text); len(j.tail) > tailLen {
		j.tail = j.tail[1:]
	}
	if j.plain == "" && !strings.HasPrefix(text, "{") {
		j.plain = text
	}
	missing := j.missing
	j.mu.Unlock()
	if lacks != "" && missing != nil {
		missing(lacks)
	}
	if j.loud && !dull && e.Level != "DEBUG" {
		j.out.entry(e)
	}
}

// trouble tells of an error of the log file, once.
func (j *journal) trouble(err error) {
	j.mu.Lock()
	told := j.told == err.Error()
	j.told = err.Error()
	j.mu.Unlock()
	if !told {
		j.out.say("the log "+j.file.Path()+" has trouble: "+err.Error(), slog.LevelWarn, "log trouble", "of", j.role, "error", err.Error())
	}
}

// confinement reads a record about it, as package daemon logs it: dull ones say
// that all is as it is meant to be, others what is missing.
func confinement(e logs.Entry) (dull bool, missing string) {
	if e.Msg != "confined" {
		return false, ""
	}
	if state := e.Attr("state"); state == "ok" || state == "skipped" {
		return true, ""
	}
	return false, term.Line(e.Attr("check") + ": " + e.Attr("detail"))
}

// last gives the last lines, in their short form.
func (j *journal) last() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, l := range j.tail {
		out = append(out, logs.Parse(j.role, []byte(l)).Text())
	}
	return out
}

// reason gives the last line that the role printed about its own end, which is
// plain text that starts with its name, or else its first plain line.
// whole reports that it says all there is to say.
func (j *journal) reason() (text string, whole bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.tail) - 1; i >= 0; i-- {
		if s, ok := strings.CutPrefix(j.tail[i], j.role+": "); ok {
			return s, true
		}
	}
	if j.role == roleLlama { // all that it prints is plain
		return "", false
	}
	return j.plain, false
}

// forget drops the lines of a life that is over, so that they are not taken
// for the reason of the next end.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tail, j.plain = nil, ""
}

func (j *journal) watch(missing func(string)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.missing = missing
}

// A console is where up talks to the owner; several roles write to it at once.
// What up itself has to say goes to its own log too.
type console struct {
	screen term.Screen
	now    func() time.Time
	own    *slog.Logger // nil in tests
	quiet  bool         // the log is enough

	mu   sync.Mutex // guards what follows, and the screen
	view *view      // takes the lines while it is shown
}

// ownLog writes records of up's own.
type ownLog struct{ w *logs.Writer }

// Write takes one record. It reports success: a log that can't be written is
// no reason to end what runs.
func (o ownLog) Write(b []byte) (int, error) {
	_ = o.w.Line([]byte(strings.TrimRight(string(b), "\n")))
	return len(b), nil
}

func newConsole(o Options, w *logs.Writer) *console {
	return &console{screen: o.Out, now: o.Now, quiet: o.Quiet, own: slog.New(slog.NewJSONHandler(ownLog{w}, nil)).With("daemon", "up")}
}

func (c *console) entry(e logs.Entry) {
	text := e.Text()
	paint := func(s string) string { return s }
	switch e.Level {
	case "WARN":
		paint = c.screen.Warn
	case "ERROR":
		paint = c.screen.Bad
	}
	c.print(e.Role, text, paint, true)
}

// say prints a sentence of up's own, whole, and logs it as a record.
func (c *console) say(text string, level slog.Level, msg string, attrs ...any) {
	if c.own != nil {
		c.own.Log(context.Background(), level, msg, attrs...)
	}
	paint := func(s string) string { return s }
	if level >= slog.LevelWarn {
		paint = c.screen.Warn
	}
	c.print("up", term.Line(text), paint, false)
}

func (c *console) print(role, clean string, paint func(string) string, clip bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.view != nil {
		c.view.add(c.now().Format("15:04:05"), role, clean, paint)
		return
	}
	if c.quiet {
		return
	}
	if clip {
		clean = term.Clip(clean, c.screen.Width()-22)
	}
	fmt.Fprintf(c.screen.W, "%s %-10s %s\n", c.screen.Dim(c.now().Format("15:04:05")), role, paint(clean))
}

// show lets a view take the lines; nil gives them back to the screen.
func (c *console) show(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view = v
}
