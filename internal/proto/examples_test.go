package proto

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// An example shows one type twice: with all its fields set, and with none that
// can be left out. TestExamples holds them to that.
type example[T any] struct{ full, min T }

const (
	exTime = "2026-03-04T05:06:07.089Z"
	exCall = "chat-20260304-1/2/17/0"
	exHash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

var (
	exUsage  = Usage{Completions: 2, Prompt: 310, Cached: 4100, Generated: 95, PromptMS: 420, GenerateMS: 1900, Context: 4505, Window: 32768}
	exInfo   = SessionInfo{Session: "chat-20260304-1", Epoch: 2, Records: 18, Bytes: 20480, Modified: exTime, Title: "what can you do?", Open: true}
	exInfo0  = SessionInfo{Session: "s", Modified: exTime}
	exCheck  = Check{Name: "cache", State: "failed", Detail: "turn 2 read 1,180 tokens again", Runbook: "selftest-cache"}
	exHead   = AuditHead{N: 4711, Hash: exHash}
	exServer = Server{Model: "qwen3.5-35b-a3b", Build: "b7777-0123abc", Context: 131072, Slots: 3, Template: exHash, Practice: true}
)

func loopRequests() []example[Message] {
	return []example[Message]{
		{
			&Submit{Session: "chat-20260304-1", Origin: "o-Zx81_q", Text: "list my notes\n\"ü\" \\ 😀 \u2028 <b>&", Surface: SurfaceChat},
			&Submit{Session: "s", Origin: "o", Surface: SurfaceAsk},
		},
		{&Watch{Session: "chat-20260304-1", After: 12, Follow: true, Epoch: 2}, &Watch{Session: "s"}},
		{&Stop{Session: "mm-abcdefghijklmnopqrstuvwxyz"}, &Stop{Session: "s"}},
		{&ListSessions{Prefix: "chat-", Limit: 20}, &ListSessions{}},
		{&GetSession{Session: "heartbeat"}, &GetSession{Session: "s"}},
		{&GetStatus{}, &GetStatus{}},
		{&Delivery{Session: "mm-abcdefghijklmnopqrstuvwxyz", Key: "Zm9vYmFyYmF6cXV4"}, &Delivery{Session: "s", Key: "k"}},
	}
}

func loopEvents() []example[Message] {
	return []example[Message]{
		{&Accepted{Record: 17, Queued: 2, Known: true}, &Accepted{}},
		{
			&Past{
				Record: 17, Epoch: 2, Time: exTime, Role: "assistant", Text: "I will look.", Thinking: "They want a list.", Tool: "list_files", Args: `{"path":"/notes"}`,
				Origin: "bx-1", Surface: SurfaceAsk, Call: exCall, Outcome: CallDenied, Code: CodeNoGrant, Class: ClassPublic, MS: 3,
			},
			&Past{Time: exTime, Role: "user"},
		},
		{&Waiting{Reason: WaitSlot, Ahead: 3}, &Waiting{Reason: WaitModel}},
		{&Prefill{Total: 5000, Cached: 4100, Done: 4800, MS: 640}, &Prefill{}},
		{&Thinking{Text: "They want a list."}, &Thinking{}},
		{&Text{Text: "Here are your\tnotes:\n"}, &Text{}},
		{&ToolStarted{Call: exCall, Tool: "list_files", Args: `{"path":"/notes"}`}, &ToolStarted{Call: "s/1/0/0"}},
		{&Asked{Call: exCall, Approval: "Zm9vYmFyYmF6cXV4", Expires: exTime}, &Asked{Call: "s/1/0/0", Approval: "a", Expires: exTime}},
		{
			&Result{Call: exCall, Outcome: CallDenied, Code: CodeDeniedByOwner, Class: ClassPrivate, Untrusted: true, Bytes: 48, MS: 5100},
			&Result{Call: "s/1/0/0", Outcome: CallOK, Class: ClassPublic},
		},
		{
			&Notice{Kind: NoticeColdCache, Text: "The cache was cold: 4,100 tokens were read again.", Lost: 4100, MS: 5200},
			&Notice{Kind: NoticeRetry},
		},
		{
			&Done{Outcome: TurnFailed, Text: "The model server does not answer.", Runbook: "upstream-unreachable", Answer: "You have 3 notes.", Usage: exUsage},
			&Done{Outcome: TurnAnswered},
		},
		{&Error{Code: ErrSessionLog, Text: "The log of this session is damaged.", Runbook: "log-damaged"}, &Error{Code: ErrInternal}},
		{&Stopped{Running: true}, &Stopped{}},
		{&SessionList{Sessions: []SessionInfo{exInfo}, More: true}, &SessionList{}},
		{&SessionDetail{Info: exInfo, Model: "qwen3.5-35b-a3b", Slot: 1, Queued: 1, Turns: 4, Usage: exUsage}, &SessionDetail{Info: exInfo0}},
		{
			&Status{
				Version: "0.1.0", State: "ready", Detail: "all is well", Since: exTime, Server: exServer, Baseline: 1180,
				Checks: []Check{exCheck}, Slots: []SlotState{{Name: "main", ID: 2, Session: "chat-20260304-1", Waiting: 1}},
				OpenTurns: 1, Confinement: []Check{exCheck},
			},
			&Status{State: "starting", Since: exTime},
		},
		{&Noted{}, &Noted{}},
	}
}

func brokerRequests() []example[Message] {
	return []example[Message]{
		{
			&Call{ID: exCall, Session: "chat-20260304-1", Tool: "read_file", Args: `{"path": "/notes/a.md"}`},
			&Call{ID: "s/1/0/0", Session: "s", Tool: "t"},
		},
		{&Confirm{ID: exCall}, &Confirm{ID: "s/1/0/0"}},
		{&Fate{ID: exCall}, &Fate{ID: "s/1/0/0"}},
		{&Cancel{ID: exCall}, &Cancel{ID: "s/1/0/0"}},
		{&FindTools{Session: "chat-20260304-1", Query: "fetch a page"}, &FindTools{Session: "s"}},
	}
}

func brokerEvents() []example[Message] {
	return []example[Message]{
		{&Asked{Call: exCall, Approval: "Zm9vYmFyYmF6cXV4", Expires: exTime}, &Asked{Call: "s/1/0/0", Approval: "a", Expires: exTime}},
		{
			&CallResult{ID: exCall, Outcome: CallFailed, Code: CodeToolTimeout, Class: ClassSecret, Untrusted: true, Text: "tool-timeout: it took longer than 30 s", Dropped: 900, Head: exHead},
			&CallResult{ID: "s/1/0/0", Outcome: CallOK, Class: ClassPublic},
		},
		{&Confirmed{ID: exCall}, &Confirmed{ID: "s/1/0/0"}},
		{&Unknown{ID: exCall, Never: true}, &Unknown{ID: "s/1/0/0"}},
		{&ToolList{Tools: []ToolInfo{{Name: "http_fetch", Line: "fetch a URL", Schema: `{"type":"object"}`}}}, &ToolList{}},
		{&Error{Code: ErrBadRequest, Text: "Not a request.", Runbook: "bad-request"}, &Error{Code: ErrInternal}},
	}
}

// exHeaders belong to the full and to the minimal example of a record.
var exHeaders = [2]Header{
	{N: 1234567890123, Time: time.Date(2026, 3, 4, 5, 6, 7, 89_900_000, time.FixedZone("", 3600))},
	{N: 0, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)},
}

