package setup

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"boxmaker/internal/config"
	"boxmaker/internal/durable"
	"boxmaker/internal/secret"

	"github.com/pelletier/go-toml/v2"
)

//go:embed files/grants/*.toml files/welcome.md
var examples embed.FS

// Folders lists the folders that init makes, each for its owner alone.
func Folders(l config.Layout) []string {
	return []string{l.Config, l.Sessions, l.Run, l.Log, l.Audit, l.Broker, l.Secrets, l.Keys, l.Anchors}
}

func makeFolders(l config.Layout) error {
	for _, dir := range Folders(l) {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Complete adds what an installation of an earlier version lacks for its start:
// folders and configuration files, as they are by default, and the secret store. It gives no
// rights: the example grants are init's alone to write.
func Complete(l config.Layout) (added []string, err error) {
	if err := makeFolders(l); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(l.Config)
	if err != nil {
		return nil, unwritable(l.Config, err)
	}
	defer root.Close()
	for _, f := range configFiles() {
		if _, err := root.Lstat(f.name); !errors.Is(err, fs.ErrNotExist) {
			continue // there, or for the reader to complain about
		}
		if f.name == FileBxctl || f.name == FileProxy || f.name == FileLoopd {
			continue // without these it was never set up
		}
		if err := writeNew(root, f.name, f.text, 0o600); err != nil {
			return added, unwritable(l.Config, err)
		}
		added = append(added, filepath.Join(l.Config, f.name))
	}
	made, err := makeStore(l)
	return append(added, made...), err
}

// KeyFile is where the key of brokerd's secrets is, as far as a file says.
func KeyFile(l config.Layout) string {
	var conf struct {
		Secrets struct {
			Key string `toml:"key"`
		} `toml:"secrets"`
	}
	b, err := os.ReadFile(filepath.Join(l.Config, FileBroker))
	if err == nil && toml.Unmarshal(b, &conf) == nil && conf.Secrets.Key != "" {
		return conf.Secrets.Key
	}
	return filepath.Join(l.Keys, BrokerKey)
}

// makeStore makes an empty store of secrets, and its key elsewhere, unless there
// is a store: then its key may be anywhere, a systemd credential for instance.
func makeStore(l config.Layout) (made []string, err error) {
	if _, err := os.Lstat(filepath.Join(l.Secrets, secret.FileName)); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilerr // brokerd and bxctl doctor look closer
	}
	c := secret.Config{Dir: l.Secrets, Key: secret.Key{File: filepath.Join(l.Keys, BrokerKey)}}
	if os.Geteuid() == 0 {
		s, _, err := Load(l)
		if err != nil {
			return nil, err
		}
		c.Owner = int(s.UID("brokerd"))
	}
	return secret.Create(c)
}

// authority makes what the owner's rights begin with: the workspace, the grants
// about it, and the store of secrets, each if there is none.
func (j Job) authority(r *Report) error {
	l := j.Layout
	made, err := makeWhole(l.Workspace, 0o700, func(root *os.Root) error {
		text, err := examples.ReadFile("files/welcome.md")
		if err != nil {
			return err
		}
		return writeNew(root, "welcome.md", string(text), 0o600)
	})
	if err != nil {
		return err
	}
	if made {
		r.Made = append(r.Made, "workspace: "+l.Workspace)
	}
	grants := 0
	made, err = makeWhole(l.Grants, 0o700, func(root *os.Root) error {
		files, err := ExampleGrants(l.Workspace)
		for name, text := range files {
			err = errors.Join(err, writeNew(root, name, text, 0o600))
		}
		grants = len(files)
		return err
	})
	if err != nil {
		return err
	}
	if made {
		r.Made = append(r.Made, fmt.Sprintf("grants: %d examples about the workspace, in %s", grants, l.Grants))
	}
	files, err := makeStore(l)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		r.Made = append(r.Made, "secrets: none yet, in "+l.Secrets+"; their key is in "+l.Keys)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	s, _, err := Load(l)
	if err != nil {
		return err
	}
	return Own(l, s)
}

// ExampleGrants gives the grants of a new installation, by file name.
func ExampleGrants(workspace string) (map[string]string, error) {
	entries, err := examples.ReadDir("files/grants")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		text, err := examples.ReadFile("files/grants/" + e.Name())
		if err != nil {
			return nil, err
		}
		out[e.Name()] = strings.ReplaceAll(string(text), "@WORKSPACE@", literal(workspace))
	}
	return out, nil
}

// makeWhole makes a folder with what is in it, or nothing: one that is there is
// left as it is.
func makeWhole(dir string, mode fs.FileMode, fill func(*os.Root) error) (made bool, err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	above := filepath.Dir(dir)
	if err := makeDir(above); err != nil {
		return false, err
	}
	tmp, err := os.MkdirTemp(above, "."+filepath.Base(dir)+"-*.tmp")
	if err != nil {
		return false, unwritable(above, err)
	}
	defer os.RemoveAll(tmp)
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return false, unwritable(above, err)
	}
	if err := errors.Join(fill(root), root.Close(), os.Chmod(tmp, mode)); err != nil {
		return false, unwritable(dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return false, unwritable(dir, err)
	}
	return true, nil
}

func writeNew(root *os.Root, name, text string, mode fs.FileMode) error {
	return durable.Create(root, name, []byte(text), mode)
}
