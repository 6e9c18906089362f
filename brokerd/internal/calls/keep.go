package calls

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"boxmaker/internal/durable"
	"boxmaker/internal/proto"
	"boxmaker/internal/strict"
)

// A Kept is a result as it waits for loopd, with what its outcome record needs.
type Kept struct {
	V       int                `json:"v"`
	Digest  string             `json:"digest"` // of the call, as package policy gives it
	Result  proto.CallResult   `json:"result"`
	MS      int64              `json:"ms"`
	Egress  []proto.EgressConn `json:"egress,omitempty"`
	More    int64              `json:"more,omitzero"`
	Detail  string             `json:"detail,omitzero"`
	Session string             `json:"session"`
}

// keptVersion is the version of the files.
const keptVersion = 1

// Validate checks all parts.
func (k *Kept) Validate() error {
	errs := []error{proto.CheckHash(k.Digest), k.Result.Validate(), proto.CheckSession(k.Session)}
	if k.V != keptVersion {
		errs = append(errs, fmt.Errorf("calls: a kept result of version %d", k.V))
	}
	if k.MS < 0 || k.More < 0 {
		errs = append(errs, errors.New("calls: a negative number in a kept result"))
	}
	for _, c := range k.Egress {
		errs = append(errs, c.Validate())
	}
	return errors.Join(errs...)
}

// Outcome is the record of this result.
func (k *Kept) Outcome() *proto.AuditOutcome {
	sum := sha256.Sum256([]byte(k.Result.Text))
	return &proto.AuditOutcome{
		ID: k.Result.ID, Outcome: k.Result.Outcome, Code: k.Result.Code, Class: k.Result.Class, Untrusted: k.Result.Untrusted,
		Bytes: int64(len(k.Result.Text)), Hash: hex.EncodeToString(sum[:]), MS: k.MS, Egress: k.Egress, More: k.More, Detail: k.Detail,
	}
}

// Results are the kept results: one file each, in the folder results. A result
// is on disk when Put has returned nil, and stays until Drop. Nothing of it is
// held in memory but its id.
type Results struct {
	root *os.Root

	mu  sync.Mutex
	ids map[string]bool // guarded by mu
}

const resultsFolder = "results"

// OpenResults reads which results are kept. A file that cannot be read is moved
// aside and named in bad: its call then counts as one whose fate is unknown.
func OpenResults(root *os.Root) (r *Results, bad []string, err error) {
	if err := durable.Mkdir(root, resultsFolder, 0o700); err != nil {
		return nil, nil, err
	}
	r = &Results{root: root, ids: map[string]bool{}}
	entries, err := fs.ReadDir(root.FS(), resultsFolder)
	if err != nil {
		return nil, nil, fmt.Errorf("calls: kept results: %w", err)
	}
	for _, e := range entries {
		name := path.Join(resultsFolder, e.Name())
		switch {
		case strings.HasSuffix(name, ".tmp"): // of a write that a crash cut short
			if err := root.Remove(name); err != nil {
				return nil, nil, fmt.Errorf("calls: kept results: %w", err)
			}
		case strings.HasSuffix(name, ".json"):
			k, err := r.read(name)
			if err == nil && r.name(k.Result.ID) != name {
				err = fmt.Errorf("calls: it is the result of %s", k.Result.ID)
			}
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", name, err))
				if err := root.Rename(name, strings.TrimSuffix(name, ".json")+".bad"); err != nil {
					return nil, nil, fmt.Errorf("calls: kept results: %w", err)
				}
				continue
			}
			r.ids[k.Result.ID] = true
		}
	}
	return r, bad, nil
}

// Put keeps a result.
func (r *Results) Put(k *Kept) error {
	k.V = keptVersion
	b, err := strict.Marshal(k)
	if err == nil {
		err = durable.WriteFile(r.root, r.name(k.Result.ID), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the result of a call cannot be kept: %w (see runbook: brokerd-state)", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[k.Result.ID] = true
	return nil
}

// Get gives a kept result, or nil if there is none.
func (r *Results) Get(id string) (*Kept, error) {
	if !r.Has(id) {
		return nil, nil
	}
	k, err := r.read(r.name(id))
	if err != nil {
		return nil, fmt.Errorf("the kept result of %s cannot be read: %w (see runbook: brokerd-state)", id, err)
	}
	return k, nil
}

// Has reports whether the result is kept.
func (r *Results) Has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id]
}

// Drop forgets a result. After a crash it may be there once more, which loopd
// does not mind.
func (r *Results) Drop(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ids[id] {
		return nil
	}
	if err := r.root.Remove(r.name(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a confirmed result cannot be removed: %w (see runbook: brokerd-state)", err)
	}
	delete(r.ids, id)
	return nil
}

// IDs lists the calls whose results are kept.
func (r *Results) IDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.ids))
}

// Count is how many results are kept.
func (r *Results) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

func (r *Results) read(name string) (*Kept, error) {
	b, err := r.root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	k := new(Kept)
	if err := strict.Unmarshal(b, k); err != nil {
		return nil, err
	}
	return k, nil
}

func (r *Results) name(id string) string {
	sum := sha256.Sum256([]byte(id))
	return path.Join(resultsFolder, hex.EncodeToString(sum[:])+".json")
}
