package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"boxmaker/internal/durable"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Going is what a long step has when it is interrupted.
type Going struct {
	Depth    *growing  `json:"depth,omitzero"`
	Thinking *Thinking `json:"thinking,omitzero"`
	Thoughts int       `json:"thoughts,omitzero"` // parts of it that are there
}

// going is never nil.
func (r *run) going() *Going {
	if r.res.Going == nil {
		r.res.Going = &Going{}
	}
	return r.res.Going
}

// resume takes up the results of an earlier run, if they are of this server and
// of this structure; else it begins anew.
func (r *run) resume(s Server) error {
	r.res = &Results{Form: form, Version: r.Version, Started: r.Now().UTC(), Server: s, Raw: []Raw{}}
	if r.Fresh {
		return nil
	}
	old, err := Read(r.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		r.Note("the results of an earlier run can't be read, and are measured anew: " + err.Error())
		return nil
	case old.Form != form || old.Version != r.Version:
		r.Note("an earlier run was of another version of bxctl: all is measured anew")
		return nil
	case !old.Server.same(s):
		r.Note("an earlier run was of another server: all is measured anew")
		return nil
	case !old.Ended.IsZero():
		return nil // it is finished, so this is a new one
	}
	r.Note("going on with the run of " + old.Started.Local().Format("2 Jan 15:04"))
	old.Server = s
	r.res = old
	return nil
}

// Read gives the results of a state file.
func Read(path string) (*Results, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	res := &Results{}
	if err := json.Unmarshal(b, res); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return res, nil
}

// save keeps the results.
func (r *run) save() error {
	b, err := json.Marshal(r.res, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return Write(r.State, append(b, '\n'))
}

// Write makes a file of the measurements, with its folder.
func Write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(durable.WriteFile(root, filepath.Base(path), b, 0o600), root.Close())
}
