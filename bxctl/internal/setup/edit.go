package setup

import (
	"fmt"
	"strings"
)

// setKey gives the TOML text with key of [section] ("" is the top) set to
// value, a TOML literal, and its former literal. Only that line changes: comments and order are the
// owner's. A missing key is added at the head of its section, a missing
// section at the end.
func setKey(text, section, key, value string) (out, was string) {
	lines := strings.SplitAfter(text, "\n")
	at, head := "", -1
	if section == "" {
		head = 0
	}
	for i, line := range lines {
		t := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(t, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			if at = strings.TrimSpace(name); at == section {
				head = i + 1
			}
			continue
		}
		k, v, ok := strings.Cut(t, "=")
		if at != section || !ok || strings.TrimSpace(k) != key {
			continue
		}
		was, comment := splitComment(v)
		lines[i] = key + " = " + value + comment + ending(line)
		return strings.Join(lines, ""), was
	}
	entry := key + " = " + value + "\n"
	if head < 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + fmt.Sprintf("\n[%s]\n", section) + entry, ""
	}
	if section == "" {
		head = 0
	} else if !strings.HasSuffix(lines[head-1], "\n") {
		lines[head-1] += "\n"
	}
	return strings.Join(lines[:head], "") + entry + strings.Join(lines[head:], ""), ""
}

func ending(line string) string {
	if strings.HasSuffix(line, "\n") {
		return "\n"
	}
	return ""
}

// splitComment cuts a trailing comment, with the space before it, off a
// one-line TOML value.
func splitComment(v string) (value, comment string) {
	quote := byte(0)
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == '"' && c == '\\':
			i++
		case c == quote:
			quote = 0
		case quote == 0 && c == '#':
			value = strings.TrimSpace(v[:i])
			return value, v[len(strings.TrimRight(v[:i], " \t")):]
		}
	}
	return strings.TrimSpace(v), ""
}

// literal gives s as a TOML basic string.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
