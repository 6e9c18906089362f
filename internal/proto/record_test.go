package proto

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/strict"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkTrusted: the quick decoder gives what the strict one gives, and neither
// shares memory with the line.
func checkTrusted(t *testing.T, line []byte) {
	t.Helper()
	line = append([]byte(nil), line...)
	h, want, err := DecodeRecord(line)
	if err != nil {
		t.Fatal(err)
	}
	h2, got, err := DecodeTrustedRecord(line)
	if err != nil {
		t.Fatalf("trusted: %v: %s", err, line)
	}
	again, err := EncodeRecord(h, want)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(line)
	clear(line)
	if d := cmp.Diff(want, got); d != "" || h != h2 || string(again) != whole {
		t.Errorf("strict and trusted differ: %v, %v\n%s", h, h2, d)
	}
	if again, err = EncodeRecord(h, want); err != nil || string(again) != whole {
		t.Errorf("the record shares memory with its line: %s, %v", again, err)
	}
}

const head = `{"v":1,"n":3,"time":"` + exTime + `",`

func TestDecodeRecordRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       error
	}{
		{"nothing", ``, ErrRecord},
		{"no object", `null`, ErrRecord},
		{"empty", `{}`, ErrRecord},
		{"header not first", `{"n":3,"v":1,"time":"` + exTime + `","kind":"stopped"}`, ErrRecord},
		{"version 2", strings.Replace(head, `"v":1`, `"v":2`, 1) + `"kind":"stopped"}`, ErrVersion},
		{"version 2 of another shape", `{"v":2,"seq":9}`, ErrVersion},
		{"version 0", `{"v":0,"n":3}`, ErrVersion},
		{"version 01", strings.Replace(head, `"v":1`, `"v":01`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"version as text", strings.Replace(head, `"v":1`, `"v":"1"`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"version null", `{"v":null,"n":3}`, ErrRecord},
		{"version 1.0", strings.Replace(head, `"v":1`, `"v":1.0`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"version too big", `{"v":99999999999,"n":3}`, ErrRecord},
		{"negative number", strings.Replace(head, `"n":3`, `"n":-3`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"number 03", strings.Replace(head, `"n":3`, `"n":03`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"float number", strings.Replace(head, `"n":3`, `"n":3.0`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"no time", `{"v":1,"n":3,"kind":"stopped"}`, ErrRecord},
		{"time without milliseconds", strings.Replace(head, ".089", "", 1) + `"kind":"stopped"}`, ErrRecord},
		{"time with a zone", strings.Replace(head, "Z", "+00:00", 1) + `"kind":"stopped"}`, ErrRecord},
		{"day that is none", strings.Replace(head, "03-04", "02-30", 1) + `"kind":"stopped"}`, ErrRecord},
		{"white space", strings.Replace(head, `,"n"`, `, "n"`, 1) + `"kind":"stopped"}`, ErrRecord},
		{"duplicate header", head + `"v":1,"kind":"stopped"}`, ErrRecord},
		{"header again behind the kind", head + `"kind":"stopped","v":1}`, ErrRecord},
		{"no kind", head + `"origin":"o"}`, ErrRecord},
		{"unknown kind", head + `"kind":"rumour"}`, ErrRecord},
		{"kind in other case", head + `"kind":"Stopped"}`, ErrRecord},
		{"kind is null", head + `"kind":null}`, ErrRecord},
		{"cut", head + `"kind":"stopped"`, ErrRecord},
		{"behind the end", head + `"kind":"stopped"} `, ErrRecord},
		{"line break", head + `"kind":"stopped"}` + "\n", ErrRecord},
		{"unknown key", head + `"kind":"stopped","why":"x"}`, ErrRecord},
		{"crc still there", head + `"kind":"stopped","crc":"00000000"}`, ErrRecord},
		{"missing message", head + `"kind":"assistant"}`, ErrRecord},
		{"message is null", head + `"kind":"assistant","message":null}`, ErrRecord},
		{"message is text", head + `"kind":"assistant","message":"hi"}`, ErrRecord},
		{"message with white space", head + `"kind":"assistant","message":{"a": 1}}`, strict.ErrForm},
		{"message with an escape too many", head + `"kind":"assistant","message":{"a":"\u0061"}}`, strict.ErrForm},
		{"message with a key twice", head + `"kind":"assistant","message":{"a":1,"a":1}}`, ErrRecord},
		{"message twice", head + `"kind":"assistant","message":{},"message":{}}`, ErrRecord},
		{"reordered", head + `"kind":"user","surface":"ask","origin":"o","message":{}}`, strict.ErrForm},
		{"other case", head + `"kind":"user","Origin":"o","surface":"ask","message":{}}`, ErrRecord},
		{"unknown surface", head + `"kind":"user","origin":"o","surface":"web","message":{}}`, ErrRecord},
		{"float", head + `"kind":"recovered","bytes":1.0,"file":"f"}`, ErrRecord},
		{"negative", head + `"kind":"recovered","bytes":-1,"file":"f"}`, ErrRecord},
		{"empty carry", head + `"kind":"baseline","model":"","slot":0,"sampling":{},"tools":[],"system":{},"carry":[],"template":"","window":0}`, strict.ErrForm},
		{"tools that are no array", head + `"kind":"baseline","model":"","slot":0,"sampling":{},"tools":{},"system":{},"template":"","window":0}`, ErrRecord},
		{"carry that is no object", head + `"kind":"baseline","model":"","slot":0,"sampling":{},"tools":[],"system":{},"carry":[1],"template":"","window":0}`, ErrRecord},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, r, err := DecodeRecord([]byte(tc.line))
			if r != nil || !errors.Is(err, tc.want) || errors.Is(err, ErrVersion) != (tc.want == ErrVersion) {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

// TestTrustedRefuses: it trusts the bytes, not the program that wrote them.
func TestTrustedRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       error
	}{
		{"foreign version", `{"v":2,"n":3}`, ErrVersion},
		{"unknown kind", head + `"kind":"rumour"}`, ErrRecord},
		{"unknown key", head + `"kind":"stopped","why":"x"}`, ErrRecord},
		{"no message", head + `"kind":"assistant"}`, ErrRecord},
		{"message is text", head + `"kind":"assistant","message":"hi"}`, ErrRecord},
		{"unknown surface", head + `"kind":"user","origin":"o","surface":"web","message":{}}`, ErrRecord},
		{"unknown key beside a message", head + `"kind":"user","origin":"o","surface":"ask","mood":"good","message":{}}`, ErrRecord},
	} {
		if _, r, err := DecodeTrustedRecord([]byte(tc.line)); r != nil || !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, %v", tc.name, r, err)
		}
	}
}

// TestRawStaysAsItIs: a raw member comes back byte for byte, or is refused.
func TestRawStaysAsItIs(t *testing.T) {
	for _, tc := range []struct {
		raw string
		ok  bool
	}{
		{`{"a":"é😀\n\u001f\"\\/<>&` + "\u2028\u007f" + `"}`, true},
		{`{"a":1.50e2,"b":-0,"c":0.60,"d":123456789012345678901234567890}`, true},
		{`{"a":null,"b":[true,false,{}],"":{"crc":"00000000"}}`, true},
		{`{"message":{"message":1},"kind":"x"}`, true},
		{`{"a":"\u00e9"}`, false},
		{`{"a":"\/"}`, false},
		{`{"a":"\u001F"}`, false},
		{`{"a": 1}`, false},
		{`{"a":1} `, false},
		{`{"a":1,"a":2}`, false},
		{"{\"a\":\"\xff\"}", false},
		{`{"a":"\ud800"}`, false},
		{`{"a":1}x`, false},
		{`{"a":`, false},
		{`{}{}`, false},
	} {
		raw := jsontext.Value(tc.raw)
		for _, r := range []Record{
			&Assistant{Message: raw},
			&Queued{Origin: "o", Surface: SurfaceAsk, Message: raw},
			&User{Origin: "o", Surface: SurfaceAsk, Message: raw},
			&Tool{Call: "s/1/0/0", Outcome: CallOK, Class: ClassPublic, Message: raw},
			&Baseline{Sampling: raw, Tools: jsontext.Value("[" + tc.raw + "]"), System: raw, Carry: []jsontext.Value{raw, raw}},
		} {
			line, err := EncodeRecord(exHeaders[0], r)
			if (err == nil) != tc.ok {
				t.Errorf("%s: %s: %s, %v", r.Kind(), raw, line, err)
			}
			if err != nil {
				continue
			}
			if _, back, err := DecodeRecord(line); err != nil || cmp.Diff(r, back) != "" {
				t.Errorf("%s: %s came back as %v, %v", r.Kind(), raw, back, err)
			}
			checkTrusted(t, line)
		}
		if (CheckRaw(raw) == nil) != tc.ok {
			t.Errorf("CheckRaw(%s): %v", raw, CheckRaw(raw))
		}
	}
}

func TestEncodeRecordRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		h    Header
		r    Record
	}{
		{"negative number", Header{N: -1}, &StopAsked{}},
		{"year 10000", Header{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, &StopAsked{}},
		{"year before 0", Header{Time: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, &StopAsked{}},
		{"record that is not valid", Header{}, &TurnEnd{Outcome: TurnAnswered}},
		{"no message", Header{}, &Assistant{}},
		{"reason", Header{}, &Incomplete{Why: "bored"}},
		{"approval", Header{}, &CallAsked{Call: "s/1/0/0", Approval: "", Expires: exTime}},
		{"negative tokens", Header{}, &Completion{CacheN: -1}},
		{"result without a code", Header{}, &Tool{Call: "s/1/0/0", Outcome: CallDenied, Class: ClassPublic, Message: jsontext.Value(`{}`)}},
	} {
		if line, err := EncodeRecord(tc.h, tc.r); err == nil {
			t.Errorf("%s: %s", tc.name, line)
		}
	}
}

func TestRecordKind(t *testing.T) {
	for i, ex := range recordExamples() {
		line, err := EncodeRecord(exHeaders[0], ex.full)
		if err != nil {
			t.Fatal(err)
		}
		h, kind, err := RecordKind(line)
		if err != nil || kind != ex.full.Kind() || h.N != exHeaders[0].N || Time(h.Time) != Time(exHeaders[0].Time) {
			t.Errorf("%d: %v %q, %v", i, h, kind, err)
		}
		_, isMessage := map[string]bool{"user": true, "assistant": true, "tool": true}[kind]
		if (MessageOf(ex.full) != nil) != isMessage {
			t.Errorf("%s: message %s", kind, MessageOf(ex.full))
		}
	}
}

// TestAnyTextSurvives: whatever text, in whatever record, both decoders give it back.
func TestAnyTextSurvives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			rt.Skip("not UTF-8")
		}
		raw := jsontext.Value(fmt.Sprintf(`{"role":"user","content":%s}`, quoted))
		line, err := EncodeRecord(exHeaders[0], &User{Origin: "o", Surface: SurfaceChat, Message: raw})
		if err != nil || strings.Contains(string(line), "\n") {
			rt.Fatalf("%s, %v", line, err)
		}
		checkTrusted(t, line)
		line, err = EncodeRecord(exHeaders[1], &Incomplete{Why: WhyCut, Text: text, Thinking: text})
		if err != nil {
			rt.Fatal(err)
		}
		checkTrusted(t, line)
	})
}
