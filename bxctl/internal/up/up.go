package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/logs"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/owner"
	"boxmaker/bxctl/internal/reach"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/term"
	"boxmaker/internal/config"
)

// Options are one run of up.
type Options struct {
	Layout  config.Layout
	Model   string // GGUF file that this run serves instead of what is configured
	Self    string // path of bxctl; the other programs lie beside it
	Environ []string
	Version string
	Out     term.Screen
	Now     func() time.Time
	Plain   bool // lines, in a terminal too
	Quiet   bool // nothing but the log

	// Passphrase asks for that of brokerd's key. It is called again after a
	// wrong one if Retry says so. nil: there is nobody to ask.
	Passphrase func() (string, error)
	Retry      bool
	Key        *os.File // the opened key, if whoever started this up has asked
}

// Run runs all roles until ctx ends; then it stops them and returns nil. A
// Boxmaker that runs already is no error: Run says so and returns.
func Run(ctx context.Context, o Options) error {
	in, err := o.prepare()
	if err != nil {
		return err
	}
	roles, err := Plan(in)
	if err != nil {
		return err
	}
	if err := programs(roles); err != nil {
		return err
	}
	syscall.Umask(maskSelf)
	added, err := setup.Complete(o.Layout)
	if err != nil {
		return err
	}
	held, err := take(o.Layout)
	if errors.Is(err, errLocked) && awaitEnding(ctx, o.Layout) {
		held, err = take(o.Layout)
	}
	if errors.Is(err, errLocked) {
		fmt.Fprintln(o.Out.W, running(o.Layout))
		return nil
	}
	if err != nil {
		return broken("take the lock run/up.lock", err)
	}
	if err := refuse(o.Layout); err != nil {
		return errors.Join(err, held.release())
	}
	if in.Key, err = o.unlock(in.Settings); err != nil {
		return errors.Join(err, held.release())
	}
	defer closeKey(in.Key)
	own, err := logs.Open(o.Layout.Log, "up", o.Now)
	if err != nil {
		return errors.Join(broken("open its log", err), held.release())
	}
	s := &session{o: o, in: in, roles: roles, out: newConsole(o, own)}
	for _, path := range added {
		s.out.say("wrote "+path+", which an earlier version had not", slog.LevelInfo, "wrote a missing file", "path", path)
	}
	err = s.run(ctx)
	if err != nil {
		s.out.own.Error("ended", "error", fault.Line(err))
	}
	return errors.Join(err, own.Close(), held.release())
}

// Running tells in a line that up runs already.
func running(l config.Layout) string {
	pid, err := Holder(l)
	if err != nil || pid <= 0 {
		return "Boxmaker runs already."
	}
	return fmt.Sprintf("Boxmaker runs already (pid %d). bxctl down ends it.", pid)
}

func broken(what string, err error) error {
	return &fault.Fault{What: "up can't " + what, Err: err, Do: "look at the owner and the rights of that place", Key: "up-files"}
}

// prepare reads the configuration and finds what it needs.
func (o Options) prepare() (Input, error) {
	s, p, err := setup.Load(o.Layout)
	if _, at := os.Lstat(filepath.Join(o.Layout.Config, setup.FileBxctl)); err != nil && errors.Is(at, fs.ErrNotExist) {
		return Input{}, &fault.Fault{
			Code: fault.Usage, What: "Boxmaker is not set up in " + o.Layout.Home,
			Do: "run bxctl init (for the practice model), or bxctl init --upstream http://HOST:PORT", Key: "not-set-up",
		}
	}
	if err != nil {
		return Input{}, &fault.Fault{
			Code: fault.Usage, What: "the configuration can't be used", Err: err,
			Do: "mend that line; nothing was started", Key: "config-invalid",
		}
	}
	if o.Model != "" {
		if s.Model.File, err = setup.CheckModel(o.Model); err != nil {
			return Input{}, err
		}
		s.Model.Kind = setup.Llama
	}
	in := Input{Layout: o.Layout, Settings: s, Proxy: p, Self: o.Self, Root: os.Geteuid() == 0, Owner: uint32(os.Geteuid()), Environ: o.Environ, Gateway: hasGateway(o.Layout)}
	if s.Model.Kind == setup.Llama {
		if in.Llama, err = findLlama(s.Model.Server); err == nil {
			err = in.reachable(in.Llama, s.Model.File)
		}
	}
	return in, err
}

func findLlama(configured string) (string, error) {
	name := configured
	if name == "" {
		name = "llama-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &fault.Fault{
			Code: fault.Usage, What: "llama-server is not there", Err: err, Means: "it is looked for on PATH, or where model.llama_server in bxctl.toml says",
			Do: "install llama.cpp, set model.llama_server, or use a server that runs already: bxctl init --upstream http://HOST:PORT", Key: "llama-server-missing",
		}
	}
	return path, nil
}

// programs checks that what is to be started is there.
func programs(roles []Role) error {
	var need []string
	for _, r := range roles {
		need = append(need, r.Path, cmp.Or(r.Becomes, r.Path))
		if r.Name == roleRunner {
			need = append(need, filepath.Join(filepath.Dir(r.Path), toolkit), filepath.Join(filepath.Dir(r.Path), toolfetch))
		}
	}
	for _, path := range need {
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			return &fault.Fault{
				What: "the program " + path + " is not there", Err: err, Means: "all programs of Boxmaker lie in one folder, beside bxctl",
				Do: "build them with: make build", Key: "program-missing",
			}
		}
	}
	return nil
}

// session is one up that holds the lock.
type session struct {
	o     Options
	in    Input
	roles []Role
	out   *console
}

