package approve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"boxmaker/internal/durable"
	"boxmaker/internal/strict"
)

// folder holds a file for each item, in gatewayd's state.
const folder = "approvals"

// A store keeps items on disk, each in a file of its own.
type store struct{ root *os.Root }

// load reads all items. A file that cannot be read is moved aside and named in bad.
func (s store) load() (items map[string]*Item, bad []string, err error) {
	if err := durable.Mkdir(s.root, folder, 0o700); err != nil {
		return nil, nil, err
	}
	entries, err := fs.ReadDir(s.root.FS(), folder)
	if err != nil {
		return nil, nil, fmt.Errorf("approve: %w", err)
	}
	items = map[string]*Item{}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			if strings.HasSuffix(name, ".tmp") {
				err = s.root.Remove(name)
			}
		} else if i, bade := s.read(name, id); bade == nil {
			items[id] = i
		} else {
			bad = append(bad, fmt.Sprintf("%s: %v", name, bade))
			err = s.root.Rename(name, path.Join(folder, id+".bad"))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("approve: %w", err)
		}
	}
	return items, bad, nil
}

func (s store) read(name, id string) (*Item, error) {
	b, err := s.root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	i := new(Item)
	if err := strict.Unmarshal(b, i); err != nil {
		return nil, err
	}
	if i.ID != id {
		return nil, errors.New("the file is of another approval")
	}
	return i, nil
}

func (s store) save(i *Item) error {
	b, err := strict.Marshal(i)
	if err == nil {
		err = durable.WriteFile(s.root, path.Join(folder, i.ID+".json"), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("an approval of the chat cannot be made durable: %w (see runbook: gatewayd-state)", err)
	}
	return nil
}

func (s store) remove(id string) error {
	err := s.root.Remove(path.Join(folder, id+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
