package up

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/reach"

	"golang.org/x/sys/unix"
)

// openSocket lets a user connect to the socket of a server that another user
// runs, with an entry in the socket's access list: bxctl up runs as root, and its
// owner named this socket. It reports whether anything had to be done. The
// folders above are left alone.
func openSocket(path string, uid uint32) (changed bool, err error) {
	st, err := os.Lstat(path)
	if err != nil || st.Mode().Type() != fs.ModeSocket {
		return false, nil //nolint:nilerr // not there yet; what else it is, inferproxy will tell
	}
	if reach.MayUse(path, uid, unix.W_OK) == nil {
		return false, nil
	}
	if err := reach.MayUse(filepath.Dir(path), uid, unix.X_OK); err != nil {
		return false, closedSocket(path, uid, fmt.Errorf("its folder: %w", err))
	}
	if err := unix.Setxattr(path, "system.posix_acl_access", accessList(st.Mode().Perm(), uid), 0); err != nil {
		return false, closedSocket(path, uid, err)
	}
	if err := reach.MayUse(path, uid, unix.W_OK); err != nil {
		return true, closedSocket(path, uid, err)
	}
	return true, nil
}

func closedSocket(path string, uid uint32, err error) error {
	return &fault.Fault{
		What: fmt.Sprintf("inferproxy (uid %d) may not use the socket %s", uid, path), Err: err,
		Means: "as root, bxctl up runs inferproxy under an unprivileged uid of its own",
		Do:    "put the socket into a folder that others may enter, set inferproxy = <uid of the server> under [uids] in bxctl.toml, or let the server listen on http://127.0.0.1:PORT",
		Key:   "upstream-socket-closed",
	}
}

// accessList is the access list of a file with that mode and one more user who
// may read and write, in the form of the kernel (linux/posix_acl_xattr.h):
// version 2, then tag, rights and id of each entry, little-endian.
func accessList(mode fs.FileMode, uid uint32) []byte {
	const userObj, user, groupObj, mask, other, none = 1, 2, 4, 16, 32, 1<<32 - 1
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, rights uint16
		id          uint32
	}{
		{userObj, uint16(mode >> 6 & 7), none},
		{user, 6, uid},
		{groupObj, uint16(mode >> 3 & 7), none},
		{mask, uint16(mode>>3&7) | 6, none},
		{other, uint16(mode & 7), none},
	} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.rights)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}
