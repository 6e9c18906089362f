package appendlog

import (
	"errors"
	"os"
)

// Back reads the whole lines of a log from its end towards its start, for who
// wants the newest and not the rest; its cost does not grow with the file. It
// begins in front of byte end, or at the file's end if end is negative, and
// goes on until visit returns an error, which it returns, or the start is
// reached. start is the offset of the line, fit to be the end of a later call.
// A torn tail is passed over; any other line that is not whole is damage. It
// takes no lock, and lines that were not visited are not checked.
func Back(root *os.Root, name string, end int64, visit func(start int64, line []byte) error) (err error) {
	f, size, err := openRead(root, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	torn := end < 0 || end > size // only then may the last line be one that is being written
	if torn {
		end = size
	}
	for end > 0 {
		raw, err := rawBefore(f, end)
		if err != nil {
			return ownerError("read", name, err)
		}
		start := end - int64(len(raw))
		line, ok := unsealWhole(raw)
		switch {
		case ok:
			if err := visit(start, line); err != nil {
				return err
			}
		case !torn:
			return &damage{name: name, offset: start, cause: "its checksum does not fit, and it is not the last line"}
		}
		torn = false
		end = start
	}
	return nil
}
