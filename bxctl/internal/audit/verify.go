package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/appendlog"
	"boxmaker/internal/chain"
	"boxmaker/internal/proto"
)

// A Verdict is what [Log.Verify] found.
type Verdict struct {
	OK      bool            `json:"ok"`
	Head    proto.AuditHead `json:"head"` // of the records that are right
	Files   int             `json:"files"`
	Bytes   int64           `json:"bytes"`
	First   string          `json:"first,omitzero"` // times
	Last    string          `json:"last,omitzero"`
	Anchors int             `json:"anchors"`  // checkpoints that bxctl kept
	Results int             `json:"results"`  // heads in session logs
	Given   int             `json:"given"`    // that the owner kept
	Matched int             `json:"matched"`  // of all of these
	Newest  int64           `json:"newest"`   // the longest log that a head tells of
	Faults  []Finding       `json:"faults"`   // of the log
	Anchor  []string        `json:"problems"` // of the anchors
	Notes   []string        `json:"notes"`    // what could not be compared

	faults []*chain.Fault
}

// A Finding is one fault of the log.
type Finding struct {
	What string `json:"what"`
	File string `json:"file,omitzero"`
	Line int64  `json:"line,omitzero"`
	N    int64  `json:"n"`
	Text string `json:"text"`
}

// Verify reads the heads that are kept outside of the log, and then the log, and
// holds it to what the owner kept as well.
// An error means that it could not be read; a log that is not whole is told
// in the verdict.
func (l Log) Verify(ctx context.Context, given ...Given) (Verdict, error) {
	kept, problems, err := l.anchors()
	if err != nil {
		return Verdict{}, err
	}
	own, more, err := l.given(given)
	if err != nil {
		return Verdict{}, err
	}
	heads, notes, err := l.heads(ctx)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Anchors: len(kept), Results: len(heads), Given: len(own), Anchor: append(problems, more...), Notes: notes}
	all := slices.Concat(kept, heads, own)
	for _, a := range all {
		v.Newest = max(v.Newest, a.N)
	}
	noted, notedErr := l.noted()
	all = append(all, noted...)
	root, err := l.open()
	if err != nil && len(all) == 0 {
		return v, err
	}
	if err != nil { // no log, but there was one
		was := v.Newest
		for _, a := range noted {
			was = max(was, a.N)
		}
		v.add(&chain.Fault{What: chain.Cut, N: -1, Text: fmt.Sprintf("the log was %d records long, now its folder is gone", was)})
		return v, nil
	}
	defer root.Close()
	rep, err := l.chain(ctx, root, all)
	if err != nil {
		return v, err
	}
	v.Head, v.Files, v.Bytes, v.Matched = rep.Head, rep.Files, rep.Bytes, rep.Matched
	if rep.Head.N > 0 {
		v.First, v.Last = proto.Time(rep.First), proto.Time(rep.Last)
	}
	if rep.Unchecked > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("heads of records behind the fault were not compared: %d", rep.Unchecked))
	}
	v.OK = len(v.Anchor) == 0
	switch {
	case errors.Is(notedErr, fs.ErrPermission):
		v.Notes = append(v.Notes, "how long brokerd noted the log to be can't be read: "+notedErr.Error())
	case notedErr != nil:
		v.add(&chain.Fault{What: chain.Changed, File: notedFile, N: -1, Text: "how long brokerd noted the log to be can't be told: " + notedErr.Error()})
	}
	for _, f := range rep.Faults {
		v.add(f)
	}
	return v, nil
}

func (v *Verdict) add(f *chain.Fault) {
	v.OK = false
	v.faults = append(v.faults, f)
	v.Faults = append(v.Faults, Finding{What: string(f.What), File: f.File, Line: f.Line, N: f.N, Text: f.Text})
}

// tornWait is how long a line may take to be written.
const tornWait = 100 * time.Millisecond

// chain verifies. brokerd may be writing the last line just now: then another
// look a little later finds it whole.
func (l Log) chain(ctx context.Context, root *os.Root, all []chain.Anchor) (rep chain.Report, err error) {
	for try := range 3 {
		rep, err = chain.Verify(chain.Config{Root: root, Anchors: all})
		if err != nil {
			return rep, unreadable(err)
		}
		if len(rep.Faults) != 1 || rep.Faults[0].What != chain.Torn || try == 2 {
			break
		}
		select {
		case <-ctx.Done():
			return rep, context.Cause(ctx)
		case <-time.After(tornWait):
		}
	}
	return rep, nil
}

