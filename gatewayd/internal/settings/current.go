package settings

import (
	"errors"
	"io/fs"
	"os"

	"boxmaker/internal/config"
	"boxmaker/internal/durable"
	"boxmaker/internal/filestamp"

	"golang.org/x/sys/unix"
)

// keptName is the copy, in gatewayd's own folder, of settings that a change of the
// file replaces.
const keptName = "settings.toml"

// Current are the settings that hold, and the file as it was when they were read.
//
// Once gatewayd is confined it cannot read the file, so that a change is taken over
// by a new start. [Current.Keep] sees to it that such a start does not end in a
// refusal because of a slip of the pen: then what held before still holds.
type Current struct {
	Settings
	Trouble error // why the file does not hold as it is; nil: it does

	path  string
	text  []byte
	file  *os.File // held open: the folder may be out of reach later; nil: it was not there
	stamp filestamp.Stamp
}

// Read gives the settings of a file, or those that were kept if it cannot be used.
func Read(path string, state *os.Root) (*Current, error) {
	c := &Current{path: path}
	if f, err := os.OpenFile(path, unix.O_PATH, 0); err == nil { // before it is read: what comes in between is a change
		c.file = f
		c.stamp, _ = c.now()
	}
	var err error
	if c.Settings, err = Load(path); err == nil {
		c.text, err = os.ReadFile(path)
	}
	if err == nil {
		if gone := state.Remove(keptName); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return nil, &config.Error{What: "the folder of gatewayd's state cannot be written", Do: "free space, or give it back to gatewayd's user", Runbook: "gatewayd-state", Err: gone}
		}
		return c, nil
	}
	text, gone := state.ReadFile(keptName)
	if gone != nil {
		return nil, err
	}
	kept := Default()
	if _, bad := config.Decode(keptName, text, &kept); bad != nil {
		return nil, err
	}
	c.Settings, c.Trouble, c.text = kept, err, text
	return c, nil
}

// Changed reports that the file is another one now. The inode of one that was
// replaced or removed tells of that too.
func (c *Current) Changed() bool {
	now, ok := c.now()
	return ok && now != c.stamp
}

// now is the state of the file that was read, or of the first that comes in the place
// of none.
func (c *Current) now() (filestamp.Stamp, bool) {
	stat := func() (os.FileInfo, error) { return os.Stat(c.path) }
	if c.file != nil {
		stat = c.file.Stat
	}
	fi, err := stat()
	if err != nil {
		return filestamp.Stamp{}, false
	}
	return filestamp.OfInfo(fi)
}

// Keep makes the settings durable, for a start that finds a file which cannot be used.
func (c *Current) Keep(state *os.Root) error {
	return durable.WriteFile(state, keptName, c.text, 0o600)
}
