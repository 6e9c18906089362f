package realmost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxmaker/e2e/chatstory"
	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// TestServerRestarts kills the server while a call waits for the owner and an
// answer is being written, and starts it again. The others use it at one time, and
// after this.
func TestServerRestarts(t *testing.T) {
	town, server := newTown(t)
	stack.Containers(t)
	p := chatstory.Start(t, town, func(s *stack.Stack) {
		s.Set("bxctl.toml", "practice", "args", []string{"-gen-tps", "300"})
	})
	p.WaitTools()
	first := p.Ask("", "answer with: at first")
	first.Says("at first")
	call := p.Ask("", "run uname -s")
	card := p.Card(call.Root)
	writes := p.Ask("", "count to 400")
	writes.Waits("")
	server.Stop(syscall.SIGKILL)
	p.WaitUntil("the turn has ended meanwhile", func() bool { return ended(p, writes.Root) })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	writes.Says(" 399 400")
	p.React(p.Me, card.ID, "white_check_mark")
	call.Says("Linux")
	p.Ask(first.Root, "answer with: and after it").Says("and after it")
	p.Exact()
	p.Down()
}

// ended reports whether a thread's session has a turn that ended.
func ended(p *chatstory.Place, root string) bool {
	epochs, err := p.Epochs()
	if err != nil {
		return false // being written
	}
	for _, e := range epochs {
		for _, l := range e.Lines {
			if _, ok := l.Record.(*proto.TurnEnd); ok && e.Session == chatstory.Session(root) {
				return true
			}
		}
	}
	return false
}

// TestNetworkCut runs Boxmaker in a network namespace, takes its link down while a
// call waits for the owner, and puts it up again when gatewayd has found out.
func TestNetworkCut(t *testing.T) {
	town, _ := newTown(t)
	t.Parallel()
	stack.Containers(t)
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can make a network namespace and cut its link")
	}
	l := newLink(t, strings.TrimPrefix(town.URL, "http://"))
	town.URL, town.Plain = "http://"+l.addr, true
	s := stack.New(t)
	s.Under = []string{"nsenter", "--net=/run/netns/" + l.name}
	s.Must("", "init", "--practice")
	p := chatstory.Open(t, s, town, nil)
	p.WaitTools()
	call := p.Ask("", "run uname -s")
	card := p.Card(call.Root)
	call.Waits("Waiting for your approval")

	l.set("down")
	unheard := p.Ask("", "answer with: during the cut")
	p.React(p.Me, card.ID, "white_check_mark")
	p.WaitUntil("gatewayd has found out", func() bool {
		b, err := os.ReadFile(filepath.Join(p.Layout.Log, "gatewayd.log"))
		return err == nil && strings.Contains(string(b), "no events from the Mattermost server")
	})
	if a := stack.AuditOf[*proto.AuditApproval](p.Audit()); len(a) != 0 {
		t.Errorf("decided while nobody could be heard: %+v", a[0])
	}
	l.set("up")
	unheard.Says("during the cut")
	call.Says("Linux")
	p.Exact()
	p.NoListener()
	p.Down()
	p.NoToken()
}

// A link is a network namespace whose only way leads to one address.
type link struct {
	t    *testing.T
	name string
	addr string // what stands for the server there
}

// newLink makes one, and forwards its connections to a server on loopback.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	l := &link{t: t, name: fmt.Sprintf("bm%d", os.Getpid()%100000)}
	net3 := fmt.Sprintf("10.%d.%d", 100+os.Getpid()%100, os.Getpid()/100%250)
	run := func(words string) error {
		out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", words, err, bytes.TrimSpace(out))
		}
		return nil
	}
	t.Cleanup(func() { _ = run("netns del " + l.name); _ = run("link del " + l.name + "a") })
	for _, words := range []string{
		"netns add " + l.name,
		"link add " + l.name + "a type veth peer name " + l.name + "b netns " + l.name,
		"addr add " + net3 + ".1/30 dev " + l.name + "a", "link set " + l.name + "a up",
		"-n " + l.name + " addr add " + net3 + ".2/30 dev " + l.name + "b", "-n " + l.name + " link set " + l.name + "b up", "-n " + l.name + " link set lo up",
	} {
		if err := run(words); err != nil {
			t.Skipf("NOT RUN: no network namespace can be made here: %v", err)
		}
	}
	ln, err := net.Listen("tcp", net3+".1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	l.addr = ln.Addr().String()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go forward(c, to)
		}
	}()
	return l
}

func (l *link) set(state string) {
	l.t.Helper()
	if out, err := exec.Command("ip", "link", "set", l.name+"a", state).CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
}

// forward connects a connection with a server until either ends.
func forward(c net.Conn, to string) {
	defer func() { _ = c.Close() }()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	end := make(chan error, 2)
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		go func() {
			_, err := io.Copy(way[0], way[1])
			end <- err
		}()
	}
	err = <-end
	_ = errors.Join(err, s.Close()) // the other way ends with it
}
