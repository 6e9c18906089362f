package up

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/panel"
	"boxmaker/bxctl/internal/report"
	"boxmaker/internal/proto"

	"golang.org/x/sys/unix"
)

const (
	viewLines  = 500 // last lines kept for the picture
	viewPeriod = 500 * time.Millisecond
	clockTicks = 100 // a second, of /proc/<pid>/stat on Linux
)

// viewable reports whether the output is a terminal that can show a picture.
func (s *session) viewable() bool {
	return s.o.Out.InPlace() && s.o.Out.Colour && !s.o.Plain && !s.o.Quiet
}

// A view shows the state in place of lines. It uses the alternate screen, so
// that what stood in the terminal comes back, and takes no keys but Ctrl-C.
type view struct {
	mu    sync.Mutex // guards lines
	lines []panel.Line
	fresh chan struct{} // there are lines to show
}

func (v *view) add(at, role, text string, paint func(string) string) {
	v.mu.Lock()
	if v.lines = append(v.lines, panel.Line{At: at, Role: role, Text: text, Paint: paint}); len(v.lines) > viewLines {
		v.lines = v.lines[1:]
	}
	v.mu.Unlock()
	select {
	case v.fresh <- struct{}{}:
	default:
	}
}

func (v *view) last() []panel.Line {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]panel.Line{}, v.lines...)
}

// runView shows the view until ctx ends: at Ctrl-C the terminal is as it was,
// and the rest is told in lines.
func (s *session) runView(ctx context.Context, b *board) {
	v := &view{fresh: make(chan struct{}, 1)}
	out, ok := s.o.Out.W.(*os.File)
	if !ok {
		return
	}
	restore := silence(out)
	defer restore()
	s.out.show(v)
	_, _ = out.WriteString("\x1b[?1049h\x1b[?25l\x1b[2J")
	defer func() {
		_, _ = out.WriteString("\x1b[?25h\x1b[?1049l")
		s.out.show(nil)
	}()
	client := loop.Client{Path: s.o.Layout.Socket(roleLoopd, "bxctl", "loop")}
	status, authority := make(chan *proto.Status), make(chan *proto.BrokerStatus)
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { ask(ctx, client.Status, status) })
	if s.in.Settings.Tools.Enabled {
		asking.Go(func() { ask(ctx, owner.At(s.o.Layout).Status, authority) })
	}
	var use usage
	data := panel.Data{Home: s.o.Layout.Home}
	tick := time.NewTicker(viewPeriod)
	defer tick.Stop()
	for {
		data.Up, data.Lines, data.Now = b.snapshot(), v.last(), s.o.Now()
		data.Use = use.now(data.Up.Roles)
		paint(out, panel.Render(s.o.Out, data, s.o.Out.Width(), rowsOf(out)))
		select {
		case <-ctx.Done():
			return
		case data.Loopd = <-status:
		case data.Broker = <-authority:
		case <-v.fresh:
			select { // a burst of lines is one picture
			case <-ctx.Done():
				return
			case <-time.After(30 * time.Millisecond):
			}
		case <-tick.C:
		}
	}
}

// ask tells how a program is, again and again; nil if it does not answer.
func ask[T any](ctx context.Context, look func(context.Context) (*T, error), status chan<- *T) {
	for {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		st, err := look(short)
		cancel()
		if err != nil {
			st = nil
		}
		select {
		case status <- st:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(viewPeriod):
		case <-ctx.Done():
			return
		}
	}
}

// paint replaces the picture, in one write that the terminal shows at once.
func paint(out *os.File, rows []string) {
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[H")
	for i, r := range rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(r + "\x1b[K")
	}
	b.WriteString("\x1b[J\x1b[?2026l")
	_, _ = out.WriteString(b.String())
}

func rowsOf(out *os.File) int {
	if ws, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err == nil && ws.Row > 0 {
		return int(ws.Row)
	}
	return 24
}

// silence keeps keys from being shown, and Ctrl-Z from stopping up alone. The
// terminal may be no terminal to read from; then nothing is changed.
func silence(out *os.File) (restore func()) {
	fd := int(out.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	now := *was
	now.Lflag &^= unix.ECHO
	now.Cc[unix.VSUSP] = 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, &now) != nil {
		return func() {}
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETSF, was) } // what was typed meanwhile is dropped
}

// usage remembers processor times, to tell shares.
type usage struct {
	at    time.Time
	ticks map[int]uint64
}

func (u *usage) now(roles []report.Role) map[int]panel.Usage {
	now, ticks := time.Now(), map[int]uint64{}
	out := map[int]panel.Usage{}
	for _, r := range roles {
		t, memory, ok := taken(r.PID)
		if !ok {
			continue
		}
		ticks[r.PID] = t
		p := panel.Usage{Memory: memory}
		if before, ok := u.ticks[r.PID]; ok && t >= before && now.After(u.at) {
			p.CPU = float64(t-before) / clockTicks / now.Sub(u.at).Seconds()
		}
		out[r.PID] = p
	}
	if now.Sub(u.at) >= viewPeriod/2 || u.ticks == nil { // a share of a shorter time says nothing
		u.at, u.ticks = now, ticks
	}
	return out
}

// taken reads what a process has used: clock ticks, and resident bytes.
func taken(pid int) (ticks uint64, memory int64, ok bool) {
	if pid <= 0 {
		return 0, 0, false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])) // the name may hold anything
	if len(f) < 22 {
		return 0, 0, false
	}
	user, err1 := strconv.ParseUint(f[11], 10, 64)
	system, err2 := strconv.ParseUint(f[12], 10, 64)
	pages, err3 := strconv.ParseInt(f[21], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return 0, 0, false
	}
	return user + system, pages * int64(os.Getpagesize()), true
}
