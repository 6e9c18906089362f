// Package filestamp tells one state of a file from another without reading it.
//
// It guarantees that a file which was replaced, changed or given other rights has
// another stamp, unless that happened in the same tick of the file system's clock
// and left the length as it was. No program can set the change time back. Who
// must be sure does not believe the stamp of a file that was changed just now.
package filestamp

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Stamp is compared with ==. The zero value is that of no file.
type Stamp struct {
	dev, ino     uint64
	size         int64
	mode, uid    uint32
	mtime, ctime int64 // nanoseconds since 1970
}

// Of gives the stamp of what was asked of the kernel.
func Of(st *unix.Stat_t) Stamp {
	return Stamp{uint64(st.Dev), st.Ino, st.Size, st.Mode, st.Uid, st.Mtim.Nano(), st.Ctim.Nano()} //nolint:unconvert // another type elsewhere
}

// OfInfo does the same of what package os gives. It is false for what is no file
// of the kernel's.
func OfInfo(fi fs.FileInfo) (Stamp, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Stamp{}, false
	}
	return Stamp{uint64(st.Dev), st.Ino, st.Size, st.Mode, st.Uid, st.Mtim.Nano(), st.Ctim.Nano()}, true //nolint:unconvert // another type elsewhere
}

// Size is the length of the file, in bytes.
func (s Stamp) Size() int64 { return s.size }

// SameFile reports whether both are of one file, whatever became of it.
func (s Stamp) SameFile(t Stamp) bool { return s.dev == t.dev && s.ino == t.ino }
