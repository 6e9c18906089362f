package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// Once everything is stopped nothing starts any more, also not a call that was
// allowed just before and has not heard of it.
func TestNothingStartsAfterAHalt(t *testing.T) {
	w := setUp(t)
	w.setFault(func(step string) error {
		if step == "run" { // as Halt does first
			w.d.mu.Lock()
			defer w.d.mu.Unlock()
			w.d.halt = haltState{on: true}
		}
		return nil
	})
	r := w.call(read("s/1/1/0", "/data/a"))
	if r.Outcome != proto.CallDenied || r.Code != proto.CodeHalted || w.runner.count("s/1/1/0") != 0 {
		t.Errorf("%+v, and it ran %d times", r, w.runner.count("s/1/1/0"))
	}
}

// A loopd that never confirms cannot fill the disk with results.
func TestResultsThatNobodyConfirms(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.limits.Kept.Count = 2
	w.grant("10-read.toml", grantRead)
	w.start()
	defer w.end()
	for i := range 2 {
		w.call(read(fmt.Sprintf("s/1/%d/0", i+1), "/data/a"))
	}
	_, err := w.d.Call(context.Background(), read("s/1/3/0", "/data/a"), nil)
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != proto.ErrNotReady {
		t.Fatal(err)
	}
	if err := w.d.Confirm("s/1/1/0"); err != nil {
		t.Fatal(err)
	}
	if r := w.call(read("s/1/3/0", "/data/a")); r.Outcome != proto.CallOK {
		t.Errorf("%+v", r)
	}
}

// The name of a host that a tool asks for is the tool's own text.
func TestASecretInTheNameOfAHost(t *testing.T) {
	w := setUp(t)
	w.grant("30-fetch.toml", grantFetch)
	w.doors.host = "hunter2-hunter2.example.com:443"
	w.call(fetch("s/1/1/0"))
	for _, dir := range []string{"audit", "state/results"} {
		files, err := filepath.Glob(filepath.Join(w.dir, dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err != nil || strings.Contains(string(text), "hunter2") {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
}
