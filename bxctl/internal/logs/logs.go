// Package logs is what the programs of Boxmaker print, as files: one a role,
// rotated by size, and read back merged by time.
//
// It guarantees that each line of a file is one JSON object with a time, that
// a line is written whole to one file and in one write, and that a reader which
// follows sees each line once and in order across rotations. It does not
// sync: what the machine's power takes with it is lost. Nothing read here may
// go to a terminal but through [Entry.Text] or [Entry.JSON].
package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

const (
	// MaxSize is the size at which a file is rotated: <role>.log becomes
	// <role>.log.1, that one .2, and so on.
	MaxSize = 8 << 20
	// Kept is how many rotated files of a role are kept.
	Kept = 4
	// MaxLine is where a longer line of a program is cut into pieces.
	MaxLine = 64 << 10

	suffix = ".log"
)

// Path is the file that a role's lines go to now.
func Path(dir, role string) string { return filepath.Join(dir, role+suffix) }

func old(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// A Writer appends to the file of one role. There is one writer a file.
type Writer struct {
	role string
	path string
	now  func() time.Time
	max  int64

	mu   sync.Mutex // guards what follows
	file *os.File
	size int64
	torn bool // the last write was cut short, by a full disk for instance
}

// Open opens the log of a role, mode 0600.
func Open(dir, role string, now func() time.Time) (*Writer, error) {
	w := &Writer{role: role, path: Path(dir, role), now: now, max: MaxSize}
	return w, w.open()
}

// Path is the file that is written to now.
func (w *Writer) Path() string { return w.path }

func (w *Writer) open() error {
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", w.path)
	}
	if err == nil && st.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	last := []byte{'\n'}
	if st.Size() > 0 {
		if _, err := f.ReadAt(last, st.Size()-1); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	w.file, w.size, w.torn = f, st.Size(), last[0] != '\n'
	return nil
}

// Line writes one line, given without its end. A text that is no JSON object
// with a time is put into one. An error is that of the disk; the writer can
// still be used.
func (w *Writer) Line(text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return fs.ErrClosed
	}
	line := w.record(text)
	var rotated error
	if w.size > 0 && w.size+int64(len(line)) > w.max {
		rotated = w.rotate() // without it the old file grows: no line is lost
	}
	if w.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := w.file.Write(line)
	w.size += int64(n)
	if n > 0 {
		w.torn = n < len(line)
	}
	return errors.Join(rotated, err)
}

// record gives the line as it is written.
func (w *Writer) record(text []byte) []byte {
	if e := Parse(w.role, text); !e.Time.IsZero() {
		return append(append(make([]byte, 0, len(text)+1), text...), '\n')
	}
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil { // bytes that are no UTF-8: quoted holds stand-ins for them
		quoted, _ = jsontext.AppendQuote(nil, []byte(string([]rune(string(text)))))
	}
	line := append([]byte(`{"time":"`), w.now().Format(time.RFC3339Nano)...)
	line = append(line, `","daemon":`...)
	line, _ = jsontext.AppendQuote(line, w.role)
	line = append(line, `,"text":`...)
	return append(append(line, quoted...), '}', '\n')
}

// rotate goes on in a fresh file. Each step is a rename, so that a file has its
// name or the next, and never none; the writer leaves the old file before
// anything is in the new one.
func (w *Writer) rotate() error {
	for n := Kept; n > 0; n-- {
		if err := os.Rename(old(w.path, n-1), old(w.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	was := w.file
	if err := w.open(); err != nil {
		w.file = was
		return err
	}
	return was.Close()
}

// Close ends the writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return f.Close()
}
