package stack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Request is one chat request that reached the practice model.
type Request struct {
	Slot int
	Body []byte
}

// Requests reads what `practice -record` wrote, in the order of arrival. A line
// that the end of the program cut short is left out.
func Requests(path string) ([]Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Request
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var r struct {
			Slot int
			Body string
			Raw  []byte
		}
		if json.Unmarshal(line, &r) != nil {
			continue // cut short, and the next life wrote on
		}
		if r.Raw == nil {
			r.Raw = []byte(r.Body)
		}
		out = append(out, Request{r.Slot, r.Raw})
	}
}

// Extends reports whether the body next is the body before with something
// added, or the same once more: less their closing "]}", one is the start of the
// other.
func Extends(before, next []byte) error {
	a, ok := bytes.CutSuffix(before, []byte("]}"))
	b, ok2 := bytes.CutSuffix(next, []byte("]}"))
	if !ok || !ok2 {
		return errors.New("a body does not end in ]}")
	}
	if bytes.HasPrefix(b, a) {
		return nil
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	near := func(s []byte) string { return string(s[max(0, i-40):min(len(s), i+40)]) }
	return fmt.Errorf("the bodies differ at byte %d of %d: %q became %q", i, len(a), near(a), near(b))
}

// Set sets a key that stands in a file of the config folder, commented out or not.
func (s *Stack) Set(file, section, key string, value any) {
	s.TB.Helper()
	path := filepath.Join(s.Layout.Config, file)
	text, err := os.ReadFile(path)
	if err != nil {
		s.TB.Fatal(err)
	}
	literal, err := json.Marshal(value) // of strings, numbers and lists of them, TOML has the same form
	if err != nil {
		s.TB.Fatal(err)
	}
	var out strings.Builder
	at, done := "", false
	for line := range strings.Lines(string(text)) {
		bare := strings.TrimSpace(strings.TrimLeft(line, "# "))
		if name, ok := strings.CutPrefix(line, "["); ok {
			at, _, _ = strings.Cut(name, "]")
		}
		if name, _, ok := strings.Cut(bare, "="); ok && !done && at == section && strings.TrimSpace(name) == key {
			line, done = key+" = "+string(literal)+"\n", true
		}
		out.WriteString(line)
	}
	if !done {
		s.TB.Fatalf("%s has no %s.%s to set", file, section, key)
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		s.TB.Fatal(err)
	}
}
