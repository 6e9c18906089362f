package audit

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/proto"
)

// A Writer writes records in one of the forms of an export.
type Writer interface {
	Write(e Entry) error
	Close() error // does not close what it writes to
}

// Forms are the names of the forms.
func Forms() []string { return []string{"jsonl", "csv", "md"} }

// NewWriter gives the writer of a form, or nil if there is no such form.
func NewWriter(form string, w io.Writer, zone *time.Location) Writer {
	switch form {
	case "jsonl":
		return lines{w}
	case "csv":
		return newTable(w, zone)
	case "md":
		return &document{w: w, zone: zone}
	default:
		return nil
	}
}

// lines is a record a line, as in the log, less its checksum.
type lines struct{ w io.Writer }

func (l lines) Write(e Entry) error {
	_, err := fmt.Fprintf(l.w, "%s\n", term.JSON(e.JSON))
	return err
}

func (l lines) Close() error { return nil }

// table is CSV with a row a record, for a spreadsheet.
type table struct {
	w    *csv.Writer
	zone *time.Location
	head bool
}

func newTable(w io.Writer, zone *time.Location) *table {
	return &table{w: csv.NewWriter(w), zone: zone}
}

func (t *table) Write(e Entry) error {
	if !t.head {
		t.head = true
		if err := t.w.Write([]string{"number", "time", "kind", "result", "code", "session", "call", "tool", "arguments", "grant", "by", "class", "untrusted", "bytes", "ms", "connections"}); err != nil {
			return err
		}
	}
	word, _ := result(e.Record)
	row := make([]string, 16)
	copy(row, []string{strconv.FormatInt(e.Header.N, 10), e.Header.Time.In(t.zone).Format(time.RFC3339), e.Record.Kind(), word, "", e.Session, e.Call, e.Tool})
	switch r := e.Record.(type) {
	case *proto.AuditDecision:
		row[4], row[8], row[9], row[11], row[12] = string(r.Code), r.Args, r.Grant, string(r.Taint), strconv.FormatBool(r.Untrusted)
	case *proto.AuditApproval:
		row[4], row[10] = string(r.Code), strings.TrimSpace(r.By+" "+r.Channel)
	case *proto.AuditOutcome:
		row[4], row[11], row[12] = string(r.Code), string(r.Class), strconv.FormatBool(r.Untrusted)
		row[13], row[14] = strconv.FormatInt(r.Bytes, 10), strconv.FormatInt(r.MS, 10)
		var all []string
		for _, c := range r.Egress {
			all = append(all, connection(c))
		}
		row[15] = strings.Join(all, "; ")
	case *proto.AuditHalt:
		row[8], row[10] = r.Reason, r.By
	default:
		row[8] = e.detail()
	}
	for i := range row {
		row[i] = cell(row[i])
	}
	return t.w.Write(row)
}

// cell makes a text harmless for a terminal and for a spreadsheet, which would
// take some beginnings for a formula.
func cell(s string) string {
	s = term.Safe(s)
	if s != "" && strings.ContainsRune("=+-@\t\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

func (t *table) Close() error {
	t.w.Flush()
	return t.w.Error()
}

// document is Markdown to read: a heading a day, an item a record.
type document struct {
	w    io.Writer
	zone *time.Location
	day  string
}

func (d *document) Write(e Entry) error {
	var b strings.Builder
	at := e.Header.Time.In(d.zone)
	if day := at.Format("Monday, 2 January 2006"); day != d.day {
		if d.day == "" {
			b.WriteString("# Audit log\n")
		}
		d.day = day
		fmt.Fprintf(&b, "\n## %s\n\n", day)
	}
	word, _ := result(e.Record)
	fmt.Fprintf(&b, "- %s, record %d: **%s**", at.Format("15:04:05"), e.Header.N, word)
	if e.Tool != "" {
		fmt.Fprintf(&b, " %s", code(e.Tool))
	}
	if e.Call != "" {
		fmt.Fprintf(&b, ", call %s", code(e.Call))
	}
	switch r := e.Record.(type) {
	case *proto.AuditDecision:
		fmt.Fprintf(&b, "\n  - arguments %s", code(r.Args))
		if r.Code != "" {
			fmt.Fprintf(&b, "\n  - %s", r.Code)
		}
		if r.Grant != "" {
			fmt.Fprintf(&b, "\n  - grant %s", code(r.Grant))
		}
	default:
		if t := e.detail(); t != "" {
			fmt.Fprintf(&b, "\n  - %s", code(t))
		}
	}
	b.WriteString("\n")
	_, err := io.WriteString(d.w, b.String())
	return err
}

func (d *document) Close() error {
	if d.day != "" {
		return nil
	}
	_, err := io.WriteString(d.w, "# Audit log\n\nNo such records.\n")
	return err
}

// code gives a text as a code span that nothing in it can end: its fence is
// longer than every run of backticks inside, and it has no line break.
func code(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(term.Safe(s), "\n", "␊"), "\t", "␉")
	run, longest := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 || s == "" {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
