package appendlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxmaker/internal/durable"
)

// The idea of this file: run one scenario again and again, each time with
// another write or sync step failing in another way; then "restart" on a sound
// disk and check that all that was acknowledged is there.

type outcome int

const (
	notPersisted  outcome = iota // the step failed, and nothing of it (or since the last sync) is on disk
	persisted                    // the step failed, and yet all of it is on disk
	halfPersisted                // the step failed half way
)

func (o outcome) String() string {
	return [...]string{"not persisted", "persisted", "half persisted"}[o]
}

var errBroken = errors.New("injected")

// A badDisk breaks its step number breakAt (from 1) with the given outcome.
type badDisk struct {
	rootDisk
	dir     string
	breakAt int
	how     outcome
	steps   []string // what was done
	synced  []byte   // the log's bytes at its last sync
	fresh   bool     // the log's name is not on disk yet
}

// step notes a step and says whether it is the one that breaks.
func (d *badDisk) step(name string) bool {
	d.steps = append(d.steps, name)
	return len(d.steps) == d.breakAt
}

func (d *badDisk) open(name string) (file, error) {
	old, err := os.ReadFile(filepath.Join(d.dir, name))
	d.fresh, d.synced = err != nil, old
	f, err := d.rootDisk.open(name)
	if err != nil {
		return nil, err
	}
	return &badFile{file: f, disk: d, path: filepath.Join(d.dir, name)}, nil
}

func (d *badDisk) create(name string, data []byte) error {
	if !d.step("create") {
		return d.rootDisk.create(name, data)
	}
	var err error
	switch d.how {
	case persisted:
		err = d.rootDisk.create(name, data)
	case halfPersisted: // what durable.Create can leave behind
		err = durable.WriteFile(d.root, "."+name+".litter.tmp", data[:len(data)/2], 0o600)
	}
	return errors.Join(errBroken, err)
}

func (d *badDisk) syncDir(name string) error {
	if !d.step("sync folder") {
		d.fresh = false
		return d.rootDisk.syncDir(name)
	}
	var err error
	if d.fresh && d.how == notPersisted {
		err = os.Remove(filepath.Join(d.dir, "a"))
	}
	return errors.Join(errBroken, err)
}

type badFile struct {
	file
	disk *badDisk
	path string
}

func (f *badFile) Write(p []byte) (int, error) {
	if !f.disk.step("write") {
		return f.file.Write(p)
	}
	n := [...]int{0, len(p), len(p) / 2}[f.disk.how]
	n, err := f.file.Write(p[:n])
	return n, errors.Join(errBroken, err)
}

func (f *badFile) Truncate(size int64) error {
	if !f.disk.step("truncate") {
		return f.file.Truncate(size)
	}
	old, err := f.Size()
	if err == nil {
		err = f.file.Truncate([...]int64{old, size, (old + size) / 2}[f.disk.how])
	}
	return errors.Join(errBroken, err)
}

func (f *badFile) Sync() error {
	now, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	if !f.disk.step("sync") {
		f.disk.synced = now
		return f.file.Sync()
	}
	onDisk := now
	switch old := f.disk.synced; {
	case f.disk.how == notPersisted:
		onDisk = old
	case f.disk.how == halfPersisted && len(now) > len(old):
		onDisk = now[:(len(old)+len(now))/2]
	case f.disk.how == halfPersisted: // half of a cut
		onDisk = old[:(len(old)+len(now))/2]
	}
	return errors.Join(errBroken, os.WriteFile(f.path, onDisk, 0o600))
}

