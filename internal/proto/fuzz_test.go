package proto

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// Every fuzz test here says: what decodes is the one form of its value.

func seed(f *testing.F, dir string) {
	f.Helper()
	files := goldenFiles(f, dir)
	if len(files) == 0 {
		f.Fatal("no goldens to start from")
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSuffix(b, []byte("\n")))
	}
}

func fuzzUnion(f *testing.F, dir string, u Union) {
	seed(f, dir)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := u.Decode(b)
		if err != nil {
			return
		}
		if out, err := Encode(m); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%q came back as %q, %v", b, out, err)
		}
	})
}

func FuzzLoopRequest(f *testing.F)   { fuzzUnion(f, "loop-request", LoopRequests) }
func FuzzLoopEvent(f *testing.F)     { fuzzUnion(f, "loop-event", LoopEvents) }
func FuzzBrokerRequest(f *testing.F) { fuzzUnion(f, "broker-request", BrokerRequests) }
func FuzzBrokerEvent(f *testing.F)   { fuzzUnion(f, "broker-event", BrokerEvents) }
func FuzzOwnerRequest(f *testing.F)  { fuzzUnion(f, "owner-request", OwnerRequests) }
func FuzzOwnerEvent(f *testing.F)    { fuzzUnion(f, "owner-event", OwnerEvents) }
func FuzzRunnerRequest(f *testing.F) { fuzzUnion(f, "runner-request", RunnerRequests) }
func FuzzRunnerEvent(f *testing.F)   { fuzzUnion(f, "runner-event", RunnerEvents) }
func FuzzEgressRequest(f *testing.F) { fuzzUnion(f, "egress-request", EgressRequests) }
func FuzzEgressEvent(f *testing.F)   { fuzzUnion(f, "egress-event", EgressEvents) }

func FuzzGatewayRequest(f *testing.F) { fuzzUnion(f, "gateway-request", GatewayRequests) }
func FuzzGatewayEvent(f *testing.F)   { fuzzUnion(f, "gateway-event", GatewayEvents) }
func FuzzProbeRequest(f *testing.F)   { fuzzUnion(f, "probe-request", ProbeRequests) }
func FuzzProbeEvent(f *testing.F)     { fuzzUnion(f, "probe-event", ProbeEvents) }

// FuzzDecodeRecord also holds the quick decoder to the strict one.
func FuzzDecodeRecord(f *testing.F) {
	seed(f, "record")
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		_, trusted, trustedErr := DecodeTrustedRecord(b) // must not crash, whatever it is given
		h, r, err := DecodeRecord(b)
		if !bytes.Equal(in, b) {
			t.Fatalf("the line was changed: %q to %q", in, b)
		}
		if err != nil {
			return
		}
		if out, err := EncodeRecord(h, r); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%q came back as %q, %v", b, out, err)
		}
		if trustedErr != nil {
			t.Fatalf("trusted: %v", trustedErr)
		}
		if out, err := EncodeRecord(h, trusted); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("trusted: %q came back as %q, %v", b, out, err)
		}
	})
}

// FuzzDecodeAudit also holds the quick decoder to the strict one.
func FuzzDecodeAudit(f *testing.F) {
	seed(f, "audit")
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		_, trusted, trustedErr := DecodeTrustedAudit(b)
		h, r, err := DecodeAudit(b)
		if !bytes.Equal(in, b) {
			t.Fatalf("the line was changed: %q to %q", in, b)
		}
		if err != nil {
			return
		}
		if out, err := EncodeAudit(h, r); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%q came back as %q, %v", b, out, err)
		}
		if trustedErr != nil {
			t.Fatalf("trusted: %v", trustedErr)
		}
		if out, err := EncodeAudit(h, trusted); err != nil || !bytes.Equal(out, b) {
			t.Fatalf("trusted: %q came back as %q, %v", b, out, err)
		}
	})
}

func FuzzParseCallID(f *testing.F) {
	f.Add(exCall)
	f.Add("s/1/0/0")
	f.Add("s/01/-0/+1")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCallID(s); err == nil && c.String() != s {
			t.Fatalf("%q came back as %q", s, c)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	f.Add(exTime)
	f.Add("2024-02-29T23:59:59.999Z")
	f.Add("2026-03-04T05:06:07,089Z")
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseTime(s)
		if err == nil && Time(at) != s {
			t.Fatalf("%q came back as %q", s, Time(at))
		}
		want, wantErr := time.Parse(timeForm, s)
		if ok := wantErr == nil && Time(want) == s; ok != (err == nil) || ok && !at.Equal(want) {
			t.Fatalf("%q is %v, %v; the standard library says %v, %v", s, at, err, want, wantErr)
		}
	})
}
