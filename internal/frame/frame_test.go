package frame_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"boxmaker/internal/frame"
)

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 255, 256, 65535, 65536, frame.MaxBytes} {
		body := bytes.Repeat([]byte("x"), n)
		var b bytes.Buffer
		if err := frame.Write(&b, body); err != nil {
			t.Fatal(err)
		}
		if want := []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}; !bytes.HasPrefix(b.Bytes(), want) {
			t.Errorf("%d bytes: header % x", n, b.Bytes()[:4])
		}
		b.WriteString("next")
		got, err := frame.Read(iotest.HalfReader(&b))
		if err != nil || !bytes.Equal(got, body) || b.String() != "next" {
			t.Errorf("%d bytes: got %d, %v, left %q", n, len(got), err, b.String())
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		head []byte
		want error
	}{
		{"empty", []byte{0, 0, 0, 0}, frame.ErrEmpty},
		{"one over the cap", []byte{0, 0x40, 0, 1}, frame.ErrTooLarge},
		{"4 GiB", []byte{255, 255, 255, 255}, frame.ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := bytes.NewReader(append(tc.head, "rest"...))
			if _, err := frame.Read(r); !errors.Is(err, tc.want) || r.Len() != 4 {
				t.Errorf("%v, %d bytes left", err, r.Len())
			}
		})
	}
	for n, want := range map[int]error{0: frame.ErrEmpty, frame.MaxBytes + 1: frame.ErrTooLarge} {
		var b bytes.Buffer
		if err := frame.Write(&b, make([]byte, n)); !errors.Is(err, want) || b.Len() != 0 {
			t.Errorf("write %d bytes: %v, %d written", n, err, b.Len())
		}
		if out, err := frame.Append([]byte("before"), make([]byte, n)); !errors.Is(err, want) || string(out) != "before" {
			t.Errorf("append %d bytes: %v, %q", n, err, out)
		}
	}
}

// TestCapIsCheckedFirst: a length alone costs no memory.
func TestCapIsCheckedFirst(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := frame.Read(bytes.NewReader([]byte{0x7f, 0xff, 0xff, 0xff})); !errors.Is(err, frame.ErrTooLarge) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

// TestEnds: io.EOF only between frames.
func TestEnds(t *testing.T) {
	whole, err := frame.Append(nil, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := frame.Read(bytes.NewReader(whole[:n])); err != want {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := frame.Read(iotest.ErrReader(io.ErrClosedPipe)); err != io.ErrClosedPipe {
		t.Errorf("another error: %v", err)
	}
}

// TestOneWrite: a reader never sees a header without its body because of us.
func TestOneWrite(t *testing.T) {
	var w countingWriter
	if err := frame.Write(&w, []byte("hello")); err != nil || w.n != 1 {
		t.Errorf("%d writes, %v", w.n, err)
	}
	w.err = io.ErrClosedPipe
	if err := frame.Write(&w, []byte("hello")); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

type countingWriter struct {
	n   int
	err error
}

func (w *countingWriter) Write(p []byte) (int, error) { w.n++; return len(p), w.err }

// FuzzRead: what Read takes, Write gives back byte for byte.
func FuzzRead(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 9, '{'})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		body, err := frame.Read(r)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := frame.Write(&out, body); err != nil {
			t.Fatal(err)
		}
		if got := data[:len(data)-r.Len()]; !bytes.Equal(got, out.Bytes()) {
			t.Fatalf("%q and %q", got, out.Bytes())
		}
	})
}

// A length alone takes little memory, and what comes takes no more than thrice that.
func TestReadIfTakesMemoryAsBytesCome(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), frame.MaxBytes/16)
	whole, err := frame.Append(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []int{0, 1, 1000, 100_000, 1 << 20, frame.MaxBytes} {
		taken := 0
		got, err := frame.ReadIf(bytes.NewReader(whole[:4+sent]), func(n int) error { taken += n; return nil })
		if taken > 4*sent+64<<10 || sent == frame.MaxBytes && (err != nil || !bytes.Equal(got, body)) || sent < frame.MaxBytes && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes sent: %d taken, %d got, %v", sent, taken, len(got), err)
		}
	}
	no := errors.New("no")
	asked := 0
	if _, err := frame.ReadIf(bytes.NewReader(whole), func(int) error {
		if asked++; asked == 3 {
			return no
		}
		return nil
	}); !errors.Is(err, no) {
		t.Errorf("refused in the middle: %v", err)
	}
}