// A scenario opens the log, appends one line, then two in one batch, then one.
// It gives the lines that were acknowledged and those of the failed call.
func scenario(t *testing.T, d *badDisk, before []string) (acked, tried []string) {
	t.Helper()
	acked = before
	l, rec, err := open(Config{Root: d.root, Name: "a"}, d)
	if err != nil {
		if !errors.Is(err, errBroken) {
			t.Fatalf("open: %v", err)
		}
		return acked, nil
	}
	defer l.Close()
	if rec.Records != int64(len(before)) {
		t.Fatalf("open: %+v", rec)
	}
	for _, batch := range [][]string{{`{"one":1}`}, {`{"two":2}`, `{"three":3}`}, {`{"four":4}`}} {
		size, n := l.Size(), l.Len()
		if err := l.Append(asBytes(batch)...); err != nil {
			if !errors.Is(err, errBroken) || !errors.Is(err, ErrBroken) || !strings.HasSuffix(err.Error(), "(see runbook: log-write-failed)") {
				t.Fatalf("append: %v", err)
			}
			if err := l.Append([]byte(`{"more":1}`)); !errors.Is(err, ErrBroken) {
				t.Fatalf("append to a broken log: %v", err)
			}
			if l.Size() != size || l.Len() != n {
				t.Fatalf("a failed append counts: size %d, %d lines", l.Size(), l.Len())
			}
			return acked, batch
		}
		acked = append(acked, batch...)
	}
	return acked, nil
}

func TestEveryStepFails(t *testing.T) {
	for _, start := range []struct {
		name   string
		lines  []string
		tail   string
		exists bool
	}{
		{"no file", nil, "", false},
		{"three lines", numbered(0, 3), "", true},
		{"three lines and a torn tail", numbered(0, 3), `{"i":3,"text":"li`, true},
	} {
		var steps []string
		for k := 0; k <= len(steps); k++ {
			for _, how := range []outcome{notPersisted, persisted, halfPersisted} {
				d := runBroken(t, start.lines, start.tail, start.exists, k, how)
				if k == 0 {
					steps = d.steps // the run without a failure tells what there is to break
				}
			}
		}
		t.Logf("%s: broke %q", start.name, steps)
		want := 8 // sync, sync folder, and two for each append
		if start.tail != "" {
			want += 2 // create, truncate
		}
		if len(steps) != want {
			t.Errorf("%s: %d steps, want %d", start.name, len(steps), want)
		}
	}
}

func runBroken(t *testing.T, lines []string, tail string, exists bool, breakAt int, how outcome) *badDisk {
	t.Helper()
	root, dir := tempRoot(t)
	if exists {
		write(t, dir, "a", append(sealed(lines...), tail...))
	}
	d := &badDisk{rootDisk: rootDisk{root}, dir: dir, breakAt: breakAt, how: how}
	acked, tried := scenario(t, d, lines)
	what := "nothing breaks"
	if breakAt > 0 {
		if len(d.steps) != breakAt {
			t.Fatalf("step %d was not the last: %q", breakAt, d.steps)
		}
		what = fmt.Sprintf("step %d (%s) fails, %v", breakAt, d.steps[breakAt-1], how)
	}
	l, rec, got := mustOpen(t, root, "a")
	defer l.Close()
	// All that was acknowledged, then a beginning of what was tried.
	more := len(got) - len(acked)
	if more < 0 || more > len(tried) || !slices.Equal(got, append(slices.Clone(acked), tried[:more]...)) {
		t.Fatalf("%s: acknowledged %q, tried %q, found %q", what, acked, tried, got)
	}
	switch {
	case how == persisted && more != len(tried):
		t.Errorf("%s: %d of %d lines were taken", what, more, len(tried))
	case how == notPersisted && more != 0:
		t.Errorf("%s: lines %q come from nowhere", what, got[len(acked):])
	case how != halfPersisted && len(tried) > 0 && rec.Torn != 0:
		t.Errorf("%s: torn: %+v", what, rec)
	}
	if tail != "" {
		checkSaved(t, dir, tail)
	}
	if err := l.Append([]byte(`{"after":true}`)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if last, err := LastLine(root, "a"); err != nil || string(last) != `{"after":true}` {
		t.Errorf("%s: last line %q, %v", what, last, err)
	}
	return d
}

// checkSaved: the torn bytes are in a side file, whatever happened; a cut that
// was persisted half way may have left a second one with their beginning.
func checkSaved(t *testing.T, dir, tail string) {
	t.Helper()
	sides, err := filepath.Glob(filepath.Join(dir, "a.torn-*"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range sides {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		found = found || string(b) == tail
	}
	if !found {
		t.Errorf("the torn tail is in none of %q", sides)
	}
}
