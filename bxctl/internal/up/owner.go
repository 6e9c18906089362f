package up

import (
	"io/fs"
	"syscall"
)

// owned reports whether a file is one that should become uid's and is not.
func owned(info fs.FileInfo, uid uint32) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == uid {
		return false
	}
	return info.IsDir() || info.Mode().IsRegular() && st.Nlink == 1
}
