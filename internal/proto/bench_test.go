package proto

import (
	"strings"
	"testing"
	"time"
)

func benchRecords(b *testing.B) [][]byte {
	b.Helper()
	h := Header{N: 12, Time: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)}
	text := strings.Repeat(`A line of an answer, with \"quotes\" and a \n line break, über alles.`, 70)
	var lines [][]byte
	for _, r := range []Record{
		&User{Origin: "o1", Surface: SurfaceChat, Message: []byte(`{"role":"user","content":"` + text + `"}`)},
		&Assistant{Message: []byte(`{"role":"assistant","content":"` + text + `"}`)},
		&Tool{Call: "chat-1/1/3/0", Outcome: CallOK, Class: ClassPrivate, Message: []byte(`{"role":"tool","tool_call_id":"x","content":"` + text + `"}`)},
	} {
		line, err := EncodeRecord(h, r)
		if err != nil {
			b.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func benchDecode(b *testing.B, decode func([]byte) (Header, Record, error)) {
	lines := benchRecords(b)
	b.SetBytes(int64(len(lines[0])))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, _, err := decode(lines[i%len(lines)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkDecodeRecord checks all: 50 MB at 160 MB/s would take 0.3 s.
func BenchmarkDecodeRecord(b *testing.B) { benchDecode(b, DecodeRecord) }

// BenchmarkDecodeTrustedRecord is what replaying a log costs for each record.
func BenchmarkDecodeTrustedRecord(b *testing.B) { benchDecode(b, DecodeTrustedRecord) }

func BenchmarkEncodeRecord(b *testing.B) {
	_, r, err := DecodeRecord(benchRecords(b)[1])
	if err != nil {
		b.Fatal(err)
	}
	h := Header{N: 12, Time: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeRecord(h, r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendText is the encoding of one streamed token.
func BenchmarkAppendText(b *testing.B) {
	var buf []byte
	var err error
	m := &Text{Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = Append(buf[:0], m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeText is the decoding of one streamed token.
func BenchmarkDecodeText(b *testing.B) {
	line, err := Encode(&Text{Text: " token"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := LoopEvents.Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
