package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
)

// maxCount is how far a file is read on only to count its lines, in bytes.
const maxCount = 64 << 20

// Read is read_file. Of a file that fits it returns exactly its text.
func Read(ctx context.Context, w Work, a *tool.ReadFile) tool.Output {
	place, err := w.Tree.Find(a.Path)
	if err != nil {
		return Failed(err)
	}
	defer place.Close()
	f, info, err := place.OpenFile()
	if err != nil {
		return Failed(err)
	}
	defer f.Close()
	r := &reader{ctx: ctx, br: bufio.NewReaderSize(f, 64<<10), page: w.page()}
	head, err := r.br.Peek(sniff)
	if err != nil && !errors.Is(err, io.EOF) {
		return Failed(fmt.Errorf("%s cannot be read", a.Path))
	}
	if kind := binary(head); kind != "" {
		return Failed(fmt.Errorf("%s is %s of %d bytes, which %s does not read", a.Path, kind, info.Size(), tool.NameReadFile))
	}
	if len(head) == 0 {
		return tool.Output{Text: "[the file is empty]"}
	}
	if err := r.skip(a); err != nil {
		return Failed(err)
	}
	if err := r.lines(a); err != nil {
		return Failed(err)
	}
	return r.output(a, info.Size())
}

// reader goes through a file line by line, without holding one.
type reader struct {
	ctx  context.Context
	br   *bufio.Reader
	page *tooltext.Page

	pos    int64 // bytes that were read
	line   int64 // number of the line in which pos lies
	last   int64 // last line that is on the page, whole or in part
	cut    int64 // if not 0: column at which the page ends inside that line
	end    bool  // the file's end was reached
	full   bool  // the page is
	stuffy bool  // some bytes are shown as \xNN
}

// piece returns the next part of a line, up to the line break, and whether it
// ends the line. It does not end inside a character.
func (r *reader) piece() ([]byte, bool, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, false, err
	}
	b, err := r.br.Peek(1)
	if len(b) == 0 {
		return nil, false, err
	}
	b, _ = r.br.Peek(r.br.Buffered())
	if len(b) < utf8.UTFMax { // a few bytes before the end of the buffer
		b, _ = r.br.Peek(utf8.UTFMax)
	}
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], true, nil
	}
	for n := 1; n < utf8.UTFMax && n < len(b); n++ { // the start of a cut character
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				b = b[:len(b)-n]
			}
			break
		}
	}
	return b, false, nil
}

func (r *reader) take(n int) {
	_, _ = r.br.Discard(n) // they are in the buffer
	r.pos += int64(n)
}

// skip goes to where the page begins.
func (r *reader) skip(a *tool.ReadFile) error {
	r.line = 1
	for r.line < a.Offset {
		b, ends, err := r.piece()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s has only %d lines", a.Path, r.line)
		}
		if err != nil {
			return err
		}
		r.take(len(b))
		if ends {
			r.line++
		}
	}
	if _, err := r.br.Peek(1); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s has only %d lines", a.Path, r.line-1)
	}
	for left := a.Column - 1; left > 0; {
		b, ends, err := r.piece()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil || ends && int64(len(b)) <= left {
			return fmt.Errorf("line %d of %s has fewer than %d bytes", a.Offset, a.Path, a.Column)
		}
		n := min(int64(len(b)), left)
		r.take(int(n))
		left -= n
	}
	return nil
}

// lines fills the page.
func (r *reader) lines(a *tool.ReadFile) error {
	col := a.Column
	for n := int64(0); n < a.Limit && !r.full; n++ {
		if _, err := r.br.Peek(1); errors.Is(err, io.EOF) {
			r.end = true
			return nil
		}
		if err := r.oneLine(a, col, n == 0); err != nil {
			return err
		}
		col = 1
	}
	if _, err := r.br.Peek(1); errors.Is(err, io.EOF) {
		r.end = true
	}
	return nil
}

// oneLine puts a whole line on the page, or none of it; only of the first line
// of a page a part is better than nothing.
func (r *reader) oneLine(a *tool.ReadFile, col int64, first bool) error {
	var line strings.Builder
	if a.Numbers {
		fmt.Fprintf(&line, "%d\t", r.line)
	}
	for {
		b, ends, err := r.piece()
		if errors.Is(err, io.EOF) {
			r.end, ends, b = true, true, nil
		} else if err != nil {
			return err
		}
		s, bad := tooltext.Clean(b)
		if r.page.Fits(line.String()+s, 0) {
			line.WriteString(s)
			r.take(len(b))
			col += int64(len(b))
			r.stuffy = r.stuffy || bad
			if ends {
				r.page.Add(line.String())
				r.last = r.line
				r.line++
				return nil
			}
			continue
		}
		r.full = true
		if !first {
			r.pos -= col - 1 // nothing of this line is shown
			return nil
		}
		for len(b) > 0 {
			_, n := utf8.DecodeRune(b)
			s, bad := tooltext.Clean(b[:n])
			if !r.page.Fits(line.String()+s, 0) {
				break
			}
			line.WriteString(s)
			r.take(n)
			col += int64(n)
			r.stuffy = r.stuffy || bad
			b = b[n:]
		}
		r.page.Add(line.String())
		r.last, r.cut = r.line, col
		return nil
	}
}

// total counts on to the end of the file, if that is not far.
func (r *reader) total(partly bool) (int64, bool) {
	n, read := r.line-1, int64(0)
	open := partly
	for read < maxCount {
		b, ends, err := r.piece()
		if errors.Is(err, io.EOF) {
			if open {
				n++
			}
			return n, true
		}
		if err != nil {
			return n, false
		}
		_, _ = r.br.Discard(len(b))
		read += int64(len(b))
		open = !ends
		if ends {
			n++
		}
	}
	return n, false
}

func (r *reader) output(a *tool.ReadFile, size int64) tool.Output {
	out := tool.Output{}
	page := tooltext.NewPage(1 << 40)
	page.Add(r.page.String())
	if r.full {
		out.Dropped = max(0, size-r.pos)
	}
	if !r.end || a.Offset > 1 || a.Column > 1 {
		of := ""
		if n, known := r.total(r.cut > 0); known {
			of = fmt.Sprintf(" of %d", n)
		}
		note := fmt.Sprintf("[lines %d-%d%s", a.Offset, r.last, of)
		switch {
		case r.last < a.Offset:
			note = fmt.Sprintf("[the limit of this result leaves no room for line %d", a.Offset)
		case r.cut > 0:
			note += fmt.Sprintf("; line %d goes on, read on with offset %d and column %d", r.last, r.last, r.cut)
		case r.end:
			note += ", the end of the file"
		default:
			note += fmt.Sprintf("; read on with offset %d", r.last+1)
		}
		page.Line(note + "]")
	}
	if r.stuffy {
		page.Line(`[bytes that are not UTF-8 text are shown like \xE9]`)
	}
	out.Text = page.String()
	return out
}
