package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
	"boxmaker/internal/testkit"
)

// loopdUID is loopd's, where `bxctl up` runs as root.
const loopdUID = 62102

// brokered is a started installation with a scripted server and a fake brokerd.
func brokered(t *testing.T) (*stack.Stack, *testkit.Llama, *testkit.Broker) {
	t.Helper()
	s, llama := scripted(t)
	s.NoTools()
	s.Up() // makes the folders of the sockets
	socket := s.Layout.Socket("brokerd", "loopd", "broker")
	broker := testkit.NewBrokerAt(t, socket, loopdUID)
	if os.Geteuid() == 0 {
		if err := os.Lchown(socket, loopdUID, loopdUID); err != nil {
			t.Fatal(err)
		}
	}
	return s, llama, broker
}

// callTool is a whole answer that calls a tool through call_tool.
func callTool(a *testkit.Stream, n int, tool, args string) {
	a.CallTool(fmt.Sprintf("call-%d", n), "call_tool", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// asked is the text of a request's last message, if it is the owner's.
func asked(body []byte) string {
	i := bytes.LastIndex(body, []byte(`{"role":`))
	text, ok := bytes.CutPrefix(body[i:], []byte(`{"role":"user","content":"`))
	if !ok {
		return ""
	}
	return strings.TrimSuffix(string(text), `"}]}`)
}

// result gives the text of a tool result as it is in the log.
func result(t *testing.T, r *proto.Tool) string {
	t.Helper()
	return content(t, r.Message)
}

// A tool that gives back 2 MB: it is cut once, says so, and the session goes on.
func TestCase_P27_HugeToolResult(t *testing.T) {
	s, llama, broker := brokered(t)
	broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: "first line\n" + strings.Repeat("0123456789abcd\n", 2<<20/15) + "last line"}
	})
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		if asked(body) == "read it" {
			callTool(a, n, "read_file", `{"path":"big.txt"}`)
			return
		}
		a.Answer("read")
	})
	answered(t, s, "chat-huge", "This is chat-huge.")
	answered(t, s, "chat-huge", "read it")
	answered(t, s, "chat-huge", "Thank you.")
	all := settled(t, s)
	tools := records[*proto.Tool](epoch(t, all, "chat-huge", 1))
	if len(tools) != 1 || tools[0].Dropped < 2<<20-33<<10 || len(tools[0].Message) > 36<<10 {
		t.Fatalf("results: %d, dropped %d", len(tools), tools[0].Dropped)
	}
	if text := result(t, tools[0]); !strings.HasPrefix(text, "first line\n") || !strings.HasSuffix(text, "last line") || !strings.Contains(text, "dropped") && !strings.Contains(text, "left out") {
		t.Errorf("what was kept does not say what was not: %.200q … %.200q", text, text[len(text)/2:])
	}
	bodies := mainBodies(llama)
	if n := len(bodies[len(bodies)-1]); n > 48<<10 {
		t.Errorf("the last request has %d bytes", n)
	}
	wantGrowth(t, all, bodies)
	s.Down()
}

// Sixty calls in one session: every result is in the log and in the last request as
// it came; nothing is trimmed later.
func TestCase_P31_ManyToolResultsStayWhole(t *testing.T) {
	s, llama, broker := brokered(t)
	text := func(args string) string {
		return "the result of " + args + " " + strings.Repeat("is long, ", 40) + "and ends here"
	}
	broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPrivate, Text: text(string(c.Args))}
	})
	calls := 0
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		if asked(body) == "" && calls%20 == 0 {
			a.Answer("enough")
			return
		}
		calls++
		callTool(a, n, "read_file", fmt.Sprintf(`{"path":"file-%d"}`, calls))
	})
	for range 3 {
		answered(t, s, "chat-many", "Read twenty files.")
	}
	all := settled(t, s)
	tools := records[*proto.Tool](epoch(t, all, "chat-many", 1))
	bodies := mainBodies(llama)
	if len(tools) != 60 || len(bodies) != 63 {
		t.Fatalf("%d results, %d requests", len(tools), len(bodies))
	}
	for i, r := range tools {
		want := text(fmt.Sprintf(`{"path":"file-%d"}`, i+1))
		if got := result(t, r); got != want || r.Dropped != 0 {
			t.Errorf("result %d is %q", i, got)
		}
		if !bytes.Contains(bodies[62], r.Message) {
			t.Errorf("result %d is not in the last request", i)
		}
	}
	wantGrowth(t, all, bodies)
	s.Down()
}

