package proto

// Enums of the authority: decisions, containers, the door out.

// Verdict is what was decided on a call: by grants (allow, ask, deny), or at
// the end of an approval (approved, denied, expired, withdrawn).
type Verdict string

// Verdicts.
const (
	VerdictAllow     Verdict = "allow"
	VerdictAsk       Verdict = "ask"
	VerdictDeny      Verdict = "deny"
	VerdictApproved  Verdict = "approved"
	VerdictDenied    Verdict = "denied"
	VerdictExpired   Verdict = "expired"
	VerdictWithdrawn Verdict = "withdrawn" // the turn was stopped, or everything was halted
)

// EgressVerdict is what egressd made of one connection.
type EgressVerdict string

// Egress verdicts. Only EgressPassed let bytes through.
const (
	EgressPassed      EgressVerdict = "passed"
	EgressNotAllowed  EgressVerdict = "not-allowed" // host or port is not in the grant
	EgressPrivate     EgressVerdict = "private"     // the name has a private address, and no grant says local
	EgressNoAddress   EgressVerdict = "no-address"  // the name does not resolve
	EgressUnreachable EgressVerdict = "unreachable" // no connection
	EgressBadRequest  EgressVerdict = "bad-request" // not what a proxy is asked
	EgressCap         EgressVerdict = "cap"         // ended by the cap of bytes
	EgressTime        EgressVerdict = "time"        // ended by the time limit
	EgressTooMany     EgressVerdict = "too-many"    // too many connections of one call
)

// Userland says what programs a container sees.
type Userland string

// Userlands.
const (
	UserlandNone Userland = "none" // toolkit alone
	UserlandUsr  Userland = "usr"  // and the host's /usr, read-only
	UserlandRoot Userland = "root" // and a root file system that the owner names
)

// EndReason says why a container ended.
type EndReason string

// End reasons. Only EndExit means that the tool ran to its end.
const (
	EndExit       EndReason = "exit"
	EndTimeout    EndReason = "timeout"
	EndMemory     EndReason = "memory"
	EndOutput     EndReason = "output"      // killed because its output did not end
	EndKilled     EndReason = "killed"      // by runnerd, since nobody waits any more
	EndLimit      EndReason = "limit"       // a granted limit cannot be enforced; nothing ran
	EndMount      EndReason = "mount"       // a granted path is not there, is a link, or was swapped; nothing ran
	EndNoRuntime  EndReason = "no-runtime"  // no OCI runtime that works; nothing ran
	EndNoUserland EndReason = "no-userland" // the root file system is gone; nothing ran
	EndNoRoom     EndReason = "no-room"     // a file system that it may write is nearly full; nothing ran
	EndDisk       EndReason = "disk"        // killed because a file system that it may write got nearly full
	EndInternal   EndReason = "internal"
)

// Validate reports a value outside the enum.
func (v Verdict) Validate() error {
	return oneOf("verdict", v, VerdictAllow, VerdictAsk, VerdictDeny, VerdictApproved, VerdictDenied, VerdictExpired, VerdictWithdrawn)
}

// Validate reports a value outside the enum.
func (v EgressVerdict) Validate() error {
	return oneOf("egress verdict", v, EgressPassed, EgressNotAllowed, EgressPrivate, EgressNoAddress, EgressUnreachable,
		EgressBadRequest, EgressCap, EgressTime, EgressTooMany)
}

// Validate reports a value outside the enum.
func (v Userland) Validate() error {
	return oneOf("userland", v, UserlandNone, UserlandUsr, UserlandRoot)
}

// Validate reports a value outside the enum.
func (v EndReason) Validate() error {
	return oneOf("end reason", v, EndExit, EndTimeout, EndMemory, EndOutput, EndKilled, EndLimit, EndMount,
		EndNoRuntime, EndNoUserland, EndNoRoom, EndDisk, EndInternal)
}
