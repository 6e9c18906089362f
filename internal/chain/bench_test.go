package chain

import (
	"strings"
	"testing"
)

// BenchmarkVerify reads a log of 100,000 records on one core. Its target is
// 500,000 records/s or 300 MB/s.
func BenchmarkVerify(b *testing.B) {
	for name, c := range map[string]struct {
		salt string
		deep bool
	}{
		"short":   {"", false},
		"long":    {strings.Repeat("x", 1000), false},
		"decoded": {"", true},
	} {
		b.Run(name, func(b *testing.B) {
			const records = 100_000
			root := onDisk(b, b.TempDir(), long(b, records, c.salt).bytes())
			var visit func(Line) error
			if c.deep {
				visit = func(l Line) error { _, err := l.Record(); return err }
			}
			b.ReportAllocs()
			for b.Loop() {
				rep, err := Verify(Config{Root: root, Visit: visit})
				if err != nil || rep.Faults != nil || rep.Head.N != records {
					b.Fatalf("%+v, %v", rep, err)
				}
				b.SetBytes(rep.Bytes)
			}
			b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
