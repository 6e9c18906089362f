package allow

import (
	"os"
	"time"

	"boxmaker/gatewayd/internal/settings"
)

// A File gives the rules as they stand in gatewayd.toml now. A file that is broken,
// or gone, keeps the rules that were read last. It is not for several goroutines.
type File struct {
	Path string

	rules Rules
	seen  stamp
}

type stamp struct {
	at   time.Time
	size int64
	ino  os.FileInfo
}

// Rules reads the file if it has changed. err says why the old rules stay, once for
// each change.
func (f *File) Rules() (r Rules, changed bool, err error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		if f.seen == (stamp{}) {
			return f.rules, false, nil
		}
		f.seen = stamp{}
		return f.rules, false, err
	}
	if f.seen.ino != nil && os.SameFile(f.seen.ino, info) && f.seen.at.Equal(info.ModTime()) && f.seen.size == info.Size() {
		return f.rules, false, nil
	}
	f.seen = stamp{info.ModTime(), info.Size(), info}
	s, err := settings.Load(f.Path)
	if err != nil {
		return f.rules, false, err
	}
	f.rules = Rules{Owners: s.Owners, Channels: s.Channels}
	return f.rules, true, nil
}
