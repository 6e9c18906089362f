package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"boxmaker/bxctl/internal/reach"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/config"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

func loadConfig(l config.Layout, name string, into any) error {
	return config.Load(filepath.Join(l.Config, name), into)
}

// configFiles: each file is there and parses, strictly.
func configFiles(x *exam) {
	if _, err := os.Stat(x.Layout.Config); errors.Is(err, fs.ErrNotExist) {
		x.skip(x.Layout.Config, "there is no such folder") // told by the check of the home
		return
	}
	c := x.config()
	for _, f := range []struct {
		name string
		err  error
	}{{setup.FileBxctl, c.bxErr}, {setup.FileProxy, c.pxErr}, {setup.FileLoopd, c.ldErr}} {
		path := filepath.Join(x.Layout.Config, f.name)
		if f.err == nil {
			x.ok(path, "parses")
			continue
		}
		text, key := mistake(path, f.err)
		mend := "mend that line, then: bxctl down; bxctl up --detach"
		switch {
		case errors.Is(f.err, fs.ErrNotExist):
			mend = "write the missing files with: bxctl init"
		case errors.Is(f.err, fs.ErrPermission):
			mend = "run bxctl as the user that set Boxmaker up, or give the file back to that user"
		}
		x.add(Finding{Looked: path, Verdict: Fail, Detail: text, Mend: mend, Runbook: first(key, "config-invalid")})
	}
	for _, name := range []string{setup.FileBroker, setup.FileRunner, setup.FileEgress} {
		x.otherFile(filepath.Join(x.Layout.Config, name))
	}
}

// mistake gives the words of an error about a file, which the row names already.
func mistake(path string, err error) (text, key string) {
	text, key = split(err)
	text = strings.TrimPrefix(strings.TrimPrefix(text, path), ":")
	if n, rest, ok := strings.Cut(text, ": "); ok && n != "" && strings.Trim(n, "0123456789") == "" {
		text = "line " + n + ": " + rest
	}
	return strings.TrimSpace(text), key
}

// otherFile: a file whose keys only its role knows, which judges them at its start.
func (x *exam) otherFile(path string) {
	b, err := os.ReadFile(path)
	var any map[string]any
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.add(Finding{Looked: path, Verdict: Warn, Runbook: "config-missing", Detail: "it is not there", Mend: "bxctl up writes it; so does bxctl init"})
		return
	case err != nil:
		x.add(Finding{Looked: path, Verdict: Fail, Runbook: "config-unreadable", Detail: err.Error(), Mend: "run bxctl as the user that set Boxmaker up"})
		return
	}
	var bad *toml.DecodeError
	if err := toml.Unmarshal(b, &any); errors.As(err, &bad) {
		line, _ := bad.Position()
		x.add(Finding{Looked: path, Verdict: Fail, Runbook: "config-not-toml", Detail: fmt.Sprintf("line %d: this is not TOML: %s", line, bad.Error()), Mend: "mend that line, then: bxctl down; bxctl up --detach"})
		return
	}
	x.ok(path, "parses; its keys are judged at the start")
}

// configFit: values that are good one by one and do not go together.
func configFit(x *exam) {
	c := x.config()
	if c.bxErr != nil || c.pxErr != nil || c.ldErr != nil {
		x.skip(x.Layout.Config, "a file in it can't be read")
		return
	}
	before := len(x.findings)
	bx, px := filepath.Join(x.Layout.Config, setup.FileBxctl), filepath.Join(x.Layout.Config, setup.FileProxy)
	slots, window, flag := 0, 0, ""
	switch c.settings.Model.Kind {
	case setup.Practice:
		slots, window, flag = c.settings.Practice.Slots, c.settings.Practice.Context, "practice"
		if len(c.settings.Practice.Args) > 0 {
			x.bad(Warn, bx, "practice.args has failure switches, which are for tests: the practice model will misbehave on purpose", "set args = [] under [practice]")
		}
	case setup.Llama:
		slots, window, flag = c.settings.Model.Slots, c.settings.Model.Context, "model"
	case setup.Upstream:
		if c.proxy.Upstream == "" {
			x.add(Finding{
				Looked: px, Verdict: Fail, Runbook: "upstream-missing",
				Detail: "model.kind is \"upstream\" and no upstream is set", Mend: "bxctl init --upstream http://HOST:PORT",
			})
		}
	}
	x.fitLoopd(slots, window, flag)
	x.fitPrompt()
	if len(x.findings) == before {
		x.ok(x.Layout.Config, "%s, slots main %d and background %d", up.Served(c.settings, c.proxy), c.loopd.Slots.Main, c.loopd.Slots.Background)
	}
}

// baselineRoom is what a slot must hold beside one completion.
const baselineRoom = 3000

