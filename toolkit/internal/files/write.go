package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"boxmaker/internal/tool"
	"boxmaker/toolkit/internal/tree"
)

// maxEdit is the largest file that is edited, in bytes: it is held whole.
const maxEdit = 8 << 20

// Write is write_file.
func Write(_ context.Context, w Work, a *tool.WriteFile) tool.Output {
	target, err := w.Tree.Target(a.Path)
	if err != nil {
		return Failed(err)
	}
	defer target.Close()
	old := target.Old
	if a.Mode == tool.ModeCreate && old != nil {
		return Failed(fmt.Errorf("%s exists already (%d bytes); use mode %q to replace all of it, or %s to change a part", a.Path, old.Size(), tool.ModeOverwrite, tool.NameEditFile))
	}
	data := []byte(a.Content)
	if w.Preview {
		return previewWrite(target, data)
	}
	if w.Seen != "" {
		now, err := seen(target)
		if err == nil && now != w.Seen {
			err = errChanged
		}
		if err != nil {
			return Failed(err)
		}
	}
	size := fmt.Sprintf("%s, %s", count(int64(len(data)), "byte", "bytes"), count(lines(data), "line", "lines"))
	if old == nil {
		if err := target.Create(data); err != nil {
			return Failed(err)
		}
		return tool.Output{Text: fmt.Sprintf("Created %s (%s).", a.Path, size)}
	}
	if err := target.Replace(data); err != nil {
		return Failed(err)
	}
	return tool.Output{Text: fmt.Sprintf("Replaced %s (%s; before: %s).", a.Path, size, count(old.Size(), "byte", "bytes"))}
}

func previewWrite(target *tree.Target, data []byte) tool.Output {
	if target.Old == nil {
		return looked(diff(target.Path, nil, data, true), tool.Absent)
	}
	old, err := whole(target, maxDiffed)
	if err != nil {
		note := fmt.Sprintf("all of the file is replaced (%d bytes before); no diff, since %s", target.Old.Size(), err)
		sum, _ := seen(target) // one that can't be read can't be told from another
		return tool.Output{Note: note, Seen: sum}
	}
	return looked(diff(target.Path, old, data, false), sumOf(old))
}

// errChanged: between the owner's look and now somebody wrote to the file. What
// is written would not be what the owner said yes to.
var errChanged = errors.New("the file changed after the owner approved; read it and ask again")

// looked notes what a preview looked at.
func looked(out tool.Output, sum string) tool.Output {
	out.Seen = sum
	return out
}

// seen tells which file is there, whatever its size.
func seen(target *tree.Target) (string, error) {
	if target.Old == nil {
		return tool.Absent, nil
	}
	f, _, err := target.OpenOld()
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", tree.Explain(target.Path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func lines(b []byte) int64 {
	n := int64(bytes.Count(b, []byte("\n")))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// whole reads the file that is there, if it is not larger than limit.
func whole(target *tree.Target, limit int64) ([]byte, error) {
	f, info, err := target.OpenOld()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes%w", target.Path, limit, errLarge)
	}
	b, err := readAll(f, limit)
	if err != nil {
		return nil, tree.Explain(target.Path, err)
	}
	if int64(len(b)) != info.Size() {
		return nil, fmt.Errorf("%s was changed meanwhile; read it again", target.Path)
	}
	return b, nil
}

func readAll(f *os.File, limit int64) ([]byte, error) { return io.ReadAll(io.LimitReader(f, limit+1)) }

