package proto

import (
	"fmt"
	"slices"
)

// Surface says where a message of the owner came from.
type Surface string

// Surfaces.
const (
	SurfaceChat       Surface = "chat"
	SurfaceAsk        Surface = "ask"
	SurfaceMattermost Surface = "mattermost"
)

// TurnOutcome says how a turn ended.
type TurnOutcome string

// Turn outcomes.
const (
	TurnAnswered    TurnOutcome = "answered"
	TurnStopped     TurnOutcome = "stopped"
	TurnFailed      TurnOutcome = "failed"
	TurnCapped      TurnOutcome = "capped"
	TurnContextFull TurnOutcome = "context-full"
)

// CallOutcome says how a tool call ended.
type CallOutcome string

// Call outcomes.
const (
	CallOK      CallOutcome = "ok"
	CallFailed  CallOutcome = "failed"
	CallDenied  CallOutcome = "denied"
	CallExpired CallOutcome = "expired"
	CallUnknown CallOutcome = "unknown"
)

// Code is why a tool call had its outcome. What the model reads of a call that
// was not ok is one short sentence that starts with the code.
type Code string

// Codes of tool calls.
const (
	CodeNoGrant             Code = "no-grant"
	CodeDeniedByGrant       Code = "denied-by-grant"
	CodeDeniedByOwner       Code = "denied-by-owner"
	CodeApprovalExpired     Code = "approval-expired"
	CodeTaintTooHigh        Code = "taint-too-high"
	CodeInvalidArguments    Code = "invalid-arguments"
	CodeUnknownTool         Code = "unknown-tool"
	CodeNotConfigured       Code = "not-configured"
	CodeToolFailed          Code = "tool-failed"
	CodeToolTimeout         Code = "tool-timeout"
	CodeLimitNotEnforceable Code = "limit-not-enforceable"
	CodeNoRuntime           Code = "no-runtime"
	CodeTooLarge            Code = "too-large"
	CodeNoBroker            Code = "no-broker"
	CodeUnknownFate         Code = "unknown-fate"
	CodeRepeatedCall        Code = "repeated-call" // loopd's own: the runaway control did not pass the call on
	CodeTurnLimit           Code = "turn-limit"    // loopd's own: too many rounds of calls in one turn
	CodeStopped             Code = "stopped"       // loopd's own: the owner stopped the turn before the call
	CodeHalted              Code = "halted"        // the owner stopped everything with bxctl halt
	CodeRateLimited         Code = "rate-limited"  // more calls in an hour than the grant has
	CodeReplayedCall        Code = "replayed-call" // this id, or one after it, was used before
	CodeNoEgress            Code = "no-egress"     // egressd is not there, so the call fails closed
	CodeInternal            Code = "internal"
)

// Class is how confidential a text is. The order is public < private < secret.
type Class string

// Data classes.
const (
	ClassPublic  Class = "public"
	ClassPrivate Class = "private"
	ClassSecret  Class = "secret"
)

// WaitReason says what a turn waits for.
type WaitReason string

// Reasons to wait.
const (
	WaitSlot     WaitReason = "slot"
	WaitModel    WaitReason = "model"
	WaitApproval WaitReason = "approval"
	WaitQueue    WaitReason = "queue"
)

// NoticeKind names something that happened in a turn and is not an error.
type NoticeKind string

// Notices.
const (
	NoticeColdCache      NoticeKind = "cold-cache"
	NoticeThinkingCapped NoticeKind = "thinking-capped"
	NoticeRepeatedCall   NoticeKind = "repeated-call"
	NoticeTruncated      NoticeKind = "truncated"
	NoticeIncomplete     NoticeKind = "incomplete"
	NoticeRetry          NoticeKind = "retry"       // the same request is sent once more; text shown of the failed try is void
	NoticeNeutralised    NoticeKind = "neutralised" // control tokens in the owner's text were made inert
	NoticeNewEpoch       NoticeKind = "new-epoch"
)

// Why says why a completion gave no message that can be kept.
type Why string

