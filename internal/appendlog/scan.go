package appendlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// A damage says where a log cannot be read, and why.
type damage struct {
	name   string
	line   int64 // from 1
	offset int64 // of the line's first byte
	cause  string
	visit  error // set if the line is whole and the visitor refused it
}

func (d *damage) Error() string {
	if d.visit != nil {
		return fmt.Sprintf("log %s: line %d (at byte %d) is as it was written, but this program does not accept it: %v; "+
			"nothing was changed; use the version that wrote it, or look at the line (see runbook: log-refused)",
			d.name, d.line, d.offset, d.visit)
	}
	return fmt.Sprintf("log %s: line %d (at byte %d) is damaged: %s; nothing was changed; "+
		"put the file back from a backup, or move it away to go on without it (see runbook: log-damaged)",
		d.name, d.line, d.offset, d.cause)
}

// Where says which line (from 1) of a log an error of [Open], [Scan] or [Back]
// that is [ErrCorrupt] is about, and what is wrong with it. The cause is empty
// if the visitor refused the line. Line is 0 where only the offset is known.
func Where(err error) (line, offset int64, cause string, ok bool) {
	var d *damage
	if !errors.As(err, &d) {
		return 0, 0, "", false
	}
	return d.line, d.offset, d.cause, true
}

func (d *damage) Unwrap() []error {
	if d.visit != nil {
		return []error{ErrCorrupt, d.visit}
	}
	return []error{ErrCorrupt}
}

// found is what a scan saw.
type found struct {
	records   int64
	good      int64 // bytes up to the end of the last whole line
	lastStart int64 // where that line begins
}

// splitLine is a bufio.SplitFunc that keeps the line break, so that the caller
// can tell a last line with one from a last line without.
func splitLine(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// scan reads the first size bytes of r. Bytes after found.good are a torn tail.
func scan(r io.ReaderAt, size int64, name string, visit func(int64, []byte) error) (found, error) {
	var f found
	in := bufio.NewScanner(io.NewSectionReader(r, 0, size))
	in.Buffer(make([]byte, 256<<10), MaxRecord+crcLen+1)
	in.Split(splitLine)
	for in.Scan() {
		raw := in.Bytes()
		end := f.good + int64(len(raw))
		line, ok := unsealWhole(raw)
		switch {
		case ok:
		case end < size:
			return f, &damage{name, f.records + 1, f.good, "its checksum does not fit, and it is not the last line", nil}
		case holdsWhole(raw):
			return f, &damage{name, f.records + 1, f.good, "the line break at its end is gone", nil}
		default:
			return f, nil
		}
		if visit != nil {
			if err := visit(f.records, line); err != nil {
				return f, &damage{name, f.records + 1, f.good, "", err}
			}
		}
		f.records, f.lastStart, f.good = f.records+1, f.good, end
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return f, &damage{name, f.records + 1, f.good, fmt.Sprintf("it is longer than %d bytes, and no such line is ever written", MaxRecord), nil}
	case err != nil:
		return f, ownerError("read", name, err)
	}
	return f, nil
}

// openRead opens a log to read. O_NONBLOCK: a pipe under the name must not
// block; it is refused as not regular.
func openRead(root *os.Root, name string) (*os.File, int64, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, ownerError("open", name, err)
	}
	size, err := regularSize(f)
	if err != nil {
		return nil, 0, errors.Join(ownerError("open", name, err), f.Close())
	}
	return f, size, nil
}

// Scan reads a log without a lock and changes nothing. It reads up to the size
// that the file has at the start, so it may run beside a program that appends;
// a line that is just being written is then reported as torn.
func Scan(root *os.Root, name string, visit func(n int64, line []byte) error) (Recovery, error) {
	f, size, err := openRead(root, name)
	if err != nil {
		return Recovery{}, err
	}
	defer f.Close()
	got, err := scan(f, size, name, visit)
	if err != nil {
		return Recovery{Records: got.records}, err
	}
	return Recovery{Records: got.records, Torn: size - got.good}, nil
}

// LastLine returns the last whole line of a log, without its crc member, or nil
// if there is none. It reads from the end, so its cost does not grow with the
// file; lines before the last are not checked. It takes no lock.
func LastLine(root *os.Root, name string) ([]byte, error) {
	return LastOf(root, name, func([]byte) (bool, error) { return true, nil })
}

// LastOf is LastLine for the last of the lines that are wanted.
func LastOf(root *os.Root, name string, want func(line []byte) (bool, error)) ([]byte, error) {
	f, size, err := openRead(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// What follows the last line break, or a last line that is torn inside, is
	// passed over. A second bad line is damage.
	end, bad := size, 0
	for end > 0 {
		raw, err := rawBefore(f, end)
		if err != nil {
			return nil, ownerError("read", name, err)
		}
		line, good := unsealWhole(raw)
		if good {
			bad = 1 // none may follow
			if ok, err := want(line); ok || err != nil {
				return line, err
			}
		} else if bad++; bad > 1 {
			return nil, fmt.Errorf("log %s: %w: no good line at its end (see runbook: log-damaged)", name, ErrCorrupt)
		}
		end -= int64(len(raw))
	}
	return nil, nil
}

// rawBefore returns the bytes of the line that ends at end, its line break
// included if it has one.
func rawBefore(r io.ReaderAt, end int64) ([]byte, error) {
	for window := int64(16 << 10); ; window *= 4 {
		start := max(0, end-window)
		buf := make([]byte, end-start)
		if _, err := r.ReadAt(buf, start); err != nil {
			return nil, err
		}
		if i := bytes.LastIndexByte(buf[:max(0, len(buf)-1)], '\n'); i >= 0 {
			return buf[i+1:], nil
		}
		if start == 0 {
			return buf, nil
		}
		if window > 2*MaxRecord {
			return nil, fmt.Errorf("%w: a line longer than %d bytes", ErrCorrupt, MaxRecord)
		}
	}
}
