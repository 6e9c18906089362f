package approve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxmaker/gatewayd/internal/mattermost"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
)

// A server is as much of a chat server as a desk needs.
type server struct {
	mu    sync.Mutex // guards what follows
	n     int
	posts map[string]*mattermost.Post
	marks map[string][]mattermost.Reaction
	files map[string]string
	fail  func(what string) error // before; nil: nothing fails
	after func(what string) error // when it was done
}

func newServer() *server {
	return &server{posts: map[string]*mattermost.Post{}, marks: map[string][]mattermost.Reaction{}, files: map[string]string{}}
}

func (s *server) step(what string) (func() error, error) {
	s.mu.Lock()
	if s.fail != nil {
		if err := s.fail(what); err != nil {
			s.mu.Unlock()
			return nil, err
		}
	}
	return func() error {
		defer s.mu.Unlock()
		if s.after != nil {
			return s.after(what)
		}
		return nil
	}, nil
}

func (s *server) id() string { s.n++; return fmt.Sprintf("id%024d", s.n) }

func (s *server) Create(_ context.Context, d mattermost.Draft) (mattermost.Post, error) {
	done, err := s.step("create")
	if err != nil {
		return mattermost.Post{}, err
	}
	p := &mattermost.Post{ID: s.id(), User: me, Channel: d.Channel, Root: d.Root, Message: d.Message, Files: d.Files, CreateAt: int64(s.n), Props: mattermost.Props{Key: d.Key, FromBot: true}}
	s.posts[p.ID] = p
	out := *p
	return out, done()
}

func (s *server) Find(_ context.Context, user string, d mattermost.Draft, _ int64) (mattermost.Post, bool, error) {
	done, err := s.step("find")
	if err != nil {
		return mattermost.Post{}, false, err
	}
	for _, p := range s.posts {
		if p.User == user && p.Channel == d.Channel && p.Root == d.Root && p.Props.Key == d.Key {
			return *p, true, done()
		}
	}
	return mattermost.Post{}, false, done()
}

func (s *server) Patch(_ context.Context, id, message string) (mattermost.Post, error) {
	done, err := s.step("patch")
	if err != nil {
		return mattermost.Post{}, err
	}
	p := s.posts[id]
	if p == nil {
		return mattermost.Post{}, errors.Join(&mattermost.Refused{Status: 404}, done())
	}
	s.n++
	p.Message, p.EditAt = message, int64(s.n)
	return *p, done()
}

func (s *server) Get(_ context.Context, id string) (mattermost.Post, error) {
	done, err := s.step("get")
	if err != nil {
		return mattermost.Post{}, err
	}
	if p := s.posts[id]; p != nil {
		return *p, done()
	}
	return mattermost.Post{}, errors.Join(&mattermost.Refused{Status: 404}, done())
}

func (s *server) React(_ context.Context, user, post, emoji string) error {
	done, err := s.step("react")
	if err != nil {
		return err
	}
	s.react(user, post, emoji)
	return done()
}

// react is a reaction. Precondition: mu is held.
func (s *server) react(user, post, emoji string) {
	s.n++
	s.marks[post] = append(s.marks[post], mattermost.Reaction{User: user, Post: post, Emoji: emoji, CreateAt: int64(s.n)})
}

func (s *server) Reactions(_ context.Context, post string) ([]mattermost.Reaction, error) {
	done, err := s.step("reactions")
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.marks[post]), done()
}

func (s *server) Upload(_ context.Context, _, name string, content io.Reader) (string, error) {
	b, err := io.ReadAll(content)
	if err != nil {
		return "", err
	}
	done, err := s.step("upload")
	if err != nil {
		return "", err
	}
	id := s.id()
	s.files[id] = name + "\n" + string(b)
	return id, done()
}

// by adds a reaction of a person.
func (s *server) by(user, post, emoji string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.react(user, post, emoji)
}

// all are the posts of a channel, by their ids.
func (s *server) all(channel string) (out []mattermost.Post) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posts {
		if p.Channel == channel {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b mattermost.Post) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// A rig is a desk on a socket, before a server, that can be stopped and started.
type rig struct {
	t      *testing.T
	s      *server
	dir    string
	desk   *Desk
	now    func() time.Time
	place  func(string) (string, string, bool)
	known  bool // who we are
	limit  int
	socket string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "apr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &rig{
		t: t, s: newServer(), dir: dir, now: func() time.Time { return noon() }, known: true, limit: 16383, socket: filepath.Join(dir, "g.sock"),
		place: func(string) (string, string, bool) { return "", "", false },
	}
}

func (r *rig) open() *os.Root {
	r.t.Helper()
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	d, bad, err := Open(Config{
		Chat: r.s, Owners: []string{owner}, Self: func() (Self, bool) { return Self{Me: me, Home: home, Limit: r.limit}, r.known },
		Place: func(s string) (string, string, bool) { return r.place(s) }, Root: root, Now: r.now, Zone: time.UTC, Log: slog.New(slog.DiscardHandler),
		Status: func() *proto.GatewayStatus { return &proto.GatewayStatus{Version: "v"} },
	})
	if err != nil || bad != nil {
		r.t.Fatal(err, bad)
	}
	r.desk = d
	return root
}

// start runs the desk until the returned function is called.
func (r *rig) start() (stop func()) {
	r.t.Helper()
	root := r.open()
	ln, err := ipc.Listen(r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	srv := &ipc.Server{Listener: ln, Requests: proto.GatewayRequests, MaxConns: 128, Handle: r.desk.Serve}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- srv.Serve(ctx) }()
	go func() { done <- r.desk.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, <-done, root.Close()); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// ask asks as brokerd does and gives the events.
func (r *rig) ask(a proto.Ask) (events chan proto.Message, hangUp func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := ipc.Dial(ctx, r.socket, proto.GatewayEvents)
	if err == nil {
		err = conn.Send(&a)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	events = make(chan proto.Message, 8)
	go func() {
		defer close(events)
		defer conn.Close()
		for {
			m, err := conn.Recv()
			if err != nil {
				return
			}
			events <- m
		}
	}()
	r.t.Cleanup(cancel)
	return events, cancel
}

func (r *rig) once(m proto.Message) proto.Message {
	r.t.Helper()
	got, err := ipc.Ask(r.t.Context(), r.socket, proto.GatewayEvents, m)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func get[M proto.Message](t *testing.T, events chan proto.Message) M {
	t.Helper()
	select {
	case m, ok := <-events:
		if !ok {
			t.Fatal("the stream ended")
		}
		want, ok := m.(M)
		if !ok {
			t.Fatalf("%#v", m)
		}
		return want
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// drain does what is to be done now, without Run.
func (r *rig) drain() {
	r.t.Helper()
	if _, err := r.desk.round(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}
