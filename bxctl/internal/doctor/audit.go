package doctor

import (
	"errors"
	"io/fs"
	"os"

	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/chain"
)

// auditLog: every record is as it was written, and none is missing, by its own
// chain and by the heads that were kept elsewhere.
func auditLog(x *exam) {
	root, err := os.OpenRoot(x.Layout.Audit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.skip(x.Layout.Audit, "nothing was ever decided here")
		return
	case err != nil:
		x.bad(Fail, x.Layout.Audit, err.Error(), "run bxctl as the user that set Boxmaker up")
		return
	}
	defer root.Close()
	r, err := chain.Verify(chain.Config{Root: root})
	if err != nil {
		x.bad(Fail, x.Layout.Audit, term.Line(err.Error()), "run bxctl as the user that set Boxmaker up")
		return
	}
	for _, f := range r.Faults {
		x.add(Finding{
			Looked: x.Layout.Audit, Verdict: Fail, Runbook: "audit-damaged", Detail: "the audit log does not verify: " + term.Line(f.Error()),
			Mend: "keep a copy of the folder; bxctl audit verify says more; take the log from a backup if somebody changed it",
		})
	}
	if len(r.Faults) == 0 {
		x.ok(x.Layout.Audit, "%d records, unbroken", r.Head.N)
	}
}
