// Package prompt asks the owner on a terminal.
//
// It guarantees that what is typed for [Hidden] is not echoed and that the
// terminal echoes again afterwards, also after Ctrl-C; and that nothing typed on a
// terminal before [Yes] asked is taken for the answer. [Hidden] needs a terminal.
package prompt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// ErrInterrupted reports Ctrl-C.
var ErrInterrupted = errors.New("prompt: interrupted")

// Hidden asks for a line that is not echoed.
func Hidden(in *os.File, out io.Writer, question string) (string, error) {
	before, err := term.GetState(in.Fd())
	if err != nil {
		return "", err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	if _, err := fmt.Fprint(out, question); err != nil {
		return "", err
	}
	type answer struct {
		text []byte
		err  error
	}
	ch := make(chan answer, 1)
	go func() { // a read of a terminal can't be woken: it ends with the program
		b, err := term.ReadPassword(in.Fd())
		ch <- answer{b, err}
	}()
	select {
	case a := <-ch:
		fmt.Fprintln(out)
		return string(a.text), a.err
	case <-interrupts:
		fmt.Fprintln(out)
		return "", errors.Join(ErrInterrupted, term.Restore(in.Fd(), before))
	}
}

// Line asks for a line, without the spaces around it. What is typed behind it stays
// for the next question. The end of input in the place of a line is [io.EOF].
func Line(in io.Reader, out io.Writer, question string) (string, error) {
	if _, err := fmt.Fprint(out, question); err != nil {
		return "", err
	}
	var line []byte
	for one := make([]byte, 1); len(line) < 4<<10; {
		n, err := in.Read(one)
		if n > 0 && one[0] == '\n' {
			break
		}
		line = append(line, one[:n]...)
		if err != nil {
			fmt.Fprintln(out) //nolint:errcheck // the error that is returned says more
			return "", err
		}
	}
	return strings.TrimSpace(string(line)), nil
}

// Yes asks a question; only an answer that is "y" or "yes" is one.
func Yes(in io.Reader, out io.Writer, question string) (bool, error) {
	if f, ok := in.(*os.File); ok { // what is no terminal refuses that, and loses nothing
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH)
	}
	line, err := Line(in, out, question+" [y/N] ")
	if errors.Is(err, io.EOF) { // the end, without Enter
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		return true, nil
	default:
		return false, nil
	}
}
