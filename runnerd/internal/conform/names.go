package conform

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
)

// pinned: what must not be seen in a granted folder can't be brought to another
// name, from which the next call could read it.
func pinned(t *testing.T, w *World) {
	tree := filepath.Join(w.Data, "pinned")
	deep, key := w.File(t, "pinned/a/b/private/f", canary), w.File(t, "pinned/c/key", canary)
	private := filepath.Dir(deep)
	w.File(t, "pinned/free/x", "moves")
	w.File(t, "pinned/read/below/y", "read")
	l := Launch(
		"move "+tree+"/a/b/private "+tree+"/out", "move "+tree+"/a/b "+tree+"/out", "move "+tree+"/a "+tree+"/out", "move "+tree+"/c/key "+tree+"/out", "move "+tree+"/c "+tree+"/out",
		"swap "+tree+"/a "+tree+"/free", "swap "+tree+"/a/b "+tree+"/free", "swap "+tree+"/c/key "+tree+"/free/x", "swap "+tree+"/c "+tree+"/free",
		"link "+tree+"/c/key "+tree+"/out", "link "+tree+"/a/b/private/f "+tree+"/out", "remove "+tree+"/a", "remove "+tree+"/c",
		"move "+tree+"/read "+tree+"/out", "write "+tree+"/read/below/y", "write "+tree+"/read/z",
		"move "+tree+"/free "+tree+"/moved", "write "+tree+"/a/n "+tree+"/a/b/n", "move "+tree+"/a/n "+tree+"/a/m",
		"symlink "+tree+"/a/b/private "+tree+"/a/s", "grep "+tree+" "+canary)
	l.Mounts = []proto.Mount{{Path: tree, Write: true}, {Path: tree + "/read/below"}}
	l.Hide = []string{private, deep, key}
	said := w.Says(t, l)
	expect(t, said, map[string]string{
		"grep": "", "move " + tree + "/free " + tree + "/moved": "ok", "write " + tree + "/a/n": "ok", "write " + tree + "/a/b/n": "ok", "move " + tree + "/a/n " + tree + "/a/m": "ok",
		"write " + tree + "/read/below/y": "EROFS", "write " + tree + "/read/z": "ok",
	})
	for k, v := range said {
		if strings.Contains(k, "/out") && v == "ok" || strings.HasPrefix(k, "swap ") && v == "ok" || k == "remove "+tree+"/a" && v == "ok" {
			t.Errorf("%s: %s", k, v)
		}
	}
	for _, p := range []string{deep, key} {
		if b, err := os.ReadFile(p); err != nil || string(b) != canary {
			t.Errorf("%s: %q %v", p, b, err)
		}
	}
	l.Input = "grep " + tree + " " + canary + "\n"
	if s := w.Says(t, l)["grep"]; s != "" {
		t.Errorf("the next call reads %s", s)
	}
}

// Tool runs what is wanted of the real toolkit inside a real container.
func Tool(t *testing.T, runtime string) {
	w := New(t, runtime, "boxmaker/toolkit")
	t.Run("no socket of the machine obeys a program", func(t *testing.T) { sockets(t, w) })
}

// Program is a launch of the tool run: the probe, as a program of a granted folder,
// does the actions.
func (w *World) program(t *testing.T, dir string, actions ...string) *proto.Launch {
	t.Helper()
	at := filepath.Join(dir, "probe")
	build(t, at, Probe)
	if err := errors.Join(os.Lchown(dir, w.UID, -1), os.Lchown(at, w.UID, -1)); err != nil {
		t.Fatal(err)
	}
	call, err := tool.Find(tool.NameRun).Decode(`{"argv":["` + at + `","child","do","` + strings.Join(actions, ";") + `"],"dir":"` + dir + `"}`)
	if err != nil {
		t.Fatal(err)
	}
	in, err := tool.EncodeInput(tool.Input{Args: call.Canonical, Read: []string{}, Write: []string{dir}, Plain: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	l := Launch()
	l.Entry, l.Input, l.Userland, l.Mounts = tool.NameRun, string(in), proto.UserlandUsr, []proto.Mount{{Path: dir, Write: true}}
	return l
}

// sockets: a server of the machine has sockets in a granted folder. Programs can
// give it no orders, with a way out or without.
func sockets(t *testing.T, w *World) {
	dir := filepath.Join(w.Data, "sockets")
	mkdir(t, dir, 0o755)
	heard := make(chan string, 16)
	stream, err := net.Listen("unix", dir+"/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	packets, err := net.ListenPacket("unixgram", dir+"/packets")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if err := errors.Join(os.Chmod(dir+"/stream", 0o777), os.Chmod(dir+"/packets", 0o777)); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := stream.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 100)
			n, _ := c.Read(b)
			c.Close()
			heard <- string(b[:n])
		}
	}()
	go func() {
		b := make([]byte, 100)
		for {
			n, _, err := packets.ReadFrom(b)
			if err != nil {
				return
			}
			heard <- string(b[:n])
		}
	}()
	l := w.program(t, dir, "dial unix "+dir+"/stream", "dial unixgram "+dir+"/packets", "pair "+dir+"/packets", "dial unixpacket /run/egress.sock", "dial tcp 127.0.0.1:3128")
	for _, out := range []bool{false, true} {
		var held <-chan Held
		proxy := "ECONNREFUSED"
		if l.Door = ""; out {
			proxy = "ok"
			l.Door, held = w.Door(t)
			in, err := tool.DecodeInput([]byte(l.Input))
			if err != nil {
				t.Fatal(err)
			}
			in.Proxy = true
			text, err := tool.EncodeInput(in)
			if err != nil {
				t.Fatal(err)
			}
			l.Input = string(text)
		}
		e := w.Run(t, l)
		o, err := tool.DecodeOutput(e.Output)
		if e.Reason != proto.EndExit || err != nil {
			t.Fatalf("%s %s %v", e.Reason, e.Detail, err)
		}
		for _, want := range []string{"dial unix: EAFNOSUPPORT", "dial unixgram: EAFNOSUPPORT", "dial unixpacket: EAFNOSUPPORT", "pair: ESOCKTNOSUPPORT", "dial tcp: " + proxy} {
			if !strings.Contains(o.Text, want+"\n") && !strings.HasSuffix(o.Text, want) {
				t.Errorf("way out %v: no %q in\n%s", out, want, o.Text)
			}
		}
		if out {
			if h := wait(t, w, held); h.Line != "dialled tcp" {
				t.Errorf("through the door: %q", h.Line)
			}
		}
	}
	// Both keep the order, so that what came from inside comes before ours.
	for _, network := range []string{"unix", "unixgram"} {
		c, err := net.Dial(network, dir+map[string]string{"unix": "/stream", "unixgram": "/packets"}[network])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("a connection")); err != nil {
			t.Fatal(err)
		}
		if s := <-heard; s != "a connection" || len(heard) > 0 {
			t.Errorf("the server of the machine heard: %q", s)
		}
	}
}
