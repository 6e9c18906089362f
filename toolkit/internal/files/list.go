package files

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"boxmaker/internal/tool"
	"boxmaker/internal/tooltext"
	"boxmaker/toolkit/internal/tree"
)

const (
	maxShown   = 1000    // entries of one result
	maxEntries = 200_000 // entries that are looked at
)

// List is list_files.
func List(ctx context.Context, w Work, a *tool.ListFiles) tool.Output {
	place, err := w.Tree.Find(a.Path)
	if err != nil {
		return Failed(err)
	}
	defer place.Close()
	info, err := place.Root.Stat(place.Name)
	if err == nil && !info.IsDir() {
		return Failed(fmt.Errorf("%s is not a folder; use %s for a file", a.Path, tool.NameReadFile))
	}
	if err != nil {
		return Failed(tree.Explain(a.Path, err))
	}
	dir, err := place.Root.OpenRoot(place.Name)
	if err != nil {
		return Failed(tree.Explain(a.Path, err))
	}
	defer dir.Close()
	l := &lister{ctx: ctx, page: w.page(), first: a.Offset}
	if err := l.walk(dir, "", a.Depth); err != nil {
		return Failed(tree.Explain(a.Path, err))
	}
	return l.output(a)
}

type lister struct {
	ctx    context.Context
	page   *tooltext.Page
	first  int64 // number of the first entry to show
	count  int64 // entries so far
	last   int64 // number of the last that was shown
	full   bool
	stop   string // why not all were looked at
	quoted bool
}

// walk goes through one folder in the order of the names.
func (l *lister) walk(dir *os.Root, rel string, depth int64) error {
	entries, err := l.entries(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if l.count >= maxEntries {
			l.stop = fmt.Sprintf("only the first %d were looked at", maxEntries)
		} else if l.ctx.Err() != nil {
			l.stop = "the time of this call was over"
		}
		if l.stop != "" {
			return nil
		}
		l.count++
		l.show(dir, rel, e)
		if depth > 1 && e.IsDir() {
			l.down(dir, rel+e.Name()+"/", e.Name(), depth-1)
		}
	}
	return nil
}

func (l *lister) down(dir *os.Root, rel, name string, depth int64) {
	sub, err := dir.OpenRoot(name)
	if err == nil {
		defer sub.Close()
		err = l.walk(sub, rel, depth)
	}
	if err != nil && !l.full {
		s, _ := shown(rel)
		l.add("(" + s + " cannot be opened)\n")
	}
}

// entries reads a folder, sorted.
func (l *lister) entries(dir *os.Root) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []fs.DirEntry
	for len(all) < maxEntries && l.ctx.Err() == nil {
		some, err := f.ReadDir(4096)
		all = append(all, some...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, nil
}

func (l *lister) show(dir *os.Root, rel string, e fs.DirEntry) {
	if l.full || l.count < l.first {
		return
	}
	if l.count-l.first >= maxShown {
		l.full = true
		return
	}
	name, plain := shown(rel + e.Name())
	line := name
	info, err := dir.Lstat(e.Name())
	switch {
	case err != nil:
		line = "?  -  -  " + name
	case info.IsDir():
		line = "folder  -  " + stamp(info) + "  " + name + "/"
	case info.Mode().IsRegular():
		line = fmt.Sprintf("file  %d  %s  %s", info.Size(), stamp(info), name)
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := dir.Readlink(e.Name())
		to, _ = shown(to)
		line = "link  -  " + stamp(info) + "  " + name + " -> " + to
	default:
		line = tree.Kind(info.Mode()) + "  -  " + stamp(info) + "  " + name
	}
	if l.add(line + "\n") {
		l.last = l.count
		l.quoted = l.quoted || !plain
	}
}

// add appends whole lines only.
func (l *lister) add(line string) bool {
	if l.full || !l.page.Fits(line, 0) {
		l.full = true
		return false
	}
	l.page.Add(line)
	return true
}

func stamp(info fs.FileInfo) string { return info.ModTime().UTC().Format("2006-01-02 15:04") }

func (l *lister) output(a *tool.ListFiles) tool.Output {
	switch {
	case l.count == 0 && l.ctx.Err() != nil:
		return Failed(l.ctx.Err())
	case l.count == 0:
		return tool.Output{Text: a.Path + " is empty."}
	case l.last == 0 && l.count < l.first:
		return Failed(fmt.Errorf("%s has only %d entries", a.Path, l.count))
	}
	out := tooltext.NewPage(1 << 40)
	out.Addf("kind  bytes  changed (UTC)  name in %s\n%s", a.Path, strings.TrimRight(l.page.String(), "\n"))
	total := fmt.Sprint(l.count)
	if l.stop != "" {
		total = "more than " + total
	}
	if l.last < l.count || l.stop != "" || l.first > 1 {
		out.Addf("\n[entries %d-%d of %s", l.first, l.last, total)
		if l.last < l.count {
			out.Addf("; read on with offset %d", l.last+1)
		}
		if l.stop != "" {
			out.Addf("; %s, list a subfolder instead", l.stop)
		}
		out.Add("]")
	}
	if l.quoted {
		out.Add("\n[names in quotes have characters that cannot be shown; such a file cannot be given to a tool]")
	}
	return tool.Output{Text: out.String()}
}