// fitLoopd compares loopd.toml with what up starts; slots is 0 if that is not
// up's to say.
func (x *exam) fitLoopd(slots, window int, flag string) {
	c := x.config()
	ld := filepath.Join(x.Layout.Config, setup.FileLoopd)
	need := max(c.loopd.Slots.Main, c.loopd.Slots.Background) + 1
	if slots > 0 && need > slots {
		x.bad(Fail, ld, fmt.Sprintf("slots.main is %d and slots.background is %d, but only %d slots are started (%s.slots in bxctl.toml)",
			c.loopd.Slots.Main, c.loopd.Slots.Background, slots, flag), fmt.Sprintf("set %s.slots = %d or more, or use lower slot numbers", flag, need))
	}
	if window > 0 && c.loopd.Expect.Context > int64(window) {
		x.bad(Fail, ld, fmt.Sprintf("expect.context is %d, but a slot is started with %d tokens (%s.context in bxctl.toml)", c.loopd.Expect.Context, window, flag),
			"raise "+flag+".context or lower expect.context")
	}
	if slots > 0 && c.loopd.Expect.Slots > slots {
		x.bad(Fail, ld, fmt.Sprintf("expect.slots is %d, but %d slots are started", c.loopd.Expect.Slots, slots), "raise "+flag+".slots or lower expect.slots")
	}
	if room := c.loopd.Sampling.MaxTokens + baselineRoom; window > 0 && room > window {
		x.bad(Fail, ld, fmt.Sprintf("sampling.max_tokens is %d, which with system prompt and tools (up to %d) does not fit a slot of %d tokens",
			c.loopd.Sampling.MaxTokens, baselineRoom, window), "raise "+flag+".context in bxctl.toml, or lower sampling.max_tokens")
	}
	for _, name := range c.loopd.SelfTest.Skip {
		if !slices.Contains(selfTestNames(), name) {
			x.add(Finding{
				Looked: ld, Verdict: Fail, Runbook: "selftest-skip", Detail: fmt.Sprintf("selftest.skip names %.40q, which is no check", name),
				Mend: "the checks are " + strings.Join(selfTestNames(), ", "),
			})
		}
	}
	if n := len(c.loopd.SelfTest.Skip); n > 0 {
		x.add(Finding{
			Looked: ld, Verdict: Warn, Runbook: "selftest-skip",
			Detail: "loopd's self-test leaves out " + strings.Join(c.loopd.SelfTest.Skip, ", ") + ": nobody looks at that now", Mend: "set skip = [] once the reason is gone",
		})
	}
}

// selfTestNames are loopd's checks; a test compares them with its source.
func selfTestNames() []string {
	return []string{"server", "model", "slots", "context", "template", "speculative", "kv", "baseline", "extension", "tool-call", "sampling", "thinking-cap", "cache"}
}

const maxSystem = 16 << 10 // of loopd

func (x *exam) fitPrompt() {
	path := x.config().loopd.Prompt.System
	if path == "" {
		return
	}
	bad := func(detail string) {
		x.add(Finding{
			Looked: path, Verdict: Fail, Runbook: "system-prompt", Detail: detail,
			Mend: "mend the file, or set system = \"\" under [prompt] in loopd.toml for the built-in prompt",
		})
	}
	b, err := os.ReadFile(path)
	switch {
	case !filepath.IsAbs(path):
		bad("prompt.system is not an absolute path: loopd runs in another folder")
	case err != nil:
		bad(fmt.Sprintf("prompt.system can't be read: %v", err))
	case len(b) > maxSystem:
		bad(fmt.Sprintf("the system prompt has %d bytes; the limit is %d", len(b), maxSystem))
	case !utf8.Valid(b):
		bad("the system prompt is not UTF-8 text")
	case strings.TrimSpace(string(b)) == "":
		bad("the system prompt is empty")
	}
}

// modelFile: the GGUF file and llama-server, for a server that up starts.
func modelFile(x *exam) {
	c := x.config()
	m := c.settings.Model
	if c.bxErr != nil || m.Kind != setup.Llama {
		x.skip(filepath.Join(x.Layout.Config, setup.FileBxctl), "bxctl up starts no llama-server")
		return
	}
	uid := x.uidOf("llama")
	if _, err := setup.CheckModel(m.File); err != nil {
		text, key := split(err)
		x.add(Finding{Looked: m.File, Verdict: Fail, Detail: text, Mend: "put a GGUF file there, or choose another: bxctl init --model FILE.gguf", Runbook: key})
	} else {
		x.reach(m.File, uid, unix.R_OK)
	}
	program, err := exec.LookPath(first(m.Server, "llama-server"))
	if err != nil {
		x.add(Finding{
			Looked: first(m.Server, "llama-server on PATH"), Verdict: Fail, Detail: err.Error(), Runbook: "llama-server-missing",
			Mend: "install llama.cpp, or set model.llama_server in bxctl.toml",
		})
		return
	}
	x.reach(program, uid, unix.R_OK|unix.X_OK)
}