// Edit is edit_file.
func Edit(_ context.Context, w Work, a *tool.EditFile) tool.Output {
	target, err := w.Tree.Target(a.Path)
	if err != nil {
		return Failed(err)
	}
	defer target.Close()
	if target.Old == nil && w.Seen != "" {
		return Failed(errChanged)
	}
	if target.Old == nil {
		return Failed(fmt.Errorf("there is no %s; use %s for a new file", a.Path, tool.NameWriteFile))
	}
	old, err := whole(target, maxEdit)
	if err != nil {
		return Failed(err)
	}
	if !w.Preview && w.Seen != "" && sumOf(old) != w.Seen {
		return Failed(errChanged)
	}
	if kind := binary(old[:min(len(old), sniff)]); kind != "" {
		return Failed(fmt.Errorf("%s is %s, which cannot be edited", a.Path, kind))
	}
	at, from, to, err := locate(old, a)
	if err != nil {
		return Failed(err)
	}
	data := make([]byte, 0, len(old)-len(from)+len(to))
	data = append(append(append(data, old[:at]...), to...), old[at+len(from):]...)
	if w.Preview {
		return looked(diff(a.Path, old, data, false), sumOf(old))
	}
	if err := target.Replace(data); err != nil {
		return Failed(err)
	}
	first := lineOf(old, at)
	return tool.Output{Text: fmt.Sprintf("Changed %s at line %d: %s replaced by %s. The file now has %s.", a.Path, first,
		count(lines([]byte(from)), "line", "lines"), count(lines([]byte(to)), "line", "lines"), count(lines(data), "line", "lines"))}
}

// locate finds the one place of the old text. Where the lines of the file end
// in CRLF and those of the arguments do not, both texts are taken with CRLF.
func locate(file []byte, a *tool.EditFile) (at int, from, to string, err error) {
	from, to = a.Old, a.New
	places := find(file, from)
	if len(places) == 0 && !strings.Contains(from, "\r") && bytes.Contains(file, []byte("\r\n")) {
		from = strings.ReplaceAll(from, "\n", "\r\n")
		to = strings.ReplaceAll(strings.ReplaceAll(to, "\r\n", "\n"), "\n", "\r\n")
		places = find(file, from)
	} else if len(places) == 1 && allCRLF(file) {
		to = strings.ReplaceAll(strings.ReplaceAll(to, "\r\n", "\n"), "\n", "\r\n")
	}
	switch len(places) {
	case 1:
		return places[0], from, to, nil
	case 0:
		return 0, "", "", fmt.Errorf("`old` does not stand in %s%s", a.Path, hint(file, a.Old))
	}
	var at2 []string
	for _, p := range places[:min(len(places), 5)] {
		at2 = append(at2, fmt.Sprint(lineOf(file, p)))
	}
	more := ""
	if len(places) > 5 {
		more = " and more"
	}
	n := fmt.Sprint(len(places))
	if len(places) == maxPlaces {
		n = "at least " + n
	}
	return 0, "", "", fmt.Errorf("`old` stands %s times in %s (lines %s%s), so it is not clear which is meant; give more of the lines around the right one", n, a.Path, strings.Join(at2, ", "), more)
}

const maxPlaces = 1000

// find gives all places of a text, also those that overlap.
func find(file []byte, s string) []int {
	var places []int
	for from := 0; len(places) < maxPlaces; {
		i := bytes.Index(file[from:], []byte(s))
		if i < 0 {
			break
		}
		places = append(places, from+i)
		from += i + 1
	}
	return places
}

func allCRLF(file []byte) bool {
	n := bytes.Count(file, []byte("\r\n"))
	return n > 0 && n == bytes.Count(file, []byte("\n"))
}

func lineOf(file []byte, at int) int { return bytes.Count(file[:at], []byte("\n")) + 1 }

// hint says what is probably wrong with a text that was not found.
func hint(file []byte, old string) string {
	want := squeeze(old)
	if len(want) == 0 || len(file) > maxDiffed {
		return "; read the file and copy the text exactly"
	}
	all := strings.Split(string(file), "\n")
	n := strings.Count(strings.Trim(old, "\n"), "\n") + 1
	var clean []string
	for _, l := range all {
		clean = append(clean, squeeze(l))
	}
	for i := 0; i+n <= len(clean); i++ {
		if strings.Contains(strings.Join(clean[i:i+n], ""), want) {
			return fmt.Sprintf("; line %d differs from it only in spaces, tabs or line breaks: read the file from there and copy the text exactly", i+1)
		}
		if n*i > 1_000_000 {
			break
		}
	}
	if strings.IndexFunc(old, func(r rune) bool { return r < '0' || r > '9' }) > 0 && strings.Contains(old, "\t") && strings.Contains(string(file), old[strings.Index(old, "\t")+1:]) {
		return "; it seems to begin with a line number, which is not part of the file"
	}
	return "; read the file and copy the text exactly"
}

// squeeze removes all white space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
