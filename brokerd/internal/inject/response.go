package inject

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"boxmaker/internal/proxyreq"
)

// Bounds of a response's head, and the shortest value that is looked for in
// bodies: a shorter one would be found in every text.
const (
	maxHead    = 64 << 10
	minValue   = 6
	hiddenText = "[secret]"
)

// respond passes a response on, without values. An error means that nothing
// was passed on yet.
func respond(to io.Writer, from io.Reader, values []string) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var head []byte
	for {
		var status int
		var err error
		if head, status, err = readHead(in, values); err != nil {
			return err
		}
		if status == 101 {
			return errors.New("inject: the server changed the protocol")
		}
		if status >= 200 {
			break
		}
	}
	if _, err := to.Write(head); err != nil {
		return nil // the client is gone
	}
	m := masker{to: to, values: slices.DeleteFunc(slices.Clone(values), func(v string) bool { return len(v) < minValue })}
	if _, err := io.CopyBuffer(&m, struct{ io.Reader }{in}, make([]byte, 64<<10)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		_ = m.flush() // a client that is gone needs no rest
	}
	return nil
}

// readHead reads the head of a response and writes it anew.
func readHead(in *bufio.Reader, values []string) (head []byte, status int, err error) {
	first, err := readLine(in)
	if err != nil {
		return nil, 0, err
	}
	var minor int
	if n, err := fmt.Sscanf(first, "HTTP/1.%1d %3d", &minor, &status); err != nil || n != 2 || status < 100 {
		return nil, 0, errors.New("inject: not an HTTP response")
	}
	head = fmt.Appendf(nil, "HTTP/1.1 %d \r\n", status) // without the server's own words
	size := len(first)
	for {
		line, err := readLine(in)
		if err != nil {
			return nil, 0, err
		}
		if line == "" {
			return append(head, "Connection: close\r\n\r\n"...), status, nil
		}
		if size += len(line); size > maxHead {
			return nil, 0, errors.New("inject: the head of the response is too large")
		}
		name, value, ok := strings.Cut(line, ":")
		f := proxyreq.Field{Name: name, Value: strings.Trim(value, " \t")}
		if !ok || !f.Valid() || dropped(name) {
			continue // a line that is no field could only confuse
		}
		for _, v := range values {
			f.Value = strings.ReplaceAll(f.Value, v, hiddenText)
			if strings.Contains(strings.ToLower(f.Name), strings.ToLower(v)) {
				f.Name = "X-Removed"
			}
		}
		head = fmt.Appendf(head, "%s: %s\r\n", f.Name, f.Value)
	}
}

// dropped: what is between this connection's ends, or would look like a word
// of egressd.
func dropped(name string) bool {
	return slices.Contains([]string{"connection", "keep-alive", "proxy-authenticate", "proxy-connection", "upgrade", "alt-svc", strings.ToLower(proxyreq.VerdictHeader)}, strings.ToLower(name))
}

// readLine gives a line without its end.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("inject: head of the response: %w", err)
	}
	return string(bytes.TrimRight(line, "\r\n")), nil
}

// A masker writes on what it is given with every value made unreadable. The
// length stays, so that the framing of the body does.
type masker struct {
	to     io.Writer
	values []string
	held   []byte // the end of what came, where a value may begin
}

func (m *masker) Write(p []byte) (int, error) {
	m.held = append(m.held, p...)
	keep := 0
	for _, v := range m.values {
		for i := bytes.Index(m.held, []byte(v)); i >= 0; i = bytes.Index(m.held, []byte(v)) {
			copy(m.held[i:], bytes.Repeat([]byte{m.filler()}, len(v)))
		}
		for n := min(len(v)-1, len(m.held)); n > keep; n-- {
			if strings.HasPrefix(v, string(m.held[len(m.held)-n:])) {
				keep = n
			}
		}
	}
	if _, err := m.to.Write(m.held[:len(m.held)-keep]); err != nil {
		return 0, err
	}
	m.held = append(m.held[:0], m.held[len(m.held)-keep:]...)
	return len(p), nil
}

// filler is a character that is in no value: what is put in place of one can
// then not be a part of another.
func (m *masker) filler() byte {
	all := strings.Join(m.values, "")
	for _, c := range []byte("*#-.0123456789abcdefghijklmnopqrstuvwxyz") {
		if strings.IndexByte(all, c) < 0 {
			return c
		}
	}
	return 0 // which no value has
}

// flush writes the rest.
func (m *masker) flush() error {
	_, err := m.to.Write(m.held)
	m.held = nil
	return err
}
