package chain

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// verifies writes the files to a folder of their own and verifies them.
func verifies(t *rapid.T, files map[string][]byte, a []Anchor) Report {
	dir, err := os.MkdirTemp("", "chain")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, content := range files {
		if err := root.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := Verify(Config{Root: root, Anchors: a})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestNoHarmIsMissed: whatever is done to a log of which the head is known
// elsewhere, it does not verify any more. Harm other than a cut or a fork does
// not even need the head.
func TestNoHarmIsMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		perFile := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(rt, "perFile")
		b, heads := write(t, perFile, never)
		total := len(heads) - 1
		head := anchors(heads[total])
		pick := func(name string) (string, int) { return b.place(rapid.IntRange(0, total-1).Draw(rt, name)) }
		files := func() map[string][]byte { return b.bytes() }
		spoil := map[string]func() (out map[string][]byte, needsHead bool){
			"nothing": func() (map[string][]byte, bool) { return nil, false },
			"a byte": func() (map[string][]byte, bool) {
				all := files()
				name, _ := pick("in")
				i := rapid.IntRange(0, len(all[name])-1).Draw(rt, "offset")
				all[name][i] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
				return all, false
			},
			"a byte removed": func() (map[string][]byte, bool) {
				all := files()
				name, _ := pick("in")
				i := rapid.IntRange(0, len(all[name])-1).Draw(rt, "offset")
				all[name] = slices.Delete(all[name], i, i+1)
				return all, false
			},
			"a byte put in": func() (map[string][]byte, bool) {
				all := files()
				name, _ := pick("in")
				i := rapid.IntRange(0, len(all[name])).Draw(rt, "offset")
				all[name] = slices.Insert(all[name], i, rapid.Byte().Draw(rt, "byte"))
				return all, false
			},
			"a line changed and sealed again": func() (map[string][]byte, bool) {
				name, i := pick("line")
				line := append(bytes.Clone(b[name][i][:len(b[name][i])-19]), '}')
				// Within a string or number, so that it stays a record of the same number.
				at := bytes.LastIndex(line, []byte(`"kind"`)) + rapid.IntRange(9, len(line)-1-bytes.LastIndex(line, []byte(`"kind"`))).Draw(rt, "at")
				line[min(at, len(line)-2)] ^= 1
				if bytes.ContainsAny(line, "\n") {
					return nil, false
				}
				b[name][i] = seal(line)
				return files(), true
			},
			"a line removed": func() (map[string][]byte, bool) {
				name, i := pick("line")
				b[name] = slices.Delete(b[name], i, i+1)
				return files(), true // it may be the last
			},
			"a line twice": func() (map[string][]byte, bool) {
				from, i := pick("line")
				to, j := pick("to")
				b[to] = slices.Insert(b[to], j, b[from][i])
				return files(), false
			},
			"two lines swapped": func() (map[string][]byte, bool) {
				from, i := pick("line")
				to, j := pick("with")
				if from == to && i == j {
					return nil, false
				}
				b[from][i], b[to][j] = b[to][j], b[from][i]
				return files(), false
			},
			"the end cut at a line": func() (map[string][]byte, bool) {
				name, i := pick("line")
				b[name] = b[name][:i]
				for _, later := range b.names() {
					if later > name {
						delete(b, later)
					}
				}
				return files(), true
			},
			"a file cut at a byte": func() (map[string][]byte, bool) {
				all := files()
				name, _ := pick("in")
				all[name] = all[name][:rapid.IntRange(0, len(all[name])-1).Draw(rt, "size")]
				return all, true
			},
			"the start cut at a line": func() (map[string][]byte, bool) {
				name, i := pick("line")
				for _, earlier := range b.names() {
					if earlier < name {
						delete(b, earlier)
					}
				}
				b[name] = b[name][i+1:]
				return files(), true // nothing may be left
			},
			"a file removed": func() (map[string][]byte, bool) {
				name, _ := pick("in")
				delete(b, name)
				return files(), true
			},
			"two files swapped": func() (map[string][]byte, bool) {
				from, _ := pick("in")
				to, _ := pick("with")
				if from == to {
					return nil, false
				}
				b[from], b[to] = b[to], b[from]
				return files(), false
			},
			"another history from a record on": func() (map[string][]byte, bool) {
				fork := rapid.IntRange(0, total-1).Draw(rt, "fork")
				more := slices.Clone(perFile)
				more[len(more)-1] += rapid.IntRange(0, 3).Draw(rt, "more")
				other, _ := write(t, more, int64(fork))
				return other.bytes(), true
			},
		}
		how := rapid.SampledFrom(slices.Sorted(maps.Keys(spoil))).Draw(rt, "harm")
		before := b.bytes()
		out, needsHead := spoil[how]()
		if out == nil {
			if rep := verifies(rt, before, head); rep.Faults != nil || rep.Matched != 1 {
				rt.Fatalf("a good log: %s", describe(rep))
			}
			return
		}
		if rep := verifies(rt, out, head); rep.Faults == nil {
			rt.Fatalf("%s: not found: %+v", how, rep)
		}
		if !needsHead && verifies(rt, out, nil).Faults == nil {
			rt.Fatalf("%s: not found without a head", how)
		}
	})
}

// TestEveryByte changes each byte of a small log in turn, to its neighbour
// and to a line break.
func TestEveryByte(t *testing.T) {
	b, heads := write(t, []int{1, 2}, never)
	dir := t.TempDir()
	root := onDisk(t, dir, b.bytes())
	for _, name := range b.names() {
		content := b.bytes()[name]
		for i := range content {
			for _, c := range []byte{content[i] ^ 1, '\n'} {
				if c == content[i] {
					continue
				}
				spoiled := bytes.Clone(content)
				spoiled[i] = c
				if err := root.WriteFile(name, spoiled, 0o600); err != nil {
					t.Fatal(err)
				}
				if rep, err := Verify(Config{Root: root}); err != nil || rep.Faults == nil {
					t.Fatalf("%s, byte %d is %q: %v", name, i, c, err)
				}
			}
		}
		if err := root.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if rep, err := Verify(Config{Root: root, Anchors: anchors(heads...)}); err != nil || rep.Faults != nil {
		t.Fatal(describe(rep), err)
	}
}
