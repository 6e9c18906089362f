package audit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"boxmaker/internal/appendlog"
	"boxmaker/internal/proto"

	"github.com/google/go-cmp/cmp"
)

// breaking is a real folder of which one step fails: before anything reached
// the disk, or after all of it did.
type breaking struct {
	disk
	at        int // which step, from 0
	persisted bool
	steps     []string // that were begun
}

var errDisk = errors.New("input/output error")

func (b *breaking) step(name string, do func() error) error {
	b.steps = append(b.steps, name)
	if len(b.steps)-1 != b.at {
		return do()
	}
	if b.persisted {
		if err := do(); err != nil {
			return err
		}
	}
	return errDisk
}

func (b *breaking) lock() (c io.Closer, err error) {
	err = b.step("lock", func() (err error) { c, err = b.disk.lock(); return err })
	if err != nil && c != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, err
}

func (b *breaking) files() (list []string, err error) {
	err = b.step("list", func() (err error) { list, err = b.disk.files(); return err })
	return list, err
}

func (b *breaking) scan(name string, visit func(int64, []byte) error) (rec appendlog.Recovery, err error) {
	err = b.step("scan", func() (err error) { rec, err = b.disk.scan(name, visit); return err })
	return rec, err
}

func (b *breaking) open(name string, visit func(int64, []byte) error) (m month, rec appendlog.Recovery, err error) {
	err = b.step("open "+name, func() (err error) { m, rec, err = b.disk.open(name, visit); return err })
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		return nil, rec, err
	}
	return &breakingMonth{b, m}, rec, nil
}

type breakingMonth struct {
	b *breaking
	m month
}

func (m *breakingMonth) Append(lines ...[]byte) error {
	return m.b.step("append", func() error { return m.m.Append(lines...) })
}

func (m *breakingMonth) Last() [sha256.Size]byte { return m.m.Last() }

// Close always closes: a descriptor that cannot be closed is gone all the same.
func (m *breakingMonth) Close() error {
	err := m.m.Close()
	return errors.Join(err, m.b.step("close", func() error { return nil }))
}

// TestEveryStepFails fails each step of a life in turn, in both ways. What was
// acknowledged is there afterwards, at most the one record that failed beside
// it, and nothing was written after the failure.
func TestEveryStepFails(t *testing.T) {
	script := func(d *breaking) (acked []string, heads []proto.AuditHead, failed string) {
		c := &clock{march}
		l, err := open(Config{Version: "0.1.0", Now: c.now, Root: d.disk.(rootDisk).root}, d)
		if err != nil {
			if !strings.Contains(err.Error(), "(see runbook: ") {
				t.Errorf("%s: no advice: %v", d.steps[len(d.steps)-1], err)
			}
			return nil, nil, "start"
		}
		defer l.Close()
		acked, heads = []string{"start"}, []proto.AuditHead{l.Head()}
		for i := range 6 {
			c.at = march.AddDate(0, i/2, -20)
			name := fmt.Sprintf("halt %d", i)
			ref, err := l.Append(halt(fmt.Sprint(i)))
			if err != nil {
				if !errors.Is(err, appendlog.ErrBroken) || !strings.Contains(err.Error(), "(see runbook: log-write-failed)") || ref.OK() {
					t.Errorf("%v, %v", ref, err)
				}
				begun := len(d.steps)
				for range 2 { // for good, and without a further try
					if ref, err := l.Append(halt("never")); !errors.Is(err, appendlog.ErrBroken) || ref.OK() || len(d.steps) != begun {
						t.Errorf("after a failure: %v, %v, %q", ref, err, d.steps[begun:])
					}
				}
				if l.Err() == nil || l.Head() != heads[len(heads)-1] && d.steps[begun-1] != "append" {
					t.Errorf("%v, %v", l.Err(), l.Head())
				}
				return acked, heads, name
			}
			acked, heads = append(acked, name), append(heads, ref.Head())
		}
		return acked, heads, ""
	}
	total := 1
	for at := 0; at < total; at++ {
		for _, persisted := range []bool{false, true} {
			root := tempRoot(t)
			// Something is there already, so that an older file is scanned.
			old := mustOpen(t, root, &clock{march.AddDate(0, -1, -10)})
			mustAppend(t, old, halt("old"))
			old.Close()
			old = mustOpen(t, root, &clock{march.AddDate(0, 0, -1)})
			mustAppend(t, old, halt("older"))
			old.Close()
			before, head := kinds(t, root)

			d := &breaking{disk: rootDisk{root}, at: at, persisted: persisted}
			acked, heads, failed := script(d)
			if at == 0 && !persisted { // count the steps once, of a life without failure
				counting := &breaking{disk: rootDisk{tempRoot(t)}, at: -1}
				if _, _, failed := script(counting); failed != "" {
					t.Fatal(failed)
				}
				total = len(counting.steps) + 1 // and the scan
			}
			name := fmt.Sprintf("step %d, %q, persisted %v", at, d.steps[min(at, len(d.steps)-1)], persisted)
			list, _ := kinds(t, root, append(heads, head)...)
			got := list[len(before):]
			for i := range got {
				_, got[i], _ = strings.Cut(got[i], " ")
			}
			want := acked
			if persisted && failed != "" && d.steps[at] == "append" {
				want = append(want, failed)
			}
			if d := cmp.Diff(want, got); d != "" && (len(want) > 0 || len(got) > 0) {
				t.Errorf("%s:\n%s", name, d)
			}
			l := mustOpen(t, root, &clock{march})
			mustAppend(t, l, halt("again"))
			kinds(t, root, append(heads, head, l.Head())...)
			l.Close()
		}
	}
	if total < 12 {
		t.Errorf("only %d steps", total)
	}
}
