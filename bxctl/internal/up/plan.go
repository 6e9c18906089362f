// Package up runs Boxmaker's programs on this machine: `bxctl up` and what
// belongs to it.
//
// It guarantees that one up runs per home, that every role has its own
// environment, log, sockets and (as root) uid, that roles die with up however
// it ends, and that a role which can't work stops everything with its reason
// instead of being started for ever. It does not judge whether loopd is ready:
// that is what loopd's own status says.
package up

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
)

// A Role is one program and how it is started.
type Role struct {
	Name    string
	Path    string // program that is started
	Becomes string // program that this one becomes, if it is another one
	Args    []string
	Late    func() []string // arguments that are known at each start alone
	Env     []string
	Sockets []Socket // up listens and hands them over, from descriptor 3
	Makes   string   // socket that the program makes itself; removed before each start
	Folders []Folder // in the run folder, for what it makes itself
	Key     *os.File // brokerd's opened key, handed over behind the sockets; nil: it opens the file itself
	UID     uint32   // that it ends up with; as root only
	Isolate bool     // in a network namespace without devices
	Loud    bool     // its log shows on the terminal
	Grace   time.Duration
}

// A Socket is one listening socket: run/<role>/<client>/<file>.sock.
type Socket struct {
	Name   string // as the role asks for it
	Client string // role, or bxctl
	File   string
}

// A Folder is one of a role's own, in the run folder.
type Folder struct {
	Path string // from the run folder
	// Client is the role that may pass through and use sockets in it, of which
	// none is left when up starts. Empty: it is private, and outlives up.
	Client string
}

// Input is what Plan works from.
type Input struct {
	Layout   config.Layout
	Settings setup.Settings
	Proxy    setup.Proxy
	Self     string // path of bxctl
	Llama    string // path of llama-server, for kind llama
	Root     bool
	Owner    uint32   // uid that may use loop.sock
	Environ  []string // of up itself; little of it is passed on
	Gateway  bool     // a chat is set up
	Key      *os.File // brokerd's key, if its file is encrypted with a passphrase
}

// names of roles and of the file of each socket.
const (
	roleProxy    = "inferproxy"
	roleLoopd    = "loopd"
	rolePractice = "practice"
	roleLlama    = "llama"
	roleBroker   = "brokerd"
	roleRunner   = "runnerd"
	roleEgress   = "egressd"
	roleGateway  = "gatewayd"
)

// The programs inside containers; they are no roles.
const (
	toolkit   = "toolkit"
	toolfetch = "toolfetch"
)

// Plan gives the roles in the order in which they start. All roles run in the
// run folder and name sockets by relative paths: those are never too long for
// a socket address, and a role that lost root's rights reaches them though it
// could not walk down to the home.
func Plan(in Input) ([]Role, error) {
	var roles []Role
	if in.Settings.Tools.Enabled { // from the far end, so that each finds what it needs
		roles = append(roles, in.egress(), in.runner(), in.broker())
	}
	upstream := ""
	switch in.Settings.Model.Kind {
	case setup.Practice:
		roles = append(roles, in.practice())
		upstream = "unix:" + in.rel(rolePractice, roleProxy, "llama")
	case setup.Llama:
		roles = append(roles, in.llama())
		upstream = "unix:" + in.rel(roleLlama, roleProxy, "llama")
	case setup.Upstream:
		if in.Proxy.Upstream == "" {
			return nil, &fault.Fault{
				Code: fault.Usage, What: "no upstream is set", Means: "bxctl.toml says model.kind = \"upstream\", and inferproxy.toml names no server",
				Do: "set it with: bxctl init --upstream http://HOST:PORT", Key: "upstream-missing",
			}
		}
	default:
		return nil, fmt.Errorf("up: no such kind of model: %q", in.Settings.Model.Kind)
	}
	proxy, err := in.proxy(upstream)
	if err != nil {
		return nil, err
	}
	roles = append(roles, proxy, in.loopd())
	if in.Gateway {
		roles = in.join(roles)
	}
	return roles, nil
}

func (in Input) practice() Role {
	p := in.Settings.Practice
	args := []string{
		in.beside(rolePractice), "-listen", "unix:" + in.rel(rolePractice, roleProxy, "llama"),
		"-slots", strconv.Itoa(p.Slots), "-ctx", strconv.Itoa(p.Context), "-ping", "10",
	}
	r := in.confined(rolePractice, append(args, p.Args...), "-no-network")
	r.Isolate = true
	r.Sockets = []Socket{{Name: "llama", Client: roleProxy, File: "llama"}}
	r.Loud = true
	return r
}

func (in Input) proxy(upstream string) (Role, error) {
	reach := []string{"-no-network", "-read", filepath.Dir(strings.TrimPrefix(upstream, "unix:"))} // what the kernel has to let through
	if upstream == "" {
		a, err := setup.ParseUpstream(in.Proxy.Upstream)
		if err != nil {
			return Role{}, err
		}
		upstream = a.String()
		switch {
		case a.Path != "":
			reach[2] = filepath.Dir(a.Path)
		case a.Named(): // the resolver's files are replaced when a network changes, so their folders count
			reach = []string{"-read", "/etc", "-read", "/run/systemd/resolve", "-tcp", "53", "-tcp", strconv.Itoa(int(a.Port))}
		default:
			reach = []string{"-tcp", strconv.Itoa(int(a.Port))}
		}
	}
	args := []string{
		in.beside(roleProxy), "-listen", in.rel(roleProxy, roleLoopd, "infer"), "-upstream", upstream,
		"-conns", strconv.Itoa(in.Proxy.Conns), "-rate", strconv.Itoa(in.Proxy.Rate),
	}
	args = append(args, "-peer", in.peer(roleLoopd))
	r := in.confined(roleProxy, args, reach...)
	r.Isolate = reach[0] == "-no-network"
	r.Sockets = []Socket{{Name: "infer", Client: roleLoopd, File: "infer"}}
	r.Loud = true
	return r, nil
}

