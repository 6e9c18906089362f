package fault

import (
	"errors"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, in string
		want     Fault
		bad      bool
	}{
		{"kind alone", "stall", Fault{Kind: Stall}, false},
		{"with numbers", "cut,after=3,times=-1,skip=2,ms=5,bytes=7", Fault{Kind: Cut, After: 3, Times: -1, Skip: 2, MS: 5, Bytes: 7}, false},
		{"unknown kind", "explode", Fault{}, true},
		{"unknown key", "cut,when=3", Fault{}, true},
		{"no number", "cut,after=x", Fault{}, true},
		{"negative", "cut,after=-1", Fault{}, true},
		{"empty", "", Fault{}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.in)
			if (err != nil) != tc.bad {
				t.Fatalf("error %v", err)
			}
			if !tc.bad && got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	f, err := Decode([]byte(`{"kind":"error","after":2,"slot":1}`))
	if err != nil || f.Kind != Error || f.After != 2 || f.Slot == nil || *f.Slot != 1 {
		t.Errorf("got %+v, %v", f, err)
	}
	for _, bad := range []string{`{"kind":"explode"}`, `{"kind":"cut","aftr":2}`, `{}`, `[]`, `{"kind":"cut","times":-2}`, `{"kind":"cut"`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if _, err := Decode([]byte(`{"kind":"explode"}`)); !errors.Is(err, ErrKind) {
		t.Errorf("got %v", err)
	}
}

func TestBox(t *testing.T) {
	one := 1
	var b Box
	b.Put(Fault{Kind: Cut, Times: 2})
	b.Put(Fault{Kind: Stall, Slot: &one})
	b.Put(Fault{Kind: Loading})
	b.Put(Fault{Kind: Error, Skip: 1})
	want := []struct {
		slot int
		kind Kind
	}{{0, Cut}, {1, Cut}, {0, ""}, {0, Error}, {0, ""}, {1, Stall}, {1, ""}}
	for i, w := range want {
		if got := b.Chat(w.slot).Kind; got != w.kind {
			t.Errorf("request %d on slot %d: got %q, want %q", i, w.slot, got, w.kind)
		}
	}
	if !b.Loading() || b.Loading() {
		t.Error("loading was ordered once")
	}
	b.Put(Fault{Kind: Empty, Times: -1})
	for range 5 {
		if b.Chat(0).Kind != Empty {
			t.Error("an order for all requests ended")
		}
	}
	b.Put(Fault{Kind: Clear})
	if b.Chat(0).Kind != "" || len(b.Left()) != 0 {
		t.Error("clear left something")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"error","after":2,"slot":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := Decode(b); err == nil && got.check() != nil {
			t.Errorf("took %+v", got)
		}
	})
}
