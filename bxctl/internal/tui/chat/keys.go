package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// key takes one key.
func (m *Model) key(k tea.KeyPressMsg) []Effect {
	if m.over.focus != "" {
		if effects, ok := m.focusKey(k); ok {
			return effects
		}
	}
	name := k.Keystroke()
	if effects, ok := m.control(name); ok {
		return effects
	}
	if m.popupKey(name) {
		return nil
	}
	switch name {
	case "esc":
		if len(m.jobs) > 0 && !m.stopping {
			return m.interrupt()
		}
	case "enter", "kpenter":
		return m.enter()
	case "up", "ctrl+p":
		if !m.ed.Up(m.inputRoom()) {
			if s, ok := m.cfg.History.Up(m.ed.Text()); ok {
				m.ed.Set(s)
				m.closed = true
			}
		}
	case "down", "ctrl+n":
		if !m.ed.Down(m.inputRoom()) {
			if s, ok := m.cfg.History.Down(); ok {
				m.ed.Set(s)
				m.closed = true
			}
		}
	default:
		if m.edit(name) {
			break
		}
		if k.Text != "" && k.Mod&(tea.ModCtrl|tea.ModAlt|tea.ModMeta|tea.ModSuper) == 0 {
			m.ed.Insert(k.Text)
			m.typed()
		}
	}
	return nil
}

// typed says that the text changed.
func (m *Model) typed() { m.pick, m.closed = 0, false }

// control handles keys that mean the same everywhere.
func (m *Model) control(name string) ([]Effect, bool) {
	switch name {
	case "ctrl+c":
		return m.interrupt(), true
	case "ctrl+d":
		if m.ed.Empty() {
			m.leaving = true
			return []Effect{Leave{}}, true
		}
		m.ed.Delete()
		m.typed()
	case "ctrl+t":
		m.toggle()
	case "ctrl+o", "pgup":
		return []Effect{Transcript{m.cfg.Session}}, true
	case "ctrl+l":
		return []Effect{Redraw{}}, true
	case "ctrl+x":
		m.focusOn()
	case "ctrl+z":
		return []Effect{Suspend{}}, true
	case "alt+enter", "shift+enter", "ctrl+j":
		m.ed.Insert("\n")
		m.typed()
	default:
		return nil, false
	}
	return nil, true
}

// interrupt is Ctrl-C: it takes what is typed away, stops the turn, or leaves.
func (m *Model) interrupt() []Effect {
	switch {
	case len(m.jobs) > 0 && !m.stopping:
		m.stopping = true
		return []Effect{StopTurn{m.cfg.Session}}
	case len(m.jobs) == 0 && !m.ed.Empty():
		m.ed.Set("")
		m.cfg.History.Reset()
		return nil
	default:
		m.leaving = true
		return []Effect{Leave{}}
	}
}

// toggle folds or unfolds what comes from here on; what is finished stays as it
// is, and package browse can unfold it.
func (m *Model) toggle() { m.details = !m.details }

// edit handles the keys that move in the text or cut it.
func (m *Model) edit(name string) bool {
	switch name {
	case "left", "ctrl+b":
		m.ed.Left()
	case "right", "ctrl+f":
		m.ed.Right()
	case "alt+b", "ctrl+left", "alt+left":
		m.ed.WordLeft()
	case "alt+f", "ctrl+right", "alt+right":
		m.ed.WordRight()
	case "home", "ctrl+a":
		m.ed.Home()
	case "end", "ctrl+e":
		m.ed.End()
	default:
		return m.cut(name)
	}
	return true
}

func (m *Model) cut(name string) bool {
	switch name {
	case "backspace", "ctrl+h", "shift+backspace":
		m.ed.Backspace()
	case "delete":
		m.ed.Delete()
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		m.ed.KillWord()
	case "alt+d", "ctrl+delete":
		m.ed.KillWordRight()
	case "ctrl+u":
		m.ed.KillHome()
	case "ctrl+k":
		m.ed.KillEnd()
	case "ctrl+y":
		m.ed.Yank()
	default:
		return false
	}
	m.typed()
	return true
}

// enter sends what is typed, or runs it as a command.
func (m *Model) enter() []Effect {
	text := m.ed.Text()
	if head, ok := strings.CutSuffix(m.ed.Before(), "\\"); ok && head+"\\" == text { // goes on in the next line
		m.ed.Backspace()
		m.ed.Insert("\n")
		return nil
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	m.ed.Set("")
	m.typed()
	m.cfg.History.Reset()
	switch {
	case strings.HasPrefix(text, "//"):
		return m.send(text[1:])
	case strings.HasPrefix(text, "/") && !strings.Contains(strings.TrimSpace(text), "\n"):
		return append([]Effect{Remember{text}}, m.command(strings.TrimSpace(text))...)
	default:
		return m.send(strings.TrimRight(text, "\n"))
	}
}
