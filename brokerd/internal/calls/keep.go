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
	"time"

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

	mu    sync.Mutex // guards what follows
	ids   map[string]file
	bytes int64
}

// A file is what is known of a kept result without reading it.
type file struct {
	size int64
	mod  time.Time
	put  time.Time // by this process; the zero time if it was there before
}

const resultsFolder = "results"

// OpenResults reads which results are kept. A file that cannot be read is moved
// aside and named in bad: its call then counts as one whose fate is unknown.
func OpenResults(root *os.Root) (r *Results, bad []string, err error) {
	if err := durable.Mkdir(root, resultsFolder, 0o700); err != nil {
		return nil, nil, err
	}
	r = &Results{root: root, ids: map[string]file{}}
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
			info, err := e.Info()
			if err != nil {
				return nil, nil, fmt.Errorf("calls: kept results: %w", err)
			}
			r.note(k.Result.ID, file{size: info.Size(), mod: info.ModTime()})
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
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(k.Result.ID, file{size: int64(len(b)), mod: now, put: now})
	return nil
}

// note takes a file into account. Precondition: mu is held, or nobody else has r.
func (r *Results) note(id string, f file) {
	r.bytes += f.size - r.ids[id].size
	r.ids[id] = f
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
	_, there := r.ids[id]
	return there
}

// Drop forgets a result. After a crash it may be there once more, which loopd
// does not mind.
func (r *Results) Drop(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, there := r.ids[id]
	if !there {
		return nil
	}
	if err := r.root.Remove(r.name(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a confirmed result cannot be removed: %w (see runbook: brokerd-state)", err)
	}
	delete(r.ids, id)
	r.bytes -= f.size
	return nil
}

// Bounds of what is kept. Zero stands for none.
type Bounds struct {
	Count int
	Bytes int64
}

// Young is how long a result is kept in any case: loopd takes it within seconds,
// and a turn goes on after a restart as soon as loopd is there again.
const Young = 10 * time.Minute

// Room drops the oldest results until there is room for one more, and reports
// whether there is. What is young, or what spare names, stays. Whoever asks for
// one that was dropped is told that its fate is unknown, since the log has it.
// It does not go by the time of day, which can jump.
func (r *Results) Room(b Bounds, spare func(id string) bool) (room bool, dropped []string, err error) {
	for {
		old, full := r.oldest(b, spare)
		if !full || old == "" {
			return !full, dropped, nil
		}
		if err := r.Drop(old); err != nil {
			return false, dropped, err
		}
		dropped = append(dropped, old)
	}
}

// oldest gives the result that can be dropped first, if there is one, and
// whether one has to be.
func (r *Results) oldest(b Bounds, spare func(id string) bool) (id string, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (b.Count <= 0 || len(r.ids) < b.Count) && (b.Bytes <= 0 || r.bytes < b.Bytes) {
		return "", false
	}
	var first file
	for k, f := range r.ids {
		if !f.put.IsZero() && time.Since(f.put) < Young || spare(k) {
			continue
		}
		if id == "" || f.before(first) || f.mod.Equal(first.mod) && k < id {
			id, first = k, f
		}
	}
	return id, true
}

// before orders files: those of an earlier process come first.
func (f file) before(g file) bool {
	if f.put.IsZero() != g.put.IsZero() {
		return f.put.IsZero()
	}
	return f.mod.Before(g.mod)
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
