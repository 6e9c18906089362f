package redteam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"boxmaker/e2e/stack"
	"boxmaker/internal/frame"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// forgedFrames: whatever comes over broker.sock is a request in its one form, or
// nothing.
func forgedFrames() family {
	return family{
		name: "forged frames of loopd",
		stage: func(r *rig) {
			r.grant("10-read", readGrant(r.granted))
			r.grant("20-shell", shellGrant(r.granted))
		},
		tries: func(r *rig) []attempt {
			rows := []attempt{act("control: the same request, as it must be", func(r *rig) {
				m, err := r.raw([]byte(request(r.id(), "shell", encode(r.counted("control")))), nil)
				if res, ok := m.(*proto.CallResult); err != nil || !ok || res.Code != "" {
					r.t.Fatalf("%+v, %v", m, err)
				}
				r.ranTimes("control", 1)
			}), act("control: the document that the others are made of", func(r *rig) {
				m, err := r.raw([]byte(r.filled(goodDocument, "control-2")), nil)
				if res, ok := m.(*proto.CallResult); err != nil || !ok || res.Code != "" {
					r.t.Fatalf("%+v, %v", m, err)
				}
				r.ranTimes("control-2", 1)
			})}
			for what, body := range documents() {
				rows = append(rows, act("document: "+what, func(r *rig) {
					r.refusedFrame(r.filled(body, "forged"))
					r.ranTimes("forged", 0)
				}))
			}
			for _, tag := range []string{
				"", "Call", "CALL", "call ", "asked", "result", "confirmed", "unknown", "error", "approval", "retracted", "approvals", "answer", "answered", "explain", "explained", "head", "status", "halt", "resume",
				"launch", "ended", "open", "close", "door", "report", "submit", "watch", "stop", "session", "sessions", "\u0441all", `call\u0000`,
			} {
				rows = append(rows, act("type "+clipped(tag), func(r *rig) { r.refusedFrame(`{"type":"` + tag + `"}`) }))
			}
			rows = append(rows, lengths()...)
			rows = append(rows, otherSockets()...)
			return append(rows, crowds()...)
		},
	}
}

// escaped puts a text into a JSON string.
func escaped(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }

func request(id, tool, args string) string {
	session, _, _ := strings.Cut(id, "/")
	return `{"type":"call","id":"` + id + `","session":"` + session + `","tool":"` + tool + `","args":"` + escaped(args) + `"}`
}

const goodDocument = `{"type":"call","id":"@ID@","session":"red-1","tool":"shell","args":"@ARGS@"}`

// filled puts a fresh id and a command into a document.
func (r *rig) filled(document, file string) string {
	return strings.NewReplacer("@ID@", r.id(), "@ARGS@", escaped(encode(r.counted(file)))).Replace(document)
}

// documents are one request each that says the same as a good one, or would to a
// lenient reader.
func documents() map[string]string {
	const good = goodDocument
	with := func(old, to string) string { return strings.Replace(good, old, to, 1) }
	return map[string]string{
		"white space": with(`,"id"`, `, "id"`), "a line break behind": good + "\n", "more behind": good + "{}", "two documents": good + good, "a byte order mark": "\ufeff" + good,
		"an array": "[" + good + "]", "a string": `"call"`, "null": "null", "nothing but a brace": "{", "an empty object": "{}", "NUL bytes": "\x00\x00\x00\x00", "not JSON": "GET / HTTP/1.1\r\n\r\n",
		"the type last": strings.TrimSuffix(with(`"type":"call",`, ""), "}") + `,"type":"call"}`, "no type": with(`"type":"call",`, ""), "the type twice": with(`"type":"call"`, `"type":"call","type":"call"`),
		"a type that is no text": with(`"call"`, "1"), "a key in other case": with(`"tool"`, `"Tool"`), "a key twice": with(`"tool":"shell"`, `"tool":"read_file","tool":"shell"`),
		"a key twice, one escaped": with(`"tool":"shell"`, `"tool":"read_file","t\u006fol":"shell"`), "keys in other order": with(`"session":"red-1","tool":"shell"`, `"tool":"shell","session":"red-1"`),
		"an unknown key": with(`"args"`, `"extra":1,"args"`), "approved": with(`"args"`, `"approved":true,"args"`), "a verdict": with(`"args"`, `"verdict":"allow","args"`), "a grant": with(`"args"`, `"grant":"20-shell.toml","args"`),
		"a taint": with(`"args"`, `"taint":"public","args"`), "a uid": with(`"args"`, `"uid":0,"args"`), "mounts": with(`"args"`, `"mounts":[{"path":"/"}],"args"`), "a null": with(`"shell"`, "null"),
		"a missing key": with(`"session":"red-1",`, ""), "args that are an object": with(`"@ARGS@"`, `{"command":"id"}`), "args that are null": with(`"@ARGS@"`, "null"), "a float": with(`"red-1"`, "1.0"),
		"an exponent": with(`"red-1"`, "1e0"), "a number for the id": with(`"@ID@"`, "1"), "minus zero": with(`"red-1"`, "-0"), "an escape that is not the shortest": with("shell", `sh\u0065ll`), "an escaped slash": with("@ID@", `red-1\/1\/1\/0`),
		"capital hexadecimal": with("@ARGS@", `\u001F`), "bytes that are no UTF-8": with("@ARGS@", "\xff\xfe"), "an overlong encoding": with("@ARGS@", "\xc0\xaf"), "half of a surrogate pair": with("@ARGS@", `\ud800`),
		"a surrogate in UTF-8": with("@ARGS@", "\xed\xa0\x80"), "a raw control character": with("@ARGS@", "\x01"), "deep nesting": strings.Repeat(`{"type":`, 100000), "a deep array": strings.Repeat("[", 1<<20),
		"a comma behind": strings.TrimSuffix(good, "}") + ",}", "a comment": with(`,"id"`, `/**/,"id"`), "single quotes": strings.ReplaceAll(good, `"`, "'"), "infinity": with(`"red-1"`, "Infinity"),
	}
}

