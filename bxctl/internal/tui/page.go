package tui

import (
	"bytes"
	"context"
	"os"
	"strconv"

	"boxmaker/bxctl/internal/archive"
	"boxmaker/bxctl/internal/tui/browse"
	"boxmaker/internal/proto"

	tea "charm.land/bubbletea/v2"
	xterm "github.com/charmbracelet/x/term"
)

// rowsAtOnce is about how many rows of a session are read at once.
const rowsAtOnce = 100

// socketRows bounds what is kept of a session that only loopd can read.
const socketRows = 2000

// page is the reader on the alternate screen.
type page struct {
	shell   *shell
	session string
	model   *browse.Model
	at      archive.Mark
	drawn   []string
	entered bool
}

// older is what was read for a page.
type older struct {
	page  *page
	items []archive.Item
	at    archive.Mark
	whole bool
	err   error
}

func newPage(s *shell, session string) *page {
	w, h, err := xterm.GetSize(s.cfg.Out.Fd())
	if err != nil {
		w, h = 80, 24
	}
	p := &page{shell: s, session: session, model: browse.New(s.cfg.Screen, s.cfg.Now, session, w, h)}
	p.load()
	return p
}

func (p *page) load() {
	s, at := p.shell, p.at
	s.aside(func(ctx context.Context) any {
		m := older{page: p}
		if s.cfg.Files {
			m.items, m.at, m.err = s.files().Before(ctx, p.session, at, rowsAtOnce)
			m.whole = m.at.AtStart()
		} else {
			m.items, _, m.err = s.overSocket(ctx, p.session, socketRows)
			m.whole = true
		}
		return m
	})
}

func (p *page) older(m older) {
	if m.page != p {
		return
	}
	p.at = m.at
	p.model.Older(m.items, m.whole, m.err)
	if p.model.Wants() {
		p.load()
	}
}

func (p *page) key(k tea.KeyPressMsg) (leave bool) {
	leave = p.model.Key(k)
	if p.model.WantsNewest() {
		p.at = archive.Mark{}
		p.load()
		return leave
	}
	if !leave && p.model.Wants() {
		p.load()
	}
	return leave
}

func (p *page) resize(w, h int) {
	p.model.Resize(w, h)
	p.drawn = nil
}

// draw writes the rows that changed.
func (p *page) draw(out *os.File) error {
	var b bytes.Buffer
	b.WriteString("\x1b[?2026h")
	if !p.entered {
		p.entered = true
		b.WriteString("\x1b[?1049h\x1b[?25l\x1b[>1u\x1b[2J")
	}
	rows := p.model.View()
	for i, l := range rows {
		if i < len(p.drawn) && p.drawn[i] == l {
			continue
		}
		b.WriteString("\x1b[" + strconv.Itoa(i+1) + ";1H\x1b[K" + l)
	}
	b.WriteString("\x1b[?2026l")
	p.drawn = rows
	_, err := out.Write(b.Bytes())
	return err
}

func (p *page) leave(out *os.File) {
	if p.entered {
		_, _ = out.WriteString("\x1b[<1u\x1b[?25h\x1b[?1049l") // the next drawing tells
	}
}

// ring gives a visitor that keeps the newest n rows.
func ring(items *[]archive.Item, more *bool, n int) func(*proto.Past) error {
	return func(p *proto.Past) error {
		*items = append(*items, archive.FromPast(p)...)
		if len(*items) > 2*n {
			*items, *more = append((*items)[:0:0], (*items)[len(*items)-n:]...), true
		}
		return nil
	}
}
