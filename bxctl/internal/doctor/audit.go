package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"boxmaker/bxctl/internal/audit"
	"boxmaker/bxctl/internal/term"
)

// auditLog: every record is as it was written, and none is missing, by its own
// chain and by the heads that were kept elsewhere.
func auditLog(x *exam) {
	v, err := audit.At(x.Layout).Verify(x.ctx)
	if _, at := os.Stat(x.Layout.Audit); errors.Is(at, fs.ErrNotExist) && len(v.Faults) == 0 {
		x.skip(x.Layout.Audit, "nothing was ever decided here")
		return
	}
	if err != nil {
		text, key := split(err)
		x.add(Finding{Looked: x.Layout.Audit, Verdict: Fail, Detail: term.Line(text), Mend: "run bxctl as the user that set Boxmaker up", Runbook: key})
		return
	}
	for _, f := range v.Faults {
		at := f.File
		if f.Line > 0 {
			at += fmt.Sprintf(":%d", f.Line)
		}
		if at != "" {
			at += ": "
		}
		x.add(Finding{
			Looked: x.Layout.Audit, Verdict: Fail, Runbook: "audit-damaged", Detail: "the audit log does not verify: " + term.Line(at+f.What+": "+f.Text),
			Mend: "keep a copy of the folder; bxctl audit verify says more; take the log from a backup if somebody changed it",
		})
	}
	for _, p := range v.Anchor {
		x.add(Finding{Looked: x.Layout.Anchors, Verdict: Fail, Runbook: "audit-damaged", Detail: "a head that was kept is none: " + term.Line(p), Mend: "see who wrote to the folder; bxctl audit verify says more"})
	}
	if v.OK {
		x.ok(x.Layout.Audit, "%d records, unbroken; %d of %d heads that were kept elsewhere fit", v.Head.N, v.Matched, v.Anchors+v.Results)
	}
}
