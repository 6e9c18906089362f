// Package history keeps what the owner typed, for the next chat.
//
// The file holds one JSON string a line, mode 0600. Several chats may write it
// at once: a line is written in one piece at its end. It is a convenience: a
// line that can't be read is passed over, and the file is cut to the newest
// [Keep] entries when it grows to twice as many.
package history

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/durable"

	"github.com/go-json-experiment/json"
)

// Keep is how many entries outlive a chat.
const Keep = 1000

// maxFile bounds what is read, in bytes from the end.
const maxFile = 4 << 20

// A History is the entries and the place in them. The zero value has none and
// no file.
type History struct {
	path    string
	entries []string
	at      int    // entry shown; len(entries): the draft
	draft   string // what was typed before Up
}

// Open reads the file at path, which may not exist yet.
func Open(path string) (*History, error) {
	h := &History{path: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-maxFile), io.SeekStart)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	h.entries = parse(b)
	lines := len(h.entries)
	if lines > Keep {
		h.entries = h.entries[lines-Keep:]
	}
	h.Reset()
	if err == nil && lines > 2*Keep {
		err = h.rewrite()
	}
	return h, err
}

func parse(b []byte) []string {
	var out []string
	for line := range bytes.Lines(b) {
		var s string
		if json.Unmarshal(bytes.TrimSpace(line), &s) == nil && s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Add appends an entry, unless it is the last one again.
func (h *History) Add(text string) error {
	h.draft = ""
	defer h.Reset()
	if n := len(h.entries); strings.TrimSpace(text) == "" || n > 0 && h.entries[n-1] == text {
		return nil
	}
	h.entries = append(h.entries, text)
	if h.path == "" {
		return nil
	}
	line, err := json.Marshal(text)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Chmod(0o600), f.Close())
}

func (h *History) rewrite() error {
	var b bytes.Buffer
	for _, s := range h.entries {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	root, err := os.OpenRoot(filepath.Dir(h.path))
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.WriteFile(root, filepath.Base(h.path), b.Bytes(), 0o600)
}

// Reset goes back to the draft.
func (h *History) Reset() { h.at = len(h.entries) }

// Up gives the entry before; now is what stands in the editor.
func (h *History) Up(now string) (string, bool) {
	if h.at == 0 {
		return "", false
	}
	if h.at == len(h.entries) {
		h.draft = now
	}
	h.at--
	return h.entries[h.at], true
}

// Down gives the entry behind, or in the end the draft.
func (h *History) Down() (string, bool) {
	if h.at == len(h.entries) {
		return "", false
	}
	if h.at++; h.at == len(h.entries) {
		return h.draft, true
	}
	return h.entries[h.at], true
}
