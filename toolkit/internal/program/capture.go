package program

import (
	"os"
	"time"
)

// A capture reads a pipe to its end and keeps its beginning and its end, each
// half of the limit: the cause of a failure stands in one of them.
type capture struct {
	r    *os.File
	done chan struct{}

	head  []byte
	tail  []byte // a ring, if full
	at    int    // where the ring begins
	half  int
	total int64
}

// newCapture returns a capture and the end of the pipe for the program.
func newCapture(limit int64) (*capture, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &capture{r: r, done: make(chan struct{}), half: int(limit+1) / 2}, w, nil
}

func (c *capture) begin() {
	go func() {
		defer close(c.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := c.r.Read(buf)
			c.add(buf[:n])
			if err != nil {
				return
			}
		}
	}()
}

// linger is how long a pipe may be held open by somebody who was not killed.
// In a container there is nobody.
const linger = time.Second

// end waits for the pipe's end.
func (c *capture) end() {
	if !first() {
		_ = c.r.SetReadDeadline(time.Now().Add(linger))
	}
	<-c.done
	_ = c.r.Close()
}

func (c *capture) add(b []byte) {
	c.total += int64(len(b))
	if n := min(c.half-len(c.head), len(b)); n > 0 {
		c.head = append(c.head, b[:n]...)
		b = b[n:]
	}
	if over := len(b) - c.half; over > 0 {
		b = b[over:]
	}
	if n := min(c.half-len(c.tail), len(b)); n > 0 {
		c.tail = append(c.tail, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(c.tail[c.at:], b)
		c.at = (c.at + n) % len(c.tail)
		b = b[n:]
	}
}

// parts returns what was kept, and how many bytes lie between.
func (c *capture) parts() (head, tail []byte, gone int64) {
	tail = append(append([]byte{}, c.tail[c.at:]...), c.tail[:c.at]...)
	return c.head, tail, c.total - int64(len(c.head)) - int64(len(tail))
}
