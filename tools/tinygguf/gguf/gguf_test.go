package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"
)

// read decodes what Encode wrote, by the format's own rules, so that the two
// sides of the test share no code.
type reader struct {
	t *testing.T
	b []byte
	n int // bytes taken
}

func (r *reader) take(n int) []byte {
	if n > len(r.b)-r.n {
		r.t.Fatalf("file ends at %d, %d more wanted", len(r.b), n)
	}
	r.n += n
	return r.b[r.n-n : r.n]
}
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) str() string { return string(r.take(int(r.u64()))) }
func (r *reader) value(typ uint32) any {
	switch typ {
	case 4:
		return r.u32()
	case 5:
		return int32(r.u32())
	case 6:
		return math.Float32frombits(r.u32())
	case 7:
		return r.take(1)[0] == 1
	case 8:
		return r.str()
	case 9:
		elem, n := r.u32(), r.u64()
		switch elem {
		case 8:
			v := []string{}
			for range n {
				v = append(v, r.str())
			}
			return v
		case 5:
			v := []int32{}
			for range n {
				v = append(v, int32(r.u32()))
			}
			return v
		}
	}
	r.t.Fatalf("unknown value type %d", typ)
	return nil
}

func (r *reader) file() *File {
	if got := string(r.take(4)); got != "GGUF" {
		r.t.Fatalf("magic %q", got)
	}
	if v := r.u32(); v != 3 {
		r.t.Fatalf("version %d", v)
	}
	tensors, pairs := r.u64(), r.u64()
	f := &File{}
	for range pairs {
		k := r.str()
		f.Set(k, r.value(r.u32()))
	}
	offsets := []uint64{}
	for range tensors {
		t := Tensor{Name: r.str()}
		for range r.u32() {
			t.Dims = append(t.Dims, r.u64())
		}
		if typ := r.u32(); typ != 0 {
			r.t.Fatalf("tensor type %d", typ)
		}
		offsets = append(offsets, r.u64())
		f.Tensors = append(f.Tensors, t)
	}
	base := (r.n + 31) / 32 * 32
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if offsets[i]%32 != 0 {
			r.t.Fatalf("%s: offset %d is not aligned", t.Name, offsets[i])
		}
		n := uint64(1)
		for _, d := range t.Dims {
			n *= d
		}
		r.n = base + int(offsets[i])
		for range n {
			t.Data = append(t.Data, math.Float32frombits(r.u32()))
		}
	}
	if end := (r.n + 31) / 32 * 32; end != len(r.b) {
		r.t.Fatalf("file has %d bytes, tensors end at %d", len(r.b), end)
	}
	return f
}

func sample() *File {
	f := &File{}
	f.Set("a.u32", uint32(7))
	f.Set("a.i32", int32(-7))
	f.Set("a.f32", float32(1.5))
	f.Set("a.yes", true)
	f.Set("a.no", false)
	f.Set("a.text", "two\nlines, \x00 and ü")
	f.Set("a.texts", []string{"", "x"})
	f.Set("a.numbers", []int32{-1, 0, 1})
	f.Add("one", []float32{1, 2, 3, 4, 5, 6}, 3, 2)
	f.Add("two", []float32{float32(math.Inf(1))}, 1)
	return f
}

func TestEncodeReadsBack(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Encode(&b); err != nil {
		t.Fatal(err)
	}
	got := (&reader{t: t, b: b.Bytes()}).file()
	if !reflect.DeepEqual(got, sample()) {
		t.Errorf("read back\n%+v\nwant\n%+v", got, sample())
	}
}

func TestEncodeRefuses(t *testing.T) {
	tests := []struct {
		name string
		edit func(f *File)
		want error
	}{
		{"unknown type", func(f *File) { f.Set("k", 7) }, ErrType},
		{"too few values", func(f *File) { f.Add("t", []float32{1}, 2) }, ErrShape},
		{"too many values", func(f *File) { f.Add("t", []float32{1, 2, 3}, 2) }, ErrShape},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sample()
			tt.edit(f)
			var b bytes.Buffer
			if err := f.Encode(&b); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if b.Len() != 0 {
				t.Errorf("%d bytes written before the refusal", b.Len())
			}
		})
	}
}

// failAt fails the write that would pass n bytes.
type failAt struct{ n int }

func (w *failAt) Write(b []byte) (int, error) {
	if w.n -= len(b); w.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestEncodeReportsWriteErrors(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Encode(&b); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, b.Len() - 40, b.Len() - 1} {
		if err := sample().Encode(&failAt{n}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("room for %d of %d bytes: error %v", n, b.Len(), err)
		}
	}
}