func header(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// lengths are frames that lie about themselves.
func lengths() []attempt {
	good := func(r *rig) []byte { return []byte(request(r.id(), "shell", encode(r.counted("lengths")))) }
	closes := func(name string, bytes func(r *rig) []byte) attempt {
		return act("length: "+name, func(r *rig) {
			before := r.head()
			w := r.open()
			w.put(bytes(r))
			w.half()
			switch m := w.next().(type) {
			case nil:
			case *proto.Error:
				if m.Code != proto.ErrBadRequest {
					r.t.Errorf("%+v", m)
				}
			default:
				r.t.Errorf("it was answered: %+v", m)
			}
			w.drained()
			if r.head() != before {
				r.t.Error("something is on record")
			}
			r.ranTimes("lengths", 0)
		})
	}
	rows := []attempt{
		closes("nothing at all", func(*rig) []byte { return nil }),
		closes("zero", func(*rig) []byte { return header(0) }),
		closes("zero, and then a request", func(r *rig) []byte { return append(header(0), good(r)...) }),
		closes("4 MiB and one", func(*rig) []byte { return header(4<<20 + 1) }),
		closes("all bits", func(*rig) []byte { return header(0xffffffff) }),
		closes("the sign bit", func(*rig) []byte { return header(0x80000000) }),
		closes("4 MiB that do not come", func(*rig) []byte { return header(4 << 20) }),
		closes("4 MiB of zeros", func(*rig) []byte { return append(header(4<<20), make([]byte, 4<<20)...) }),
		closes("4 MiB of an open string", func(*rig) []byte {
			return append(header(4<<20), `{"type":"`+strings.Repeat("a", 4<<20-9)...)
		}),
		closes("little-endian", func(r *rig) []byte {
			b := good(r)
			return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) //nolint:gosec // small
		}),
		closes("one more than there is", func(r *rig) []byte { b := good(r); return append(header(uint32(len(b)+1)), b...) }), //nolint:gosec // small
		closes("one less than there is", func(r *rig) []byte { b := good(r); return append(header(uint32(len(b)-1)), b...) }), //nolint:gosec // small
		closes("no length", good),
	}
	for _, part := range []int{1, 3, 4, 5, 20, 60} {
		rows = append(rows, closes(fmt.Sprintf("cut after %d bytes", part), func(r *rig) []byte {
			b := good(r)
			return append(header(uint32(len(b))), b...)[:part] //nolint:gosec // small
		}))
	}
	return append(rows, act("two requests on one connection", func(r *rig) {
		first, second := r.id(), r.id()
		w := r.open()
		for _, id := range []string{first, second} {
			if err := frame.Write(w, []byte(request(id, "shell", encode(r.counted("second"))))); err != nil {
				break
			}
		}
		w.drained()
		if m, err := r.broker(&proto.Fate{ID: first}, nil); err != nil { // the first was accepted, perhaps; it goes on
			r.t.Errorf("%+v, %v", m, err)
		}
		if d := r.lastDecision(second); d != nil {
			r.t.Errorf("the second request was decided on: %+v", d)
		}
		if n := r.runs("second"); n > 1 {
			r.t.Errorf("it ran %d times", n)
		}
	}))
}