// reach checks that a uid may use a file of the owner's.
func (x *exam) reach(path string, uid, mode uint32) {
	if !x.Root() || uid == 0 {
		x.ok(path, "is there")
		return
	}
	if err := reach.MayUse(path, uid, mode); err != nil {
		x.add(Finding{
			Looked: path, Verdict: Fail, Runbook: "llama-out-of-reach",
			Detail: fmt.Sprintf("uid %d, which llama-server gets, may not use it: %v", uid, err),
			Mend:   "open it and the folders above to others (chmod o+rX), or put it into a place that is open, such as /srv/models",
		})
		return
	}
	x.ok(path, "uid %d may use it", uid)
}

// upstream: the inference server can be reached, and is one.
func upstream(x *exam) {
	c := x.config()
	if c.bxErr != nil || c.pxErr != nil {
		x.skip("inferproxy.toml", "the configuration can't be read")
		return
	}
	s := x.server()
	looked := s.addr.String()
	switch {
	case s.absent:
		x.skip(looked, "its server is started with the rest: %s", x.idle())
		return
	case s.err != nil && s.addr == (setup.Address{}):
		text, key := split(s.err)
		x.add(Finding{Looked: filepath.Join(x.Layout.Config, setup.FileProxy), Verdict: Fail, Detail: text, Mend: "bxctl init --upstream http://HOST:PORT", Runbook: key})
		return
	}
	x.openNetwork(s.addr)
	switch {
	case s.err != nil:
		x.bad(Fail, looked, "the inference server can't be used: "+s.err.Error(), serverMend(s))
	case s.health != nil:
		x.bad(Warn, looked, "the inference server answers and is not ready: "+s.health.Error(),
			"wait until the model is loaded; if the answer is 401, start it without --api-key; see its log")
	case s.props.Role == "router":
		x.ok(looked, "answers: a router of llama-server")
	case s.props.Build == "" || s.props.Slots == 0:
		x.bad(Fail, looked, "something answers that is no llama-server: its /props has no build and no slots", "point Boxmaker at a llama-server: bxctl init --upstream http://HOST:PORT")
	default:
		x.ok(looked, "answers: llama-server %s", s.props.Build)
	}
	x.proxySocket(s.addr)
}

func serverMend(s *serverState) string {
	var dns *net.DNSError
	switch {
	case errors.As(s.err, &dns):
		return "correct the name in inferproxy.toml, or mend the name service"
	case errors.Is(s.err, fs.ErrPermission):
		return "the socket belongs to another user; let others enter its folder, or use http://127.0.0.1:PORT"
	default:
		return "start llama-server, or correct the address: bxctl init --upstream http://HOST:PORT"
	}
}

// openNetwork warns of an address that is no private one: there is no TLS.
func (x *exam) openNetwork(a setup.Address) {
	if a.Path != "" {
		return
	}
	addrs := []netip.Addr{}
	if ip, err := netip.ParseAddr(a.Host); err == nil {
		addrs = append(addrs, ip)
	} else if found, err := net.DefaultResolver.LookupNetIP(x.ctx, "ip", a.Host); err == nil {
		addrs = found
	}
	shared := netip.MustParsePrefix("100.64.0.0/10") // CGNAT, which tailnets use
	for _, ip := range addrs {
		ip = ip.Unmap()
		if !ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !shared.Contains(ip) {
			x.add(Finding{
				Looked: a.String(), Verdict: Warn, Runbook: "upstream-https",
				Detail: fmt.Sprintf("%s is no private address, and what you say goes there in the clear", ip),
				Mend:   "reach the server over WireGuard, a tailnet or ssh -L, and name that address",
			})
			return
		}
	}
}

// proxySocket: as root, inferproxy has a uid of its own that must get in.
func (x *exam) proxySocket(a setup.Address) {
	if a.Path == "" || !x.Root() || x.config().settings.Model.Kind != setup.Upstream {
		return
	}
	uid := x.uidOf("inferproxy")
	if err := reach.MayUse(filepath.Dir(a.Path), uid, unix.X_OK); err != nil {
		x.add(Finding{
			Looked: a.Path, Verdict: Fail, Runbook: "upstream-socket-closed",
			Detail: fmt.Sprintf("inferproxy (uid %d) may not enter the socket's folder: %v", uid, err),
			Mend:   "put the socket into a folder that others may enter (chmod o+x), or let the server listen on http://127.0.0.1:PORT",
		})
	}
}
