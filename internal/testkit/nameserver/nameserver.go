// Package nameserver is a small DNS server for tests, on loopback, over UDP
// and TCP. It remembers what it was asked, so that a test can tell that a name
// was never looked up.
package nameserver

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// A Zone gives the addresses of a name (without the dot at its end). n says
// how often the name was asked for before, whatever the type, so that an answer
// can change. nil means that there is no such name.
type Zone func(name string, n int) []netip.Addr

// Server is a running name server.
type Server struct {
	Addr string // ip:port

	zone  Zone
	twist []func(*dnsmessage.Message)
	mu    sync.Mutex // guards what follows
	asks  []string   // "name A" and "name AAAA", in order
}

// Start serves zone at 127.0.0.1 until the test ends. Each twist may change a reply
// before it is sent.
func Start(t testing.TB, zone Zone, twist ...func(*dnsmessage.Message)) *Server {
	t.Helper()
	var udp net.PacketConn
	var tcp net.Listener
	for range 20 { // a port that is free for both
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		u, err := net.ListenPacket("udp4", l.Addr().String())
		if err == nil {
			tcp, udp = l, u
			break
		}
		l.Close()
	}
	if udp == nil {
		t.Fatal("no port for a name server")
	}
	s := &Server{Addr: tcp.Addr().String(), zone: zone, twist: twist}
	var all sync.WaitGroup
	all.Go(func() { s.packets(udp) })
	all.Go(func() { s.streams(tcp) })
	t.Cleanup(func() {
		udp.Close()
		tcp.Close()
		all.Wait()
	})
	return s
}

// Asked gives the names that were asked for, each once, sorted.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, q := range s.asks {
		name, _, _ := strings.Cut(q, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Times says how many questions there were for the IPv4 address of a name.
func (s *Server) Times(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.asks {
		if q == name+" A" {
			n++
		}
	}
	return n
}

func (s *Server) packets(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer, err := s.answer(buf[:n], 512); err == nil {
			_, _ = c.WriteTo(answer, from)
		}
	}
}

func (s *Server) streams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var size [2]byte
			for {
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				q := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(c, q); err != nil {
					return
				}
				a, err := s.answer(q, 65535)
				if err != nil {
					return
				}
				if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
					return
				}
			}
		}()
	}
}

// answer builds the reply. What does not fit is marked as cut, so that the
// resolver asks over TCP.
func (s *Server) answer(query []byte, room int) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	q := m.Questions[0]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionDesired: true, RecursionAvailable: true}, Questions: m.Questions}
	addresses := s.ask(q)
	if addresses == nil {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type, TTL: 0}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	for _, change := range s.twist {
		change(&reply)
	}
	b, err := reply.Pack()
	if err == nil && len(b) > room {
		reply.Truncated, reply.Answers = true, nil
		b, err = reply.Pack()
	}
	return b, err
}

func (s *Server) ask(q dnsmessage.Question) []netip.Addr {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	kind := " " + strings.TrimPrefix(q.Type.String(), "Type")
	s.mu.Lock()
	before := 0
	for _, old := range s.asks {
		if old == name+kind {
			before++
		}
	}
	s.asks = append(s.asks, name+kind)
	s.mu.Unlock()
	return s.zone(name, before)
}