// otherSockets: each socket is for one client, and for requests of one kind.
func otherSockets() []attempt {
	var rows []attempt
	for _, body := range []string{
		`{"type":"call","id":"red-1/1/900000/0","session":"red-1","tool":"shell","args":"{}"}`, `{"type":"confirm","id":"red-1/1/1/0"}`, `{"type":"fate","id":"red-1/1/1/0"}`,
		`{"type":"cancel","id":"red-1/1/1/0"}`, `{"type":"tools","session":"red-1","query":""}`, `{"type":"launch"}`, `{"type":"open"}`, `{"type":"submit"}`,
	} {
		rows = append(rows, act("on owner.sock: "+strings.SplitN(body, `"`, 5)[3], func(r *rig) {
			before := r.head()
			conn, err := stack.DialAs(r.OwnerSocket(), os.Geteuid())
			if err != nil {
				r.t.Fatal(err)
			}
			defer conn.Close()
			if err := frame.Write(conn, []byte(body)); err != nil {
				r.t.Fatal(err)
			}
			b, err := frame.Read(conn)
			if err != nil || !strings.Contains(string(b), `"code":"bad-request"`) {
				r.t.Errorf("%s, %v", b, err)
			}
			if r.head() != before {
				r.t.Error("something is on record")
			}
		}))
	}
	return append(rows, act("control: the owner on owner.sock", func(r *rig) {
		if _, err := ipc.Ask(r.context(), r.OwnerSocket(), proto.OwnerEvents, &proto.ListTools{}); err != nil {
			r.t.Error(err)
		}
	}), act("each socket with the uid of every other role", func(r *rig) {
		if os.Geteuid() != 0 {
			r.t.Skip("not root: all roles have one uid, and only a confined role is kept from a socket: by Landlock, which internal/daemon tests")
		}
		clients := map[string]int{
			r.OwnerSocket(): 0, r.Layout.Socket("brokerd", "loopd", "broker"): r.uid("loopd"), r.Layout.Socket("runnerd", "brokerd", "runner"): r.uid("brokerd"),
			r.Layout.Socket("egressd", "brokerd", "egress"): r.uid("brokerd"), r.Socket(): 0,
		}
		for path, client := range clients {
			for _, uid := range []int{r.uid("loopd"), r.uid("brokerd"), r.uid("runnerd"), r.uid("egressd"), r.uid("inferproxy"), 1000, 65534} {
				if uid == client {
					if _, err := stack.DialAs(path, uid); err != nil {
						r.t.Errorf("control: %s: its client %d cannot connect: %v", filepath.Base(path), uid, err)
					}
					continue
				}
				conn, err := stack.DialAs(path, uid)
				if err != nil {
					if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ECONNREFUSED) {
						r.t.Errorf("%s with uid %d: %v", filepath.Base(path), uid, err)
					}
					continue
				}
				_ = frame.Write(conn, []byte(`{"type":"status"}`))
				if b, err := frame.Read(conn); err == nil {
					r.t.Errorf("%s answers uid %d: %s", filepath.Base(path), uid, b)
				}
				conn.Close()
			}
		}
	}))
}

// crowds: what one side may do to a socket leaves the others.
func crowds() []attempt {
	crowd := func(n int, bytes []byte) func(r *rig) {
		return func(r *rig) {
			var all []*wire
			for range n {
				w := r.open()
				w.put(bytes)
				all = append(all, w)
			}
			r.head() // the owner is answered
			if _, err := r.Owner(r.context(), &proto.ListApprovals{}); err != nil {
				r.t.Errorf("the owner can't see approvals: %v", err)
			}
			if n < 256 {
				r.is(r.call("shell", r.counted("crowd")), "")
			}
			for _, w := range all {
				w.Close()
			}
			r.WaitUntil("calls are taken again", func() bool {
				m, err := r.broker(&proto.FindTools{Session: r.session}, nil)
				return err == nil && m.Tag() == "tools"
			})
			r.is(r.call("shell", r.counted("crowd")), "")
		}
	}
	return []attempt{
		act("200 connections that say nothing", crowd(200, nil)),
		act("200 connections that stop in the length", crowd(200, []byte{0, 0})),
		act("200 connections that stop in a request", crowd(200, append(header(4<<20), `{"type":"call","id":"`...))),
		act("300 connections, more than are taken", crowd(300, nil)),
		act("200 connections that wait for the same call", func(r *rig) {
			c := r.make(r.id(), "echo ran >> "+filepath.Join(r.granted, "joined")+"; while ! [ -e "+filepath.Join(r.granted, "joined-go")+" ]; do sleep 0.02; done")
			for range 200 {
				w := r.open()
				if err := frame.Write(w, []byte(request(c.ID, c.Tool, c.Args))); err != nil {
					r.t.Fatal(err)
				}
			}
			r.head()
			r.WaitUntil("it runs", func() bool { return r.runs("joined") == 1 })
			r.file(filepath.Join(r.granted, "joined-go"), "")
			r.is(r.send(c), "")
			r.ranTimes("joined", 1)
		}),
		act("the log says that nothing ran twice", nothingTwice),
	}
}
