package logs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A source reads the files of one role from a place on, oldest first, and goes
// on in the next file when the writer has left one.
type source struct {
	role  string
	path  string
	files []*os.File // still to be read; the first one is being read
	at    int64      // where to read on in the first
	buf   []byte     // read, and not given out: the start of a line
	last  time.Time  // of the last line that had one
}

// openSource opens what there is of a role now, at its start.
func openSource(dir, role string) (*source, error) {
	s := &source{role: role, path: Path(dir, role)}
	// Newest first: a rotation meanwhile shows a file again, and skips none.
	for n := 0; n <= Kept; n++ {
		f, err := openLog(old(s.path, n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			s.close()
			return nil, err
		case len(s.files) > 0 && sameFile(f, s.files[0]):
			_ = f.Close()
			continue
		}
		s.files = append([]*os.File{f}, s.files...)
	}
	return s, nil
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func sameFile(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

func (s *source) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
}

// tail skips all but the last n lines.
func (s *source) tail(n int) error {
	for i := len(s.files) - 1; i >= 0; i-- {
		at, found, err := tailOf(s.files[i], n)
		if err != nil {
			return err
		}
		if n -= found; n <= 0 {
			for _, f := range s.files[:i] {
				_ = f.Close()
			}
			s.files, s.at = s.files[i:], at
			return nil
		}
	}
	return nil
}

// tailOf gives where the last n lines of a file begin, and how many there are.
// What stands behind the last line end counts as a line.
func tailOf(f *os.File, n int) (at int64, found int, err error) {
	st, err := f.Stat()
	if err != nil || n <= 0 {
		if err == nil {
			at = st.Size()
		}
		return at, 0, err
	}
	block := make([]byte, 64<<10)
	end := st.Size()
	for end > 0 {
		from := max(0, end-int64(len(block)))
		b := block[:end-from]
		if _, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != '\n' || from+int64(i) == st.Size()-1 {
				continue
			}
			if found++; found == n {
				return from + int64(i) + 1, found, nil
			}
		}
		end = from
	}
	if st.Size() > 0 {
		found++
	}
	return 0, found, nil
}

// next gives the next line; false if there is none now.
func (s *source) next() (Entry, bool, error) {
	for {
		line, ok, err := s.line()
		if err != nil || !ok {
			return Entry{}, false, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		e := Parse(s.role, line)
		if e.Time.IsZero() {
			e.Time = s.last // it stands behind the one before
		} else {
			s.last = e.Time
		}
		return e, true, nil
	}
}

func (s *source) line() ([]byte, bool, error) {
	for seen := 0; len(s.files) > 0; {
		if i := bytes.IndexByte(s.buf[seen:], '\n'); i >= 0 {
			line := s.buf[:seen+i]
			s.buf = s.buf[seen+i+1:]
			return line, true, nil
		}
		seen = len(s.buf)
		more, err := s.fill()
		if err != nil {
			return nil, false, err
		}
		if more {
			continue
		}
		if len(s.files) == 1 {
			return nil, false, nil
		}
		if rest := s.leave(); len(rest) > 0 {
			return rest, true, nil
		}
		seen = 0
	}
	return nil, false, nil
}

// leave goes on to the next file and gives what stood behind the last line end.
func (s *source) leave() []byte {
	rest := s.buf
	_ = s.files[0].Close()
	s.files, s.at, s.buf = s.files[1:], 0, nil
	return rest
}

// rest gives an unfinished last line, for a reader that won't wait for its end.
func (s *source) rest() (Entry, bool) {
	if len(bytes.TrimSpace(s.buf)) == 0 {
		return Entry{}, false
	}
	e := Parse(s.role, s.buf)
	if e.Time.IsZero() {
		e.Time = s.last
	}
	s.buf = nil
	return e, true
}

// fill reads on in the first file. A file that is shorter than what was read
// has been emptied by hand: it is read from its start.
func (s *source) fill() (bool, error) {
	block := make([]byte, 64<<10)
	n, err := s.files[0].ReadAt(block, s.at)
	if n > 0 {
		s.at += int64(n)
		s.buf = append(s.buf, block[:n]...)
		return true, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	st, err := s.files[0].Stat()
	if err != nil {
		return false, err
	}
	if st.Size() < s.at {
		s.at, s.buf = 0, nil
		return st.Size() > 0, nil
	}
	return false, nil
}

// rush gives all lines that have come, over rotations.
func (s *source) rush() ([]Entry, error) {
	var out []Entry
	for {
		e, ok, err := s.next()
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, e)
			continue
		}
		if more, err := s.follow(); err != nil || !more {
			return out, err
		}
	}
}

// follow looks for the file after the one being read, for a source that is at
// its end. It reports whether there is more to read. The writer leaves a file
// before it writes to the next, so all of the old one is read then.
func (s *source) follow() (bool, error) {
	if len(s.files) == 0 {
		f, err := openLog(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		s.files, s.at = []*os.File{f}, 0
		return true, nil
	}
	for range 10 { // as long as rotations come between
		n, err := s.number()
		if err != nil || n == 0 {
			return false, err
		}
		f, err := openLog(old(s.path, n-1))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // just being made
		}
		if err != nil {
			return false, err
		}
		if again, err := s.number(); err == nil && again == n {
			s.files = append(s.files, f)
			return true, nil
		}
		_ = f.Close()
	}
	return false, nil
}

// number tells which file is being read: 0 for the one that is written to. One
// that is gone counts as the one before the oldest.
func (s *source) number() (int, error) {
	mine, err := s.files[0].Stat()
	if err != nil {
		return 0, err
	}
	oldest := 0
	for n := 0; n <= Kept; n++ {
		st, err := os.Lstat(old(s.path, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if os.SameFile(st, mine) {
			return n, nil
		}
		oldest = n + 1
	}
	return oldest, nil
}