func recordExamples() []example[Record] {
	raw := func(s string) jsontext.Value { return jsontext.Value(s) }
	message := raw(`{"role":"user","content":"list my notes\n\"ü\" \\ 😀 <b>&"}`)
	answer := raw(`{"role":"assistant","content":null,"reasoning_content":"They want a list.","tool_calls":[{"type":"function","id":"c1",` +
		`"function":{"name":"list_files","arguments":"{\"path\": \"/notes\"}"}}]}`)
	result := raw(`{"role":"tool","tool_call_id":"c1","content":"a.md\nb.md"}`)
	none := raw(`{}`)
	return []example[Record]{
		{
			&Baseline{
				Model: "qwen3.5-35b-a3b", Slot: 1, Sampling: raw(`{"stream":true,"temperature":0.6,"top_p":0.950}`),
				Tools: raw(`[{"type":"function","function":{"name":"clock"}}]`), System: raw(`{"role":"system","content":"You are …"}`),
				Carry: []jsontext.Value{message, answer}, Template: exHash, Window: 131072,
			},
			&Baseline{Sampling: none, Tools: raw(`[]`), System: none},
		},
		{&User{Origin: "o-Zx81_q", Surface: SurfaceMattermost, Message: message}, &User{Origin: "o", Surface: SurfaceAsk, Message: none}},
		{&Queued{Origin: "o-Zx81_q", Surface: SurfaceChat, Message: message}, &Queued{Origin: "o", Surface: SurfaceAsk, Message: none}},
		{&Assistant{Message: answer}, &Assistant{Message: none}},
		{
			&Tool{Call: exCall, Outcome: CallFailed, Code: CodeTooLarge, Class: ClassPrivate, Untrusted: true, Dropped: 70000, MS: 31, Head: exHead, Message: result},
			&Tool{Call: "s/1/0/0", Outcome: CallOK, Class: ClassPublic, Message: none},
		},
		{
			&Completion{Finish: "tool_calls", CacheN: 4100, PromptN: 310, PredictedN: 95, PromptUS: 420123, PredictedUS: 1900456, FirstMS: 431, Lost: 12, Capped: true},
			&Completion{},
		},
		{&CallAsked{Call: exCall, Approval: "Zm9vYmFyYmF6cXV4", Expires: exTime}, &CallAsked{Call: "s/1/0/0", Approval: "a", Expires: exTime}},
		{&Incomplete{Why: WhyStalled, Detail: "no byte for 30 s", Text: "You have", Thinking: "They want a list.", Retry: true}, &Incomplete{Why: WhyEmpty}},
		{&StopAsked{}, &StopAsked{}},
		{
			&TurnEnd{Origin: "o-Zx81_q", Outcome: TurnContextFull, Text: "The context is full.", Runbook: "context-full", Queued: 1},
			&TurnEnd{Origin: "o", Outcome: TurnAnswered},
		},
		{&Delivered{Key: "Zm9vYmFyYmF6cXV4"}, &Delivered{Key: "k"}},
		{&Recovered{Bytes: 17, File: "1.jsonl.torn-4096"}, &Recovered{}},
	}
}
