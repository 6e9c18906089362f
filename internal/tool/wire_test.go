package tool

import (
	"reflect"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

func TestWire(t *testing.T) {
	const input = `{"args":"{\"path\":\"/a\"}","read":["/a"],"write":[],"plain":["a.b:443"],"output":65536,"ms":30000,"preview":true,"proxy":true,"seen":"absent"}`
	in, err := DecodeInput([]byte(input))
	if err != nil || in.Args != `{"path":"/a"}` || in.Read[0] != "/a" || in.Output != DefaultOutput || in.MS != 30000 || !in.Preview || !in.Proxy || in.Seen != Absent {
		t.Fatalf("%+v, %v", in, err)
	}
	if b, err := EncodeInput(in); err != nil || string(b) != input {
		t.Errorf("%s, %v", b, err)
	}
	const output = `{"code":"tool-failed","text":"tool-failed: no.","dropped":3,"diff":"-a\n","note":"n","seen":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`
	out, err := DecodeOutput([]byte(output))
	if err != nil || out != (Output{proto.CodeToolFailed, "tool-failed: no.", 3, "-a\n", "n", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}) {
		t.Fatalf("%+v, %v", out, err)
	}
	if b, err := EncodeOutput(out); err != nil || string(b) != output {
		t.Errorf("%s, %v", b, err)
	}
}

func TestWireRefuses(t *testing.T) {
	for _, doc := range []string{
		``, `{}`, `null`,
		`{"args":"{}","read":["a"],"write":[],"plain":[]}`,
		`{"args":"{}","read":[],"write":["/a/"],"plain":[]}`,
		`{"args":"{}","read":["/a/../b"],"write":[],"plain":[]}`,
		`{"args":"{}","read":[],"write":[],"plain":[],"output":1048577}`,
		`{"args":"{}","read":[],"write":[],"plain":[],"output":-1}`,
		`{"args":"{}","read":[],"write":[],"plain":[],"ms":-1}`,
		`{"args":"{}","read":[],"write":[],"plain":[],"more":1}`,
		`{"args":"{}","read":[],"write":[],"plain":[],"seen":"gone"}`,
		`{"args":"{}","read":null,"write":[],"plain":[]}`,
		`{"args":"{}","read":[],"write":[],"plain":[]} `,
	} {
		if in, err := DecodeInput([]byte(doc)); err == nil {
			t.Errorf("%s: %+v", doc, in)
		}
	}
	for _, doc := range []string{
		``, `{}`, `{"code":"","text":""}`, `{"code":"fine","text":""}`, `{"text":"","dropped":-1}`, `{"text":"","seen":"ABSENT"}`, `{"text":"","text":""}`,
		`{"text":""}{"text":""}`, `{"text":"","verdict":"allow"}`,
	} {
		if out, err := DecodeOutput([]byte(doc)); err == nil {
			t.Errorf("%s: %+v", doc, out)
		}
	}
}

// FuzzWire: what is taken is the one form of its value.
func FuzzWire(f *testing.F) {
	f.Add(`{"args":"{}","read":["/a"],"write":[],"plain":[],"output":1}`)
	f.Add(`{"code":"tool-failed","text":"x","dropped":3}`)
	f.Fuzz(func(t *testing.T, doc string) {
		if in, err := DecodeInput([]byte(doc)); err == nil {
			b, err := EncodeInput(in)
			again, err2 := DecodeInput(b)
			if err != nil || err2 != nil || string(b) != doc || !reflect.DeepEqual(in, again) {
				t.Fatalf("%s became %s: %v, %v", doc, b, err, err2)
			}
		}
		if out, err := DecodeOutput([]byte(doc)); err == nil {
			if b, err := EncodeOutput(out); err != nil || string(b) != doc {
				t.Fatalf("%s became %s: %v", doc, b, err)
			}
		}
	})
}

func TestMaxDocument(t *testing.T) {
	// A frame of runner.sock is 4 MiB, and the document is base64 in it.
	if n := MaxDocument(MaxOutput) * 4 / 3; n > 4<<20-4096 {
		t.Errorf("%d bytes do not fit a frame", n)
	}
	out := Output{Text: strings.Repeat("\x00", MaxOutput/3), Diff: strings.Repeat("\\", MaxDiff), Note: "x", Code: proto.CodeLimitNotEnforceable, Dropped: 1 << 62}
	if b, err := EncodeOutput(out); err != nil || int64(len(b)) > MaxDocument(MaxOutput) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
