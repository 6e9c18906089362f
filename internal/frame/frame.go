// Package frame carries documents over a stream socket: a 4-byte big-endian
// length, then that many bytes. It knows nothing of what the bytes say.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxBytes caps one document. It is checked before anything is allocated.
const MaxBytes = 4 << 20

// firstPiece is what memory is taken for when the length is known; most frames are
// smaller.
const firstPiece = 64 << 10

var (
	// ErrTooLarge reports a length over [MaxBytes]. After it the stream is unusable.
	ErrTooLarge = errors.New("frame: too large")
	// ErrEmpty reports a length of zero.
	ErrEmpty = errors.New("frame: empty")
)

// Append appends body as one frame to dst.
func Append(dst, body []byte) ([]byte, error) {
	switch {
	case len(body) == 0:
		return dst, ErrEmpty
	case len(body) > MaxBytes:
		return dst, ErrTooLarge
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...), nil
}

// Write writes body as one frame in a single Write call.
func Write(w io.Writer, body []byte) error {
	buf, err := Append(make([]byte, 0, 4+len(body)), body)
	if err != nil {
		return err
	}
	if _, err := w.Write(buf); err != nil {
		return fmt.Errorf("frame: write: %w", err)
	}
	return nil
}

// Read reads one frame. It returns io.EOF only between frames; a stream that
// ends inside one gives io.ErrUnexpectedEOF.
func Read(r io.Reader) ([]byte, error) {
	return ReadIf(r, func(int) error { return nil })
}

// ReadIf is Read of a frame for whose bytes memory is taken piece by piece, as they
// come: a length alone takes none. Each piece of n bytes is agreed to first. An error
// of agree is returned, and the stream is unusable.
func ReadIf(r io.Reader, agree func(n int) error) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err // io.EOF and io.ErrUnexpectedEOF as they are
	}
	n := binary.BigEndian.Uint32(head[:])
	switch {
	case n == 0:
		return nil, ErrEmpty
	case n > MaxBytes:
		return nil, ErrTooLarge
	}
	var body []byte
	for piece := firstPiece; len(body) < int(n); piece = 3 * len(body) {
		piece = min(piece, int(n)-len(body))
		if err := agree(piece); err != nil {
			return nil, err
		}
		have := len(body)
		body = slices.Grow(body, piece)[:have+piece]
		if _, err := io.ReadFull(r, body[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return body, nil
}
