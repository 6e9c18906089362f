package boot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"boxmaker/brokerd/internal/approval"
	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/policy"
	"boxmaker/brokerd/internal/settings"
	"boxmaker/internal/ipc"
	"boxmaker/internal/proto"
	"boxmaker/internal/secret"
	"boxmaker/internal/tool"
)

// A house is a brokerd on sockets, with a runner of the test.
type house struct {
	t     *testing.T
	dir   string
	set   settings.Settings
	stop  func()
	owner []uint32        // who may use owner.sock; nil: this user
	chat  string          // socket of gatewayd
	clock *approval.Clock // nil: the machine's

	mu   sync.Mutex
	runs map[string]int
	on   func(ctx context.Context, s policy.Spec) (driver.Ran, error)
}

// Run makes house a driver.Runner.
func (h *house) Run(ctx context.Context, d policy.Decision, _ string, _ []proto.LaunchSecret) (driver.Ran, error) {
	s, err := d.Spend()
	if err != nil {
		return driver.Ran{}, err
	}
	if s.Preview {
		return driver.Ran{Ended: proto.Ended{Reason: proto.EndExit}, Output: tool.Output{Diff: "+hello\n", Note: "a note"}}, nil
	}
	h.mu.Lock()
	h.runs[s.Call]++
	on := h.on
	h.mu.Unlock()
	if on != nil {
		return on(ctx, s)
	}
	return driver.Ran{Ended: proto.Ended{Reason: proto.EndExit}, Output: tool.Output{Text: "done"}}, nil
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), set: settings.Default(), runs: map[string]int{}}
	for _, d := range []string{"audit", "state", "grants", "secrets", "keys"} {
		h.try(os.Mkdir(filepath.Join(h.dir, d), 0o700))
	}
	h.grant("10-read.toml", "tool = \"read_file\"\nmode = \"auto\"\n[paths]\nread = [\"/data\"]\n")
	h.grant("20-write.toml", "tool = \"write_file\"\nmode = \"ask\"\n[paths]\nwrite = [\"/data\"]\n")
	h.grant("30-list.toml", "tool = \"list_files\"\nmode = \"auto\"\nexpires = 2020-01-01T00:00:00Z\n[paths]\nread = [\"/data\"]\n")
	return h
}

func (h *house) try(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) grant(name, text string) {
	h.t.Helper()
	h.try(os.WriteFile(filepath.Join(h.dir, "grants", name), []byte(text), 0o600))
}

func (h *house) at(name string) string { return filepath.Join(h.dir, name) }

func (h *house) config(held *Held) Config {
	clock, err := Clock()
	h.try(err)
	if h.clock != nil {
		clock = *h.clock
	}
	return Config{
		Audit: held.Audit, State: held.State, Grants: held.Grants(), Secrets: held.Secrets(), Settings: h.set,
		Runner: h, Clock: clock, Version: "v-test", Name: Names(), Log: slog.New(slog.DiscardHandler), Gateway: h.chat,
	}
}

func (h *house) hold() *Held {
	h.t.Helper()
	held, err := Hold(Folders{
		Audit: h.at("audit"), State: h.at("state"), Grants: h.at("grants"), Secrets: h.at("secrets"), Key: secret.Key{File: h.at("keys/brokerd.key")},
	}, 0)
	h.try(err)
	return held
}

func (h *house) start(looks ...Look) {
	h.t.Helper()
	held := h.hold()
	cfg := h.config(held)
	cfg.Looks = looks
	b, err := Open(cfg)
	h.try(err)
	door := func(name string) Door {
		ln, err := ipc.Listen(h.at(name))
		h.try(err)
		if name == "owner.sock" {
			return Door{Listener: ln, Peers: h.owner}
		}
		return Door{Listener: ln}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- b.Serve(ctx, door("broker.sock"), door("owner.sock"), func() { close(ready) }) }()
	<-ready
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("serve: %v", err)
		}
		h.try(errors.Join(b.Close(), held.Close()))
	})
	h.t.Cleanup(h.stop)
}

func (h *house) broker(req proto.Message) (proto.Message, error) {
	return ipc.Ask(h.t.Context(), h.at("broker.sock"), proto.BrokerEvents, req)
}

func owner[M proto.Message](h *house, req proto.Message) M {
	h.t.Helper()
	got, err := ipc.Ask(h.t.Context(), h.at("owner.sock"), proto.OwnerEvents, req)
	h.try(err)
	m, ok := got.(M)
	if !ok {
		h.t.Fatalf("%T", got)
	}
	return m
}

func call(id, name, args string) *proto.Call {
	c, _ := proto.ParseCallID(id)
	return &proto.Call{ID: id, Session: c.Session, Tool: name, Args: args}
}
