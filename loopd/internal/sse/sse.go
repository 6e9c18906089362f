// Package sse reads a stream of server-sent events as llama-server writes it.
//
// It is stricter than the HTML standard where leniency would hide a fault: a
// stream that ends without its end mark is an error, and so are invalid UTF-8, a
// lone carriage return and an event over the size limit. An oversized event is
// refused before it is in memory. Fields other than data are skipped; what the
// data means is the caller's business.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

var (
	// ErrTooLarge reports an event or a line over the limit.
	ErrTooLarge = errors.New("sse: event too large")
	// ErrEncoding reports data that is not UTF-8.
	ErrEncoding = errors.New("sse: not UTF-8")
	// ErrForm reports a carriage return inside a line.
	ErrForm = errors.New("sse: stray carriage return")
)

// done is the data of the event that ends a stream (llama-server, OpenAI).
const done = "[DONE]"

// Event is one event of data, or a comment, which servers send as a sign of life.
type Event struct {
	Data    []byte // lines joined by a newline; valid until the next call of Next
	Comment bool   // Data is empty
}

// Reader reads events. It is not safe for concurrent use.
type Reader struct {
	r     *bufio.Reader
	max   int
	err   error  // of the first failure, for good
	long  []byte // a line that does not fit r's buffer
	data  []byte // of the event being read
	lines int    // of data in it
	size  int    // bytes of its lines, skipped fields included
	begun bool   // the first line has been read
	given bool   // data has been handed out
}

// NewReader reads events of at most maxEvent bytes from r.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 16<<10), max: maxEvent}
}

// Next returns the next event. After the end mark it returns io.EOF; a stream
// that ends before it gives io.ErrUnexpectedEOF. Other errors of the underlying
// reader come back as they are. After an error there is nothing more to read.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	ev, err := r.next()
	if err != nil {
		r.err = err
		r.data, r.long = nil, nil
	}
	return ev, err
}

func (r *Reader) next() (Event, error) {
	if r.given {
		r.given, r.data, r.lines, r.size = false, r.data[:0], 0, 0
	}
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		switch {
		case len(line) == 0:
			if r.lines == 0 {
				r.size = 0
				continue
			}
			r.given = true
			if string(r.data) == done {
				return Event{}, io.EOF
			}
			return Event{Data: r.data}, nil
		case line[0] == ':':
			return Event{Comment: true}, nil
		default:
			if err := r.field(line); err != nil {
				return Event{}, err
			}
		}
	}
}

// field takes in one line of an event.
func (r *Reader) field(line []byte) error {
	if r.size += len(line); r.size > r.max {
		return ErrTooLarge
	}
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	switch {
	case ok:
		value = bytes.TrimPrefix(value, []byte(" "))
	case string(line) == "data": // a field without a colon has an empty value
		value = nil
	default:
		return nil
	}
	if !utf8.Valid(value) {
		return ErrEncoding
	}
	if r.lines > 0 {
		r.data = append(r.data, '\n')
	}
	r.data = append(r.data, value...)
	r.lines++
	return nil
}

// line reads one line, without its end. It is valid until the next read.
func (r *Reader) line() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = r.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(r.long)+len(line) > r.max {
				return nil, ErrTooLarge
			}
			r.long = append(r.long, line...)
			line, err = r.r.ReadSlice('\n')
		}
		r.long = append(r.long, line...)
		line = r.long
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	line = line[:len(line)-1]
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case len(line) > r.max:
		return nil, ErrTooLarge
	case bytes.IndexByte(line, '\r') >= 0:
		return nil, ErrForm
	}
	return line, nil
}