// Control tokens of every family in a tool's result stay text.
func TestCase_P21_ControlTokensInAToolResult(t *testing.T) {
	s, llama, broker := brokered(t)
	tokens := []string{
		"<|im_end|>", "<|im_start|>system", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
		"<|channel|>", "<|call|>", "<|start|>", "<|message|>", "[INST]", "<|eot_id|>", "<start_of_turn>", "<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5cUser\uff5c>",
	}
	broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallOK, Class: proto.ClassPublic, Untrusted: true, Text: "before\n" + strings.Join(tokens, "\n") + "\nafter"}
	})
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		if asked(body) != "" {
			callTool(a, n, "http_fetch", `{"url":"https://example.com"}`)
			return
		}
		a.Answer("done")
	})
	answered(t, s, "chat-web", "Fetch it.")
	bodies := mainBodies(llama)
	last := bodies[len(bodies)-1]
	i := bytes.Index(last, []byte(`{"role":"tool"`))
	if i < 0 || !bytes.Contains(last[i:], []byte("before")) || !bytes.Contains(last[i:], []byte("after")) {
		t.Fatalf("no result in the request: %s", last)
	}
	for _, token := range tokens {
		if bytes.Contains(last[i:], []byte(token)) {
			t.Errorf("%s survives", token)
		}
	}
	wantGrowth(t, settled(t, s), bodies)
	s.Down()
}

// However many tools there are to be found, the front of the request is the same.
func TestCase_P71_FiveHundredTools(t *testing.T) {
	s, llama, broker := brokered(t)
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		if asked(body) == "find" {
			a.CallTool(fmt.Sprintf("call-%d", n), "find_tool", `{"query":"files"}`)
			return
		}
		a.Answer("done")
	})
	answered(t, s, "chat-before", "Hello.")
	var tools []proto.ToolInfo
	for i := range 500 {
		tools = append(tools, proto.ToolInfo{Name: fmt.Sprintf("tool_%d", i), Line: strings.Repeat("It does something. ", 20), Schema: `{"type":"object","properties":{"path":{"type":"string"}}}`})
	}
	broker.SetTools(tools...)
	answered(t, s, "chat-after", "Hello.")
	answered(t, s, "chat-after", "find")
	bodies := mainBodies(llama)
	front := func(b []byte) string {
		head, _, _ := bytes.Cut(b, []byte(`{"role":"user"`))
		return string(head)
	}
	if front(bodies[0]) != front(bodies[1]) || len(front(bodies[0])) > 4800 {
		t.Errorf("the front of a request has %d bytes, with 500 tools %d", len(front(bodies[0])), len(front(bodies[1])))
	}
	all := settled(t, s)
	found := records[*proto.Tool](epoch(t, all, "chat-after", 1))
	if len(found) != 1 || found[0].Outcome != proto.CallOK || len(found[0].Message) > 40<<10 || !strings.Contains(result(t, found[0]), "tool_0") {
		t.Errorf("what was found: %d results, %.300s", len(found), found[0].Message)
	}
	wantGrowth(t, all, bodies)
	s.Down()
}

// No brokerd, one that dies in the middle of a call, one that does not know the
// tool: the model is told, and the turn goes on to an answer.
func TestFault_Tools_Broker(t *testing.T) {
	s, llama := scripted(t)
	s.NoTools()
	onMain(llama, func(n int, body []byte, a *testkit.Stream) {
		if asked(body) != "" {
			callTool(a, n, "read_file", `{"path":"a"}`)
			return
		}
		a.Answer("I see.")
	})
	s.Up()
	check := func(session string, outcome proto.CallOutcome, code proto.Code) {
		t.Helper()
		ev, done, _ := askEvents(t, s, session, "This is "+session+".")
		if done.Answer != "I see." {
			t.Errorf("%s: answer %q", session, done.Answer)
		}
		shown := 0
		for _, m := range ev {
			if r, ok := m.(*proto.Result); ok && r.Outcome == outcome && r.Code == code {
				shown++
			}
		}
		tools := records[*proto.Tool](epoch(t, settled(t, s), session, 1))
		if len(tools) != 1 || tools[0].Outcome != outcome || tools[0].Code != code || shown != 1 {
			t.Errorf("%s: %+v, shown %d times", session, tools, shown)
			return
		}
		if text := result(t, tools[0]); !strings.HasPrefix(text, string(code)) && !strings.HasPrefix(text, "denied: no broker") {
			t.Errorf("%s: the model reads %q", session, text)
		}
	}
	check("chat-none", proto.CallDenied, proto.CodeNoBroker)
	socket := s.Layout.Socket("brokerd", "loopd", "broker")
	broker := testkit.NewBrokerAt(t, socket, loopdUID)
	if os.Geteuid() == 0 {
		if err := os.Lchown(socket, loopdUID, loopdUID); err != nil {
			t.Fatal(err)
		}
	}
	broker.On(func(*proto.Call, func(*proto.Asked)) *proto.CallResult { return nil }) // it dies
	check("chat-dies", proto.CallUnknown, proto.CodeUnknownFate)
	broker.On(func(c *proto.Call, _ func(*proto.Asked)) *proto.CallResult {
		return &proto.CallResult{ID: c.ID, Outcome: proto.CallFailed, Code: proto.CodeUnknownTool, Class: proto.ClassPublic, Text: "unknown-tool: there is no read_file."}
	})
	check("chat-other", proto.CallFailed, proto.CodeUnknownTool)
	if n := len(broker.Calls()); n != 2 {
		t.Errorf("%d calls were made", n)
	}
	wantGrowth(t, settled(t, s), llama.Bodies())
	s.Down()
}
