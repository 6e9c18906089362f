package units

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"boxmaker/internal/durable"
)

// Write puts the units into a folder, and takes units of roles that are not
// there any more out of it, if they were made here. A file of the same name
// that was not made here is an error.
func Write(dir string, files []File) (removed []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.Name] = true
		if old, err := root.ReadFile(f.Name); err == nil && !ours(old) {
			return nil, errors.New(f.Name + " is there already, and was not made by bxctl init --systemd")
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, f := range files {
		if err := durable.WriteFile(root, f.Name, []byte(f.Text), 0o600); err != nil {
			return nil, err
		}
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if wanted[name] || !strings.HasPrefix(name, unit("")) || !strings.HasSuffix(name, ".service") && !strings.HasSuffix(name, ".socket") {
			continue
		}
		if old, err := root.ReadFile(name); err != nil || !ours(old) {
			continue
		}
		if err := root.Remove(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

func ours(text []byte) bool { return strings.HasPrefix(string(text), "# "+made+"\n") }