// Reasons of an incomplete completion.
const (
	WhyStalled      Why = "stalled"      // no byte for the liveness limit
	WhyCut          Why = "cut"          // the stream ended without its end mark
	WhyServerError  Why = "server-error" // an error before or inside the stream
	WhyUnreachable  Why = "unreachable"  // no connection, or 503 for too long
	WhyUnauthorised Why = "unauthorised" // 401 or 403
	WhyBadData      Why = "bad-data"     // not what llama-server sends: HTML, invalid UTF-8, oversized event
	WhyEmpty        Why = "empty"        // an end without content and without calls
	WhyLength       Why = "length"       // max_tokens inside thinking or a call's arguments
	WhyMarkup       Why = "markup"       // tool-call markup in the content
	WhyBadCall      Why = "bad-call"     // a tool call whose parts do not fit together
	WhyContextFull  Why = "context-full" // the prompt or the answer does not fit n_ctx
	WhyStopped      Why = "stopped"      // the owner stopped the turn
)

// ErrCode is the closed set of errors that loopd answers a client with.
type ErrCode string

// Error codes on loop.sock.
const (
	ErrBadRequest   ErrCode = "bad-request"
	ErrBadSession   ErrCode = "bad-session"
	ErrNoSession    ErrCode = "no-session"
	ErrEmptyMessage ErrCode = "empty-message"
	ErrMessageLarge ErrCode = "message-too-large"
	ErrQueueFull    ErrCode = "queue-full"
	ErrSessionLog   ErrCode = "session-log" // the session's log cannot be opened or written
	ErrNotReady     ErrCode = "not-ready"
	ErrSlowClient   ErrCode = "slow-client"
	ErrUpstream     ErrCode = "upstream"     // the inference server failed the turn
	ErrNoApproval   ErrCode = "no-approval"  // no approval of that id waits or ended lately
	ErrWrongDigest  ErrCode = "wrong-digest" // the answer is for other bytes than those that wait
	ErrInternal     ErrCode = "internal"
)

func oneOf[T ~string](what string, v T, all ...T) error {
	if slices.Contains(all, v) {
		return nil
	}
	return fmt.Errorf("proto: %s: unknown value %q", what, clip(string(v), 40))
}

// Validate reports a value outside the enum.
func (v Surface) Validate() error {
	return oneOf("surface", v, SurfaceChat, SurfaceAsk, SurfaceMattermost)
}

// Validate reports a value outside the enum.
func (v TurnOutcome) Validate() error {
	return oneOf("turn outcome", v, TurnAnswered, TurnStopped, TurnFailed, TurnCapped, TurnContextFull)
}

// Validate reports a value outside the enum.
func (v CallOutcome) Validate() error {
	return oneOf("call outcome", v, CallOK, CallFailed, CallDenied, CallExpired, CallUnknown)
}

// Validate reports a value outside the enum.
func (v Code) Validate() error {
	return oneOf("code", v, CodeNoGrant, CodeDeniedByGrant, CodeDeniedByOwner, CodeApprovalExpired,
		CodeTaintTooHigh, CodeInvalidArguments, CodeUnknownTool, CodeNotConfigured, CodeToolFailed,
		CodeToolTimeout, CodeLimitNotEnforceable, CodeNoRuntime, CodeTooLarge, CodeNoBroker,
		CodeUnknownFate, CodeRepeatedCall, CodeTurnLimit, CodeStopped, CodeHalted, CodeRateLimited,
		CodeReplayedCall, CodeNoEgress, CodeInternal)
}

// Validate reports a value outside the enum.
func (v Class) Validate() error {
	return oneOf("class", v, ClassPublic, ClassPrivate, ClassSecret)
}

// Validate reports a value outside the enum.
func (v WaitReason) Validate() error {
	return oneOf("wait reason", v, WaitSlot, WaitModel, WaitApproval, WaitQueue)
}

// Validate reports a value outside the enum.
func (v NoticeKind) Validate() error {
	return oneOf("notice", v, NoticeColdCache, NoticeThinkingCapped, NoticeRepeatedCall, NoticeTruncated,
		NoticeIncomplete, NoticeRetry, NoticeNeutralised, NoticeNewEpoch)
}

// Validate reports a value outside the enum.
func (v Why) Validate() error {
	return oneOf("why", v, WhyStalled, WhyCut, WhyServerError, WhyUnreachable, WhyUnauthorised, WhyBadData,
		WhyEmpty, WhyLength, WhyMarkup, WhyBadCall, WhyContextFull, WhyStopped)
}

// Validate reports a value outside the enum.
func (v ErrCode) Validate() error {
	return oneOf("error code", v, ErrBadRequest, ErrBadSession, ErrNoSession, ErrEmptyMessage, ErrMessageLarge,
		ErrQueueFull, ErrSessionLog, ErrNotReady, ErrSlowClient, ErrUpstream, ErrNoApproval, ErrWrongDigest, ErrInternal)
}