func (s *session) run(ctx context.Context) error {
	for _, name := range reap(s.o.Layout) {
		s.out.say("killed "+name+", which an earlier up had left behind", slog.LevelWarn, "killed what an earlier up had left behind", "of", name)
	}
	if s.in.Settings.Tools.Enabled {
		if err := reach.Home(s.o.Layout.Home, s.in.Settings.UID(roleBroker)); err != nil {
			return err
		}
	}
	if err := folders(s.o.Layout, s.roles, s.in.Settings, s.in.Root); err != nil {
		return broken("make the folders of the sockets", err)
	}
	if s.in.Gateway {
		if err := os.MkdirAll(s.o.Layout.Gateway(), 0o700); err != nil {
			return broken("make the folder of gatewayd", err)
		}
	}
	if s.in.Root {
		if err := setup.Own(s.o.Layout, s.in.Settings); err != nil {
			return broken("give files to the uids of the roles", err)
		}
	}
	st := newStarter()
	defer st.close()
	keepers, err := s.keepers(st)
	defer func() {
		for _, k := range keepers {
			k.socks.close()
			_ = k.log.file.Close() // a reader may still want what is there; nothing is buffered
		}
	}()
	if err != nil {
		return err
	}
	served := Served(s.in.Settings, s.in.Proxy)
	s.out.say("Boxmaker "+s.o.Version+" in "+s.o.Layout.Home+", with "+served, slog.LevelInfo, "started", "version", s.o.Version, "home", s.o.Layout.Home, "model", served)
	if err := s.upstreamSocket(); err != nil {
		return err
	}
	watching, endWatch := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { s.watch(watching, keepers[0].board) })
	watched.Go(func() { s.watchUpstream(watching) })
	for _, k := range keepers {
		if k.role.Name == roleBroker { // once loopd asks for nothing more
			k.last = func() { s.anchor(context.WithoutCancel(ctx), "") }
			watched.Go(func() { s.anchors(watching) })
		}
	}
	if s.viewable() {
		watched.Go(func() { s.runView(watching, keepers[0].board) })
	}
	err = keepAll(ctx, keepers)
	endWatch()
	watched.Wait()
	if err == nil {
		s.out.say("stopped", slog.LevelInfo, "stopped")
		err = os.Remove(filepath.Join(s.o.Layout.Run, stateName))
	}
	return err
}

func (s *session) keepers(st *starter) ([]*keeper, error) {
	up := report.Up{
		PID: os.Getpid(), Since: s.o.Now().UTC(), Version: s.o.Version,
		Model: Served(s.in.Settings, s.in.Proxy), State: "running", Roles: []report.Role{},
	}
	for _, r := range s.roles {
		row := report.Role{Name: r.Name, State: "waiting", UID: r.UID}
		if !s.in.Root {
			row.UID = s.in.Owner
		}
		up.Roles = append(up.Roles, row)
	}
	b := newBoard(s.o.Layout, up)
	b.change(func(*report.Up) {})
	if b.err != nil {
		return nil, broken("write run/up.json", b.err)
	}
	var out []*keeper
	for _, r := range s.roles {
		if r.Name == roleBroker {
			r.Late, r.Key = s.knownHeads, s.in.Key
		}
		k, err := newKeeper(r, s.o.Layout.Run, s.o.Layout.Log, st, b, s.out)
		if err != nil {
			return out, broken("open the log of "+r.Name, err)
		}
		if k.socks, err = listen(s.o.Layout, r, s.in.Settings, s.in.Root); err != nil {
			k.socks = &listening{}
			return append(out, k), err
		}
		out = append(out, k)
	}
	return out, nil
}

// watch tells the owner when Boxmaker is ready, and what it waits for.
func (s *session) watch(ctx context.Context, b *board) {
	client := loop.Client{Path: s.o.Layout.Socket(roleLoopd, "bxctl", "loop")}
	began := s.o.Now()
	if Await(ctx, client, func(state string) { s.out.say("loopd is "+state, slog.LevelInfo, "loopd", "state", state) }) != nil {
		return
	}
	lack := ""
	if s.in.Settings.Tools.Enabled {
		roles := func() []report.Role { return b.snapshot().Roles }
		var err error
		lack, err = awaitTools(ctx, owner.At(s.o.Layout), roles, func(text string) { s.out.say(text, slog.LevelWarn, "tools", "state", text) })
		if err != nil {
			return
		}
	}
	took := s.o.Now().Sub(began)
	s.out.say("ready after "+term.Span(took)+"; talk with: bxctl chat", slog.LevelInfo, "ready", "ms", took.Milliseconds())
	if lack != "" {
		s.out.say(noTools(lack), slog.LevelWarn, "tools are not available", "reason", lack)
	}
}

// upstreamSocket lets inferproxy use the Unix socket of a server that somebody
// else runs.
func (s *session) upstreamSocket() error {
	a, err := setup.ParseUpstream(s.in.Proxy.Upstream)
	if !s.in.Root || s.in.Settings.Model.Kind != setup.Upstream || err != nil || a.Path == "" {
		return nil //nolint:nilerr // not a socket; Plan has checked the address
	}
	uid := s.in.Settings.UID(roleProxy)
	changed, err := openSocket(a.Path, uid)
	if changed && err == nil {
		s.out.say(fmt.Sprintf("gave inferproxy (uid %d) an entry in the access list of %s", uid, a.Path), slog.LevelInfo, "gave inferproxy an access list entry", "uid", uid, "socket", a.Path)
	}
	return err
}

// watchUpstream does it again for a socket that its server made anew.
func (s *session) watchUpstream(ctx context.Context) {
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if err := s.upstreamSocket(); err != nil && err.Error() != told {
			told = err.Error()
			s.out.say(told, slog.LevelWarn, "upstream socket", "error", told)
		}
	}
}
