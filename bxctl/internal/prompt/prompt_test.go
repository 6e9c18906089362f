package prompt

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Only a clear yes is one.
func TestYes(t *testing.T) {
	for in, want := range map[string]bool{
		"y\n": true, "Yes\n": true, " y \n": true, "\n": false, "n\n": false, "yep\n": false, "y": false, "": false,
		"yes please\n": false, strings.Repeat("y", 5000) + "\n": false, "\xffy\n": false,
	} {
		var out bytes.Buffer
		got, err := Yes(strings.NewReader(in), &out, "Sure?")
		if err != nil || got != want || !strings.HasPrefix(out.String(), "Sure? [y/N] ") {
			t.Errorf("%.20q: %v, %v, said %q", in, got, err, out.String())
		}
	}
	if _, err := Yes(broken{}, &bytes.Buffer{}, "Sure?"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, os.ErrClosed }

// openPTY gives both ends of a terminal.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s.Lflag&unix.ECHO != 0
}

// What is typed is not shown, is given back, and the terminal echoes again.
func TestHidden(t *testing.T) {
	master, slave := openPTY(t)
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	var out bytes.Buffer
	go func() {
		text, err := Hidden(slave, &out, "Secret: ")
		got <- answer{text, err}
	}()
	for echoes(t, slave) {
		time.Sleep(time.Millisecond) // a terminal's mode has no wait
	}
	if _, err := master.WriteString("hunter2 é\n"); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.err != nil || a.text != "hunter2 é" {
		t.Errorf("%q, %v", a.text, a.err)
	}
	if !echoes(t, slave) {
		t.Error("the terminal does not echo any more")
	}
	if out.String() != "Secret: \n" {
		t.Errorf("said %q", out.String())
	}
	if _, err := slave.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := master.Read(b)
	if err != nil || strings.Contains(string(b[:n]), "hunter") {
		t.Errorf("the terminal showed %q, %v", b[:n], err)
	}
}

func TestHiddenNeedsATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := Hidden(r, &bytes.Buffer{}, "Secret: "); err == nil {
		t.Error("a pipe was taken for a terminal")
	}
}

// What was typed before the question stood there is no answer to it.
func TestYesTypedBefore(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                bool
	}{
		{"yes before, no after", "y\n", "n\n", false},
		{"no before, yes after", "n\n", "y\n", true},
		{"half a line before", "y", "\n", false},
		{"half a word before", "n", "yes\n", true},
		{"nothing before", "", "y\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			master, slave := openPTY(t)
			if _, err := master.WriteString(c.before); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 100)
			if c.before != "" { // what is echoed has been taken in
				if _, err := master.Read(b); err != nil {
					t.Fatal(err)
				}
			}
			got := make(chan bool, 1)
			go func() {
				ok, err := Yes(slave, slave, "Sure?")
				got <- ok && err == nil
			}()
			for seen := ""; !strings.Contains(seen, "[y/N] "); {
				n, err := master.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				seen += string(b[:n])
			}
			if _, err := master.WriteString(c.after); err != nil {
				t.Fatal(err)
			}
			if ok := <-got; ok != c.want {
				t.Errorf("%v, want %v", ok, c.want)
			}
		})
	}
}

// A line is read to its end and not a byte beyond it: the next question has its own.
func TestLine(t *testing.T) {
	in := strings.NewReader("  one \r\n\ntwo\nrest")
	var out bytes.Buffer
	for _, want := range []string{"one", "", "two"} {
		if got, err := Line(in, &out, "? "); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if got, err := Line(in, &out, "? "); !errors.Is(err, io.EOF) || got != "" {
		t.Errorf("the end of input: %q, %v", got, err)
	}
	if got, err := Line(strings.NewReader(strings.Repeat("x", 9000)), &out, "? "); err != nil || len(got) != 4<<10 {
		t.Errorf("a line without an end: %d bytes, %v", len(got), err)
	}
	if _, err := Line(broken{}, &out, "? "); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
