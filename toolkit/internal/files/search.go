package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
	"boxmaker/toolkit/internal/tree"
)

const (
	maxLine    = 256 << 10 // of a line, that is searched; in bytes
	maxExcerpt = 400       // of a line, that is shown; in bytes
	maxDepth   = 100       // folders in folders
)

// Search is search_files.
func Search(ctx context.Context, w Work, a *tool.SearchFiles) tool.Output {
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return Failed(errors.New("`pattern` is not a regular expression"))
	}
	place, err := w.Tree.Find(a.Path)
	if err != nil {
		return Failed(err)
	}
	defer place.Close()
	s := &searcher{ctx: ctx, re: re, args: a, page: w.page(), br: bufio.NewReaderSize(nil, maxLine)}
	info, err := place.Root.Stat(place.Name)
	switch {
	case err != nil:
		return Failed(tree.Explain(a.Path, err))
	case !info.IsDir():
		f, _, err := place.OpenFile()
		if err != nil {
			return Failed(err)
		}
		s.file(f, a.Path)
	default:
		dir, err := place.Root.OpenRoot(place.Name)
		if err != nil {
			return Failed(tree.Explain(a.Path, err))
		}
		defer dir.Close()
		s.folder(dir, a.Path, 0)
	}
	return s.output()
}

type searcher struct {
	ctx  context.Context
	re   *regexp.Regexp
	args *tool.SearchFiles
	page *tooltext.Page
	br   *bufio.Reader

	matches, files, hits                int64 // lines, files searched, files with a match
	binaries, links, specials, failures int64 // what was skipped
	long                                int64 // lines that were searched in part
	stop                                string
}

// folder goes through a folder in the order of the names.
func (s *searcher) folder(dir *os.Root, at string, depth int) {
	f, err := dir.Open(".")
	if err != nil {
		s.failures++
		return
	}
	entries, err := f.ReadDir(-1)
	_ = f.Close()
	if err != nil {
		s.failures++
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if s.ended() {
			return
		}
		s.entry(dir, e, path.Join(at, e.Name()), depth)
	}
}

func (s *searcher) entry(dir *os.Root, e fs.DirEntry, at string, depth int) {
	switch {
	case e.IsDir():
		sub, err := dir.OpenRoot(e.Name())
		if err != nil || depth == maxDepth {
			s.failures++
			return
		}
		defer sub.Close()
		s.folder(sub, at, depth+1)
	case !s.wanted(e.Name()):
	case e.Type()&fs.ModeSymlink != 0:
		s.links++
	case !e.Type().IsRegular():
		s.specials++
	default:
		f, _, err := tree.OpenIn(dir, e.Name(), at)
		if err != nil {
			s.failures++
			return
		}
		s.file(f, at)
	}
}

func (s *searcher) wanted(name string) bool {
	if s.args.Name == "" {
		return true
	}
	ok, err := path.Match(s.args.Name, name)
	return err == nil && ok
}

// file searches one file and closes it.
func (s *searcher) file(f *os.File, at string) {
	defer f.Close()
	s.br.Reset(f)
	if head, err := s.br.Peek(sniff); err != nil && !errors.Is(err, io.EOF) {
		s.failures++
		return
	} else if binary(head) != "" {
		s.binaries++
		return
	}
	s.files++
	found := s.matches
	for n := int64(1); ; n++ {
		line, err := s.br.ReadSlice('\n')
		if len(line) > 0 && s.re.Match(bytes.TrimRight(line, "\r\n")) {
			s.match(at, n, bytes.TrimRight(line, "\r\n"))
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			s.long++
			err = s.rest()
		}
		if err != nil || n%1024 == 0 && s.ended() || s.stop != "" {
			if err != nil && !errors.Is(err, io.EOF) {
				s.failures++
			}
			break
		}
	}
	if s.matches > found {
		s.hits++
	}
}

// rest skips what is left of a long line.
func (s *searcher) rest() error {
	for {
		_, err := s.br.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if s.ended() {
			return nil
		}
	}
}

func (s *searcher) match(at string, n int64, line []byte) {
	if s.matches == s.args.Limit {
		s.stop = fmt.Sprintf("there are more matches than the limit of %d; search for something more exact, or in a subfolder", s.matches)
		return
	}
	name, _ := shown(at)
	s2, _ := tooltext.Clean(excerpt(s.re, line))
	if full := fmt.Sprintf("%s:%d: %s\n", name, n, s2); s.page.Fits(full, 0) {
		s.page.Add(full)
		s.matches++
		return
	}
	s.stop = "there are more matches than fit; search for something more exact, or in a subfolder"
}

// excerpt cuts a long line to the part around its first match.
func excerpt(re *regexp.Regexp, line []byte) []byte {
	if len(line) <= maxExcerpt {
		return line
	}
	start := 0
	if at := re.FindIndex(line); at != nil {
		start = max(0, min(at[0]-100, len(line)-maxExcerpt))
	}
	end := start + maxExcerpt
	for start > 0 && start < end && line[start]&0xc0 == 0x80 { // inside a character
		start++
	}
	for end < len(line) && end > start && line[end]&0xc0 == 0x80 {
		end--
	}
	var b []byte
	if start > 0 {
		b = append(b, "…"...)
	}
	b = append(b, line[start:end]...)
	if end < len(line) {
		b = append(b, "…"...)
	}
	return b
}

func (s *searcher) ended() bool {
	if s.stop == "" && s.ctx.Err() != nil {
		s.stop = "the time of this call was over; search in a subfolder, or only files of one kind with `name`"
	}
	return s.stop != ""
}

func (s *searcher) output() tool.Output {
	var b strings.Builder
	b.WriteString(s.page.String())
	if s.matches == 0 {
		b.WriteString("No line matches.\n")
	}
	fmt.Fprintf(&b, "[%s in %s; %s searched", count(s.matches, "match", "matches"), count(s.hits, "file", "files"), count(s.files, "file was", "files were"))
	for _, skip := range []struct {
		n         int64
		one, many string
	}{
		{s.binaries, "binary file skipped", "binary files skipped"},
		{s.links, "link not followed", "links not followed"},
		{s.specials, "special file skipped", "special files skipped"},
		{s.failures, "could not be opened", "could not be opened"},
		{s.long, "very long line searched in part", "very long lines searched in part"},
	} {
		if skip.n > 0 {
			b.WriteString("; " + count(skip.n, skip.one, skip.many))
		}
	}
	if s.stop != "" {
		b.WriteString("; not finished: " + s.stop)
	}
	b.WriteString("]")
	return tool.Output{Text: b.String()}
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
