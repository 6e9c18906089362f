// Package gguf writes GGUF version 3 files, the model format of llama.cpp, with
// float32 tensors. The same [File] always gives the same bytes. It doesn't know
// what a model needs: that is for its caller, and for the server that loads it.
//
// The format in one breath: "GGUF", version, tensor count, key count, then the
// key/value pairs, then for each tensor its name, dimensions (fastest first), type
// and offset, then padding to 32 bytes, then the tensor data, each padded to 32
// bytes. Integers are little-endian; a string is a 64-bit length and its bytes.
// Source: docs/gguf.md of the ggml project.
package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Alignment is what tensor data starts on, in bytes.
const Alignment = 32

const (
	magic   = "GGUF"
	version = 3
)

// Value types and the one tensor type that this package writes.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9

	tensorF32 = 0
)

var (
	// ErrType reports a metadata value of a type that has no GGUF form here.
	ErrType = errors.New("gguf: no form for this type")
	// ErrShape reports a tensor whose data doesn't fill its dimensions.
	ErrShape = errors.New("gguf: data does not fill the dimensions")
)

// A KV is one metadata pair. Value is a uint32, int32, float32, bool, string,
// []string or []int32.
type KV struct {
	Key   string
	Value any
}

// A Tensor holds float32 values, the fastest-varying dimension first.
type Tensor struct {
	Name string
	Dims []uint64
	Data []float32
}

// A File is a whole model.
type File struct {
	Metadata []KV
	Tensors  []Tensor
}

// Set adds a metadata pair.
func (f *File) Set(key string, value any) {
	f.Metadata = append(f.Metadata, KV{key, value})
}

// Add adds a tensor.
func (f *File) Add(name string, data []float32, dims ...uint64) {
	f.Tensors = append(f.Tensors, Tensor{name, dims, data})
}

// Encode writes the file. A file with an unknown value type or a tensor of the
// wrong size is refused before the first byte.
func (f *File) Encode(w io.Writer) error {
	head, err := f.header()
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	for _, t := range f.Tensors {
		b := make([]byte, 0, pad(4*len(t.Data)))
		for _, v := range t.Data {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		if _, err := w.Write(b[:cap(b)]); err != nil {
			return fmt.Errorf("write tensor %s: %w", t.Name, err)
		}
	}
	return nil
}

// header gives everything before the tensor data, padding included.
func (f *File) header() ([]byte, error) {
	le := binary.LittleEndian
	b := []byte(magic)
	b = le.AppendUint32(b, version)
	b = le.AppendUint64(b, uint64(len(f.Tensors)))
	b = le.AppendUint64(b, uint64(len(f.Metadata)))
	var err error
	for _, kv := range f.Metadata {
		if b, err = appendValue(appendString(b, kv.Key), kv.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", kv.Key, err)
		}
	}
	var offset uint64
	for _, t := range f.Tensors {
		n := uint64(1)
		b = le.AppendUint32(appendString(b, t.Name), uint32(len(t.Dims)))
		for _, d := range t.Dims {
			n *= d
			b = le.AppendUint64(b, d)
		}
		if n != uint64(len(t.Data)) {
			return nil, fmt.Errorf("%s: %d values for %v: %w", t.Name, len(t.Data), t.Dims, ErrShape)
		}
		b = le.AppendUint32(b, tensorF32)
		b = le.AppendUint64(b, offset)
		offset += uint64(pad(4 * len(t.Data)))
	}
	return append(b, make([]byte, pad(len(b))-len(b))...), nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue writes a value behind its type.
func appendValue(b []byte, value any) ([]byte, error) {
	le := binary.LittleEndian
	switch v := value.(type) {
	case uint32:
		return le.AppendUint32(le.AppendUint32(b, typeUint32), v), nil
	case int32:
		return le.AppendUint32(le.AppendUint32(b, typeInt32), uint32(v)), nil
	case float32:
		return le.AppendUint32(le.AppendUint32(b, typeFloat32), math.Float32bits(v)), nil
	case bool:
		b = le.AppendUint32(b, typeBool)
		if v {
			return append(b, 1), nil
		}
		return append(b, 0), nil
	case string:
		return appendString(le.AppendUint32(b, typeString), v), nil
	case []string:
		b = appendArray(b, typeString, len(v))
		for _, s := range v {
			b = appendString(b, s)
		}
		return b, nil
	case []int32:
		b = appendArray(b, typeInt32, len(v))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
		return b, nil
	default:
		return nil, fmt.Errorf("%w: %T", ErrType, value)
	}
}

func appendArray(b []byte, elem uint32, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, typeArray)
	b = binary.LittleEndian.AppendUint32(b, elem)
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

func pad(n int) int { return (n + Alignment - 1) / Alignment * Alignment }
