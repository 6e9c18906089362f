package proto

import (
	"errors"
	"strings"
	"testing"
	"time"

	"boxmaker/internal/strict"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkTrustedAudit: the quick decoder gives what the strict one gives, and
// neither shares memory with the line.
func checkTrustedAudit(t *testing.T, line []byte) {
	t.Helper()
	line = append([]byte(nil), line...)
	h, want, err := DecodeAudit(line)
	if err != nil {
		t.Fatal(err)
	}
	h2, got, err := DecodeTrustedAudit(line)
	if err != nil {
		t.Fatalf("trusted: %v: %s", err, line)
	}
	if h3, kind, err := AuditKind(line); err != nil || h3 != h || kind != want.Kind() {
		t.Errorf("%v, %s, %v", h3, kind, err)
	}
	whole := string(line)
	clear(line)
	if d := cmp.Diff(want, got); d != "" || h != h2 {
		t.Errorf("strict and trusted differ: %v, %v\n%s", h, h2, d)
	}
	if again, err := EncodeAudit(h, want); err != nil || string(again) != whole {
		t.Errorf("the record shares memory with its line: %s, %v", again, err)
	}
}

const auditHead = `{"v":1,"n":3,"time":"` + exTime + `","prev":"` + exHash + `",`

func TestDecodeAuditRefuses(t *testing.T) {
	const halt = `"kind":"halt","halted":true,"by":"x"}`
	if _, _, err := DecodeAudit([]byte(auditHead + halt)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, line string
		want       error
	}{
		{"nothing", ``, ErrRecord},
		{"empty", `{}`, ErrRecord},
		{"a record of a session", head + `"kind":"stopped"}`, ErrRecord},
		{"foreign version", strings.Replace(auditHead, `"v":1`, `"v":2`, 1) + halt, ErrVersion},
		{"negative number", strings.Replace(auditHead, `"n":3`, `"n":-3`, 1) + halt, ErrRecord},
		{"no prev", strings.Replace(auditHead, `"prev":"`+exHash+`",`, ``, 1) + halt, ErrRecord},
		{"prev before time", `{"v":1,"n":3,"prev":"` + exHash + `","time":"` + exTime + `",` + halt, ErrRecord},
		{"short prev", strings.Replace(auditHead, exHash, exHash[1:], 1) + halt, ErrRecord},
		{"long prev", strings.Replace(auditHead, exHash, exHash+"0", 1) + halt, ErrRecord},
		{"prev in upper case", strings.Replace(auditHead, exHash, strings.ToUpper(exHash), 1) + halt, ErrID},
		{"prev that is no hex", strings.Replace(auditHead, exHash, "g"+exHash[1:], 1) + halt, ErrID},
		{"no kind", auditHead + `"halted":true,"by":"x"}`, ErrRecord},
		{"unknown kind", auditHead + `"kind":"rumour"}`, ErrRecord},
		{"kind of a session record", auditHead + `"kind":"stopped"}`, ErrRecord},
		{"unknown key", auditHead + `"kind":"halt","halted":true,"by":"x","why":1}`, ErrRecord},
		{"key twice", auditHead + `"kind":"halt","halted":true,"halted":true,"by":"x"}`, ErrRecord},
		{"key in other case", auditHead + `"kind":"halt","Halted":true,"by":"x"}`, ErrRecord},
		{"missing key", auditHead + `"kind":"halt","by":"x"}`, strict.ErrForm},
		{"null", auditHead + `"kind":"halt","halted":null,"by":"x"}`, strict.ErrForm},
		{"white space", auditHead + `"kind":"halt","halted": true,"by":"x"}`, strict.ErrForm},
		{"reordered", auditHead + `"kind":"halt","by":"x","halted":true}`, strict.ErrForm},
		{"checksum still there", auditHead + `"kind":"halt","halted":true,"by":"x","crc":"00000000"}`, ErrRecord},
		{"line break", auditHead + halt + "\n", ErrRecord},
		{"cut", auditHead + `"kind":"halt","halted":true,"by":"x"`, ErrRecord},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, r, err := DecodeAudit([]byte(tc.line))
			if r != nil || !errors.Is(err, tc.want) {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

func TestEncodeAuditRefuses(t *testing.T) {
	good := AuditHeader{Prev: NoHash}
	decision := func(change func(*AuditDecision)) *AuditDecision {
		d := &AuditDecision{ID: "s/1/0/0", Session: "s", Digest: exHash, Verdict: VerdictAllow, Taint: ClassPublic}
		change(d)
		return d
	}
	if _, err := EncodeAudit(good, decision(func(*AuditDecision) {})); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		h    AuditHeader
		r    AuditRecord
	}{
		{"negative number", AuditHeader{N: -1, Prev: NoHash}, &AuditHalt{}},
		{"year 10000", AuditHeader{Prev: NoHash, Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, &AuditHalt{}},
		{"no prev", AuditHeader{}, &AuditHalt{}},
		{"prev that breaks out", AuditHeader{Prev: strings.Repeat("0", 62) + `",`}, &AuditHalt{}},
		{"negative pid", good, &AuditStart{PID: -1}},
		{"call id", good, decision(func(d *AuditDecision) { d.ID = "s" })},
		{"session", good, decision(func(d *AuditDecision) { d.Session = "../s" })},
		{"digest", good, decision(func(d *AuditDecision) { d.Digest = "" })},
		{"verdict of an owner", good, decision(func(d *AuditDecision) { d.Verdict = VerdictApproved })},
		{"denied without a code", good, decision(func(d *AuditDecision) { d.Verdict = VerdictDeny })},
		{"ask without an approval", good, decision(func(d *AuditDecision) { d.Verdict, d.Expires = VerdictAsk, exTime })},
		{"ask without an expiry", good, decision(func(d *AuditDecision) { d.Verdict, d.Approval = VerdictAsk, "a" })},
		{"hash of a grant", good, decision(func(d *AuditDecision) { d.GrantHash = "x" })},
		{"taint", good, decision(func(d *AuditDecision) { d.Taint = "red" })},
		{"long arguments", good, decision(func(d *AuditDecision) { d.Args = strings.Repeat("x", MaxAuditArgs+1) })},
		{"arguments that are no UTF-8", good, decision(func(d *AuditDecision) { d.Args = "\xff" })},
		{"approval", good, &AuditApproval{ID: "s/1/0/0", Verdict: VerdictDenied, Digest: exHash}},
		{"ok with a code", good, &AuditOutcome{ID: "s/1/0/0", Outcome: CallOK, Code: CodeInternal, Class: ClassPublic, Hash: exHash}},
		{"hash of an outcome", good, &AuditOutcome{ID: "s/1/0/0", Outcome: CallOK, Class: ClassPublic}},
		{"connection", good, &AuditOutcome{ID: "s/1/0/0", Outcome: CallOK, Class: ClassPublic, Hash: exHash, Egress: []EgressConn{{Sent: -1, Verdict: EgressCap}}}},
		{"negative size", good, &AuditRecovered{Bytes: -1}},
		{"head", good, &AuditCheckpoint{Head: AuditHead{N: 1}}},
	} {
		if line, err := EncodeAudit(tc.h, tc.r); err == nil {
			t.Errorf("%s: %s", tc.name, line)
		}
	}
}

// TestAnyTextSurvivesAudit: whatever a model or an owner wrote, both decoders
// give it back, and it stays within its line.
func TestAnyTextSurvivesAudit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.ToValidUTF8(rapid.String().Draw(rt, "text"), "?")
		h := AuditHeader{N: rapid.Int64Min(0).Draw(rt, "n"), Prev: exHash}
		for _, r := range []AuditRecord{
			&AuditDecision{ID: "s/1/0/0", Session: "s", Tool: text, Args: text, Digest: exHash, Verdict: VerdictAllow, Taint: ClassPublic},
			&AuditOutcome{ID: "s/1/0/0", Outcome: CallOK, Class: ClassPublic, Hash: exHash, Detail: text, Egress: []EgressConn{{Host: text, Verdict: EgressPassed}}},
			&AuditHalt{Reason: text, By: text},
		} {
			line, err := EncodeAudit(h, r)
			if err != nil || strings.Contains(string(line), "\n") {
				rt.Fatalf("%s, %v", line, err)
			}
			checkTrustedAudit(t, line)
		}
	})
}