func (in Input) loopd() Role {
	r := in.daemon(roleLoopd, setup.FileLoopd, "-sessions", in.Layout.Sessions,
		"-infer", in.rel(roleProxy, roleLoopd, "infer"), "-broker", in.rel(roleBroker, roleLoopd, "broker"),
		"-listen", in.rel(roleLoopd, "bxctl", "loop"), "-peer", uid(in.Owner))
	r.Isolate, r.Grace = true, 5*time.Second
	r.Sockets = []Socket{{Name: "loop", Client: "bxctl", File: "loop"}}
	return r
}

// llama starts the owner's llama-server with the flags of this repository. It
// is not shut in: what a graphics driver opens can't be foretold.
func (in Input) llama() Role {
	socket := in.rel(roleLlama, roleProxy, "llama")
	r := in.confined(roleLlama, append([]string{in.Llama}, LlamaFlags(in.Settings.Model, socket)...), "-open")
	r.Makes, r.Grace = socket, 5*time.Second
	r.Env = append(r.Env, pass(in.Environ, "PATH", "LD_LIBRARY_PATH", "HOME",
		"CUDA_*", "HIP_*", "HSA_*", "ROCR_*", "GGML_*", "VK_*", "AMD_*", "GPU_*", "MESA_*", "OMP_*")...) // drivers are steered by these
	return r
}

// LlamaFlags are the serving settings of this repository: as many slots as
// loopd pins plus what the owner adds (the default, one shared cache, clears
// idle slots), a fixed context for each, an exact KV cache, tool calls parsed by the
// template, pings well within loopd's liveness limit, and no speculative
// decoding, which breaks the prompt cache of hybrid models.
func LlamaFlags(m setup.Model, socket string) []string {
	args := []string{
		"--model", m.File, "--alias", strings.TrimSuffix(filepath.Base(m.File), ".gguf"), "--host", socket,
		"-np", strconv.Itoa(m.Slots), "-c", strconv.Itoa(m.Slots * m.Context),
		"--cache-type-k", m.KV, "--cache-type-v", m.KV,
		"--jinja", "--sse-ping-interval", "10",
	}
	return append(args, m.Args...)
}

// confined makes a role of a program that does not confine itself: bxctl's own
// hidden command does it and then becomes the program.
func (in Input) confined(name string, argv []string, flags ...string) Role {
	r := Role{Name: name, Path: in.Self, Becomes: argv[0], Env: in.env(), Grace: 2 * time.Second}
	r.Args = append([]string{"confined", "-name", name}, flags...)
	if in.Root {
		r.UID = in.Settings.UID(name)
		r.Args = append(r.Args, "-uid", uid(r.UID))
	}
	r.Args = append(append(r.Args, "--"), argv...)
	return r
}

// env is what every role gets. The home only names the role in a list of
// processes.
func (in Input) env() []string {
	return append([]string{"BOXMAKER_HOME=" + in.Layout.Home}, pass(in.Environ, "TZ", "LANG")...)
}

// pass picks variables by name, or by the start of the name before a star.
func pass(environ []string, names ...string) []string {
	var out []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		fits := func(n string) bool {
			head, star := strings.CutSuffix(n, "*")
			return name == n || star && strings.HasPrefix(name, head)
		}
		if value != "" && slices.ContainsFunc(names, fits) {
			out = append(out, kv)
		}
	}
	return out
}

// daemon makes a role of a program that confines itself.
func (in Input) daemon(name, file string, args ...string) Role {
	r := Role{Name: name, Path: in.beside(name), Env: in.env(), Loud: true, Grace: 3 * time.Second}
	r.Args = append([]string{"-config", filepath.Join(in.Layout.Config, file)}, args...)
	r.Args = append(r.Args, "-die-with-parent")
	if in.Root {
		r.UID = in.Settings.UID(name)
		r.Args = append(r.Args, "-uid", uid(r.UID))
	}
	return r
}

// peer is the uid of a role that connects.
func (in Input) peer(role string) string {
	if in.Root {
		return uid(in.Settings.UID(role))
	}
	return uid(in.Owner)
}

// beside gives the path of a program in bxctl's own folder.
func (in Input) beside(name string) string { return filepath.Join(filepath.Dir(in.Self), name) }

// rel gives the path of a socket from the run folder.
func (in Input) rel(listener, client, file string) string {
	return filepath.Join(listener, client, file+".sock")
}

func uid(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// Served says in words what serves the model.
func Served(s setup.Settings, p setup.Proxy) string {
	switch s.Model.Kind {
	case setup.Practice:
		return "the practice model (rules, not a language model)"
	case setup.Upstream:
		return "llama-server at " + p.Upstream
	default:
		return "llama-server with " + cmp.Or(filepath.Base(s.Model.File), "a model")
	}
}
