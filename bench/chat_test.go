package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"boxmaker/e2e/stack"

	"golang.org/x/sys/unix"
)

// chatFigures measures the chat on a terminal: what painting costs at 200
// tokens a second, and how long a session of 10,000 messages takes to open.
func chatFigures(t *testing.T) []row {
	return slices.Concat(chatPainting(t), tokenToPaint(t), chatOpening(t))
}

func chatPainting(t *testing.T) []row {
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "200"})
	s.Up()
	c := startChat(t, s)
	c.wait(t, "/help")
	c.keys(t, fmt.Sprintf("say %d words\r", pick(1500, 10)))
	c.wait(t, "the box holds")
	busy, start := cpu(t, c.cmd.Process.Pid), time.Now()
	c.wait(t, "tokens written")
	share := float64(cpu(t, c.cmd.Process.Pid)-busy) / float64(time.Since(start))
	c.leave(t)
	return []row{{
		"chat at 200 tokens/s, of one core", fmt.Sprintf("%.0f%%", share*100), "<= 20%", share <= 0.2, "of the process bxctl chat",
	}}
}

func chatOpening(t *testing.T) []row {
	s, _ := recorded(t)
	s.Say("chat-bench-model", "bench-model", "hello")
	s.Down()
	messages := pick(10_000, 20)
	longSession(t, s, "chat-bench-huge", messages, pick(50<<20, 20<<10))
	s.Up()
	var times []time.Duration
	most := 0.0
	for range pick(5, 1) {
		start := time.Now()
		c := startChat(t, s, "--session", "chat-bench-huge")
		c.wait(t, "── session chat-bench-huge")
		times = append(times, time.Since(start))
		most = max(most, memory(t, c.cmd.Process.Pid, "status", "VmHWM:"))
		c.leave(t)
	}
	d := median(times)
	return []row{
		{fmt.Sprintf("chat --session with %d messages, until they are seen", messages), fmt.Sprintf("%.3f s", d.Seconds()), "<= 0.5 s", d <= 500*time.Millisecond, "from the start of bxctl"},
		{"the same, memory at its highest", fmt.Sprintf("%.0f MB", most), "<= 80 MB", most <= 80, ""},
	}
}

// chat is a `bxctl chat` on a pseudo-terminal.
type chat struct {
	cmd    *exec.Cmd
	master *os.File
	seen   bytes.Buffer
}

func startChat(t *testing.T, s *stack.Stack, args ...string) *chat {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT RUN: there are no pseudo-terminals here: %v", err)
	}
	n := must[int](t)(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))
	for _, err := range []error{
		unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	slave := must[*os.File](t)(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))
	defer slave.Close()
	c := &chat{cmd: s.Command(t.Context(), append([]string{"chat"}, args...)...), master: master}
	c.cmd.Env = append(c.cmd.Env, "TERM=xterm-256color")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	return c
}

func (c *chat) keys(t *testing.T, s string) {
	t.Helper()
	must[int](t)(c.master.WriteString(s))
}

// wait reads what the chat draws until text came.
func (c *chat) wait(t *testing.T, text string) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for {
		if i := bytes.Index(c.seen.Bytes(), []byte(text)); i >= 0 {
			c.seen.Next(i + len(text))
			return
		}
		n, err := c.master.Read(buf)
		if err != nil {
			t.Fatalf("the chat ended before %q came: %v; %q", text, err, c.seen.String())
		}
		c.seen.Write(buf[:n])
	}
}

func (c *chat) leave(t *testing.T) {
	t.Helper()
	c.keys(t, "\x04")
	c.wait(t, "Go on later")
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
