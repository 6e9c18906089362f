package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"
)

// What brokerd noted of its own log finds a cut of the last record alone, which
// no head from outside covers: it is that of the newest checkpoint.
func TestCaseP62_CutOfTheLastRecordAlone(t *testing.T) {
	s := newSite(t)
	s.append(&proto.AuditStart{Version: "1", PID: 2})
	s.anchor()
	s.append(&proto.AuditStart{Version: "1", PID: 3}) // in the place of the checkpoint's own record
	head := s.walk.Head()
	note := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.State, notedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if v := s.verify(); !v.OK || v.Anchors != 1 || v.Matched != 1 || head.N <= v.Newest {
		t.Fatalf("no note: %+v", v)
	}
	good := fmt.Sprintf("%d:%s", head.N, head.Hash)
	for text, what := range map[string]string{
		good + "\n": "", good + strings.Repeat(" ", 20) + "\n": "",
		fmt.Sprintf("%d:%s\n", head.N+1, hash): "cut", fmt.Sprintf("%d:%s\n", head.N, hash): "forked",
		"": "changed", "3\n": "changed", good[:20]: "changed", "-1:" + head.Hash: "changed", good + " " + good: "changed",
	} {
		note(text)
		v := s.verify()
		if v.OK != (what == "") || what != "" && (len(v.Faults) != 1 || v.Faults[0].What != what) || v.Matched != 1 {
			t.Errorf("%q: %+v; want %q", text, v, what)
		}
	}
	note(good + "\n")
	s.edit(s.file("2026-03.jsonl"), dropLast)
	if v := s.verify(); v.OK || v.Faults[0].What != "cut" || !strings.Contains(v.Faults[0].Text, "broker/audit.head") {
		t.Errorf("the last record cut: %+v", v)
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if v := s.verify(); v.OK || v.Faults[0].What != "cut" || !strings.Contains(v.Faults[0].Text, fmt.Sprintf("%d records long", head.N)) {
		t.Errorf("all of it gone: %+v", v)
	}
}