// heads collects those of the results in all session logs. Notes tell of
// sessions that can't be read to their end; that is no fault of the audit log.
func (l Log) heads(ctx context.Context) (all []chain.Anchor, notes []string, err error) {
	root, err := os.OpenRoot(l.Sessions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, []string{"the session logs can't be read: " + err.Error()}, nil
	}
	defer root.Close()
	files, err := fs.Glob(root.FS(), "*/[0-9][0-9][0-9][0-9].jsonl")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range files {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if proto.CheckSession(path.Dir(name)) != nil {
			continue
		}
		_, err := appendlog.Scan(root, name, func(_ int64, line []byte) error {
			a, ok, err := headOf(line)
			if ok {
				a.From = fmt.Sprintf("session %s, %s", path.Dir(name), a.From)
				all = append(all, a)
			}
			return err
		})
		if err != nil {
			notes = append(notes, fmt.Sprintf("session %s can't be read to its end, so that its heads were not all compared: %v", path.Dir(name), err))
		}
	}
	return all, notes, nil
}

func headOf(line []byte) (chain.Anchor, bool, error) {
	h, kind, err := proto.RecordKind(line)
	if err != nil || kind != "tool" || !strings.Contains(string(line), `,"head":{"n":`) {
		return chain.Anchor{}, false, err
	}
	_, r, err := proto.DecodeTrustedRecord(line)
	if err != nil {
		return chain.Anchor{}, false, err
	}
	t, ok := r.(*proto.Tool)
	if !ok || t.Head == (proto.AuditHead{}) {
		return chain.Anchor{}, false, nil
	}
	return chain.Anchor{AuditHead: t.Head, From: "call " + t.Call, Time: proto.Time(h.Time)}, true, nil
}

// Print tells the owner. It gives an error if the log is not whole.
func (v Verdict) Print(s term.Screen, now time.Time) error {
	var b strings.Builder
	if v.OK {
		fmt.Fprintf(&b, "%s %s\n", s.Good("The audit log is whole:"), v.size(now))
	} else if v.Head.N > 0 {
		fmt.Fprintf(&b, "%s %s\n", s.Warn("Read up to the fault:"), v.size(now))
	}
	switch {
	case v.Anchors+v.Results+v.Given == 0:
		b.WriteString("  No head from outside is known, so that a log that was cut short or written anew would not be noticed.\n  bxctl audit anchor keeps one.\n")
	default:
		given := ""
		if v.Given > 0 {
			given = term.Count(int64(v.Given)) + " given by you, "
		}
		fmt.Fprintf(&b, "  %s of %s from outside fit (%s%s in anchors, %s in session logs); the newest is of record %s\n",
			term.Count(int64(v.Matched)), many(int64(v.Anchors+v.Results+v.Given), "head"), given, term.Count(int64(v.Anchors)), term.Count(int64(v.Results)), term.Count(v.Newest-1))
	}
	if v.OK {
		fmt.Fprintf(&b, "  head %d:%s\n", v.Head.N, v.Head.Hash)
	}
	if len(v.faults) > 0 { // else they are the error
		for _, p := range v.Anchor {
			fmt.Fprintf(&b, "  %s\n", s.Warn(term.Line(p)))
		}
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "  %s\n", s.Warn(term.Line("note: "+n)))
	}
	if _, err := fmt.Fprint(s.W, b.String()); err != nil {
		return err
	}
	return v.Err()
}

func (v Verdict) size(now time.Time) string {
	text := fmt.Sprintf("%s in %s, %s", many(v.Head.N, "record"), many(int64(v.Files), "file"), term.Bytes(v.Bytes))
	first, err := proto.ParseTime(v.First)
	last, err2 := proto.ParseTime(v.Last)
	if err == nil && err2 == nil {
		text += fmt.Sprintf(", %s to %s", clock(first, now), clock(last, now))
	}
	return text
}

// Err is nil if all is well.
func (v Verdict) Err() error {
	switch {
	case v.OK:
		return nil
	case len(v.faults) == 0:
		return anchorProblems(v.Anchor)
	default:
		return damaged(v.faults)
	}
}
