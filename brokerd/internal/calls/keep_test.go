package calls

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/strict"

	"github.com/google/go-cmp/cmp"
)

func result(id, text string) *Kept {
	return &Kept{
		Digest: digest, Session: "s", MS: 7,
		Result: proto.CallResult{ID: id, Outcome: proto.CallOK, Class: proto.ClassPrivate, Untrusted: true, Text: text, Dropped: 3},
		Egress: []proto.EgressConn{{Host: "h:443", Verdict: proto.EgressPassed, Sent: 5}},
	}
}

func open(t *testing.T, dir string) (*Results, []string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	r, bad, err := OpenResults(root)
	if err != nil {
		t.Fatal(err)
	}
	return r, bad
}

func TestResultsAreKeptUntilDropped(t *testing.T) {
	dir := t.TempDir()
	r, _ := open(t, dir)
	a, b := result("s/1/1/0", "one\x00 é"), result("s/1/2/0", "two")
	for _, k := range []*Kept{a, b} {
		if err := r.Put(k); err != nil {
			t.Fatal(err)
		}
	}
	again, bad := open(t, dir) // as after a crash
	if got, err := again.Get("s/1/1/0"); err != nil || len(bad) > 0 || !cmp.Equal(got, a) {
		t.Errorf("%v %v %v", cmp.Diff(a, got), bad, err)
	}
	if err := again.Drop("s/1/1/0"); err != nil {
		t.Fatal(err)
	}
	if err := again.Drop("s/1/1/0"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if got, err := again.Get("s/1/1/0"); got != nil || err != nil || again.Count() != 1 {
		t.Errorf("%v %v %d", got, err, again.Count())
	}
	third, _ := open(t, dir)
	if ids := third.IDs(); !cmp.Equal(ids, []string{"s/1/2/0"}) {
		t.Errorf("%v", ids)
	}
}

func TestADamagedResultIsSetAside(t *testing.T) {
	dir := t.TempDir()
	r, _ := open(t, dir)
	k := result("s/1/1/0", "one")
	if err := r.Put(k); err != nil {
		t.Fatal(err)
	}
	good, err := strict.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		text []byte
	}{
		{"cut", good[:len(good)-9]},
		{"empty", nil},
		{"another version", []byte(strings.Replace(string(good), `"v":1`, `"v":2`, 1))},
		{"of another call", []byte(strings.Replace(string(good), `s/1/1/0`, `s/1/9/0`, 1))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(dir, filepath.FromSlash(r.name("s/1/1/0")))
			if err := os.WriteFile(file, tc.text, 0o600); err != nil {
				t.Fatal(err)
			}
			again, bad := open(t, dir)
			if len(bad) != 1 || again.Has("s/1/1/0") {
				t.Errorf("%v", bad)
			}
			if _, err := os.Stat(strings.TrimSuffix(file, ".json") + ".bad"); err != nil {
				t.Error("it was not kept for a look")
			}
		})
	}
}

func FuzzKept(f *testing.F) {
	b, _ := strict.Marshal(func() *Kept { k := result("s/1/1/0", "x"); k.V = keptVersion; return k }())
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		k := new(Kept)
		if strict.Unmarshal(b, k) != nil {
			return
		}
		again, err := strict.Marshal(k)
		if err != nil || string(again) != string(b) {
			t.Errorf("%s %v", again, err)
		}
	})
}

// TestRoom: the oldest go first, by number or by size; what is young stays, and
// what is not on record yet.
func TestRoom(t *testing.T) {
	none := func(string) bool { return false }
	for _, tc := range []struct {
		name  string
		b     Bounds
		spare func(string) bool
		room  bool
		want  []string // that are left
	}{
		{"no bounds", Bounds{}, none, true, []string{"s/1/1/0", "s/1/2/0", "s/1/3/0"}},
		{"room for one", Bounds{Count: 4}, none, true, []string{"s/1/1/0", "s/1/2/0", "s/1/3/0"}},
		{"one too many", Bounds{Count: 3}, none, true, []string{"s/1/2/0", "s/1/3/0"}},
		{"too large", Bounds{Count: 9, Bytes: 1500}, none, true, []string{"s/1/3/0"}},
		{"not that one", Bounds{Count: 3}, func(id string) bool { return id == "s/1/1/0" }, true, []string{"s/1/1/0", "s/1/3/0"}},
		{"none of them", Bounds{Count: 3}, func(string) bool { return true }, false, []string{"s/1/1/0", "s/1/2/0", "s/1/3/0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			r, _ := open(t, dir)
			for _, id := range []string{"s/1/1/0", "s/1/2/0", "s/1/3/0"} {
				if err := r.Put(result(id, strings.Repeat("x", 500))); err != nil {
					t.Fatal(err)
				}
			}
			if room, dropped, err := r.Room(Bounds{Count: 1}, none); room || len(dropped) > 0 || err != nil {
				t.Errorf("young ones were dropped: %v, %v", dropped, err)
			}
			for i, id := range []string{"s/1/1/0", "s/1/2/0", "s/1/3/0"} {
				at := time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC)
				if err := os.Chtimes(filepath.Join(dir, r.name(id)), at, at); err != nil {
					t.Fatal(err)
				}
			}
			again, _ := open(t, dir)
			room, dropped, err := again.Room(tc.b, tc.spare)
			if err != nil || room != tc.room || len(dropped) != 3-len(tc.want) || !cmp.Equal(again.IDs(), tc.want) {
				t.Errorf("room %v, dropped %v, left %v, %v", room, dropped, again.IDs(), err)
			}
			third, _ := open(t, dir)
			if !cmp.Equal(third.IDs(), tc.want) || third.bytes != again.bytes {
				t.Errorf("on disk: %v, %d bytes and not %d", third.IDs(), third.bytes, again.bytes)
			}
		})
	}
}
