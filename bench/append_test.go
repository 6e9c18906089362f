package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/appendlog"
)

// durableAppend compares one durable append to a log with what the disk itself
// asks for: one write and one fsync of the same bytes. The two take turns, so
// that a disk whose speed changes changes it for both.
func durableAppend(t *testing.T) []row {
	dir := t.TempDir()
	root := must[*os.Root](t)(os.OpenRoot(dir))
	defer root.Close()
	log, _, err := appendlog.Open(appendlog.Config{Root: root, Name: "log.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	bare := must[*os.File](t)(os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))
	defer bare.Close()

	line := []byte(`{"n":1,"text":"` + strings.Repeat("x", 1000) + `"}`)
	onDisk := append(append([]byte{}, line[:len(line)-1]...), []byte(`,"crc":"00000000"}`+"\n")...)
	var ours, theirs []time.Duration
	for range pick(1000, 3) {
		theirs = append(theirs, took(func() {
			if _, err := bare.Write(onDisk); err != nil {
				t.Fatal(err)
			}
			if err := bare.Sync(); err != nil {
				t.Fatal(err)
			}
		}))
		ours = append(ours, took(func() {
			if err := log.Append(line); err != nil {
				t.Fatal(err)
			}
		}))
	}
	a, b := median(ours), median(theirs)
	ratio := float64(a) / float64(b)
	return []row{{
		what: "one durable append, 1 KB, against write + fsync", got: fmt.Sprintf("%.2f", ratio), target: "<= 1.3",
		met: ratio <= 1.3, note: fmt.Sprintf("%v against %v", a, b),
	}}
}
