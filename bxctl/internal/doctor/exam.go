package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/loop"
	"boxmaker/bxctl/internal/loopdconf"
	"boxmaker/bxctl/internal/measure/api"
	"boxmaker/bxctl/internal/report"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/proto"
)

// An exam collects findings, and the facts that several checks look at.
type exam struct {
	Options
	ctx      context.Context
	check    string
	key      string
	findings []Finding

	conf    *conf
	status  *loopdState
	state   *upState
	props   *serverState
	brokerd *brokerState
	systemd *bool
	granted *grantState
}

// conf is what the config files say, as far as they can be read.
type conf struct {
	settings            setup.Settings
	proxy               setup.Proxy
	loopd               loopdconf.Settings
	bxErr, pxErr, ldErr error
}

func (x *exam) config() *conf {
	if x.conf != nil {
		return x.conf
	}
	c := &conf{settings: setup.DefaultSettings(), proxy: setup.DefaultProxy()}
	c.bxErr = loadConfig(x.Layout, setup.FileBxctl, &c.settings)
	c.pxErr = loadConfig(x.Layout, setup.FileProxy, &c.proxy)
	c.loopd, c.ldErr = loopdconf.Load(x.Layout)
	if c.ldErr != nil {
		c.loopd = loopdconf.Default()
	}
	if c.bxErr != nil {
		c.settings = setup.DefaultSettings()
	}
	if c.pxErr != nil {
		c.proxy = setup.DefaultProxy()
	}
	x.conf = c
	return c
}

// upState is what up's files and the kernel say of a running bxctl up.
type upState struct {
	pid      int // of the holder of the lock; 0: none, -1: out of sight
	lockErr  error
	up       *report.Up // what up.json says; it may be of an up that is gone
	stateErr error
}

func (x *exam) running() *upState {
	if x.state == nil {
		s := &upState{}
		s.pid, s.lockErr = up.Holder(x.Layout)
		s.up, s.stateErr = up.State(x.Layout)
		x.state = s
	}
	return x.state
}

// roles lists the roles that up says it runs, or those of systemd; none if
// neither runs any.
func (x *exam) roles() []report.Role {
	s := x.running()
	switch {
	case s.pid == 0 && x.bySystemd():
		return x.units()
	case s.pid == 0 || s.up == nil:
		return nil
	}
	return s.up.Roles
}

// loopdState is loopd's own word.
type loopdState struct {
	st  *proto.Status
	err error
}

func (x *exam) loopd() *loopdState {
	if x.status == nil {
		ctx, cancel := context.WithTimeout(x.ctx, 3*time.Second)
		defer cancel()
		s := &loopdState{}
		s.st, s.err = loop.Client{Path: x.Layout.Socket("loopd", "bxctl", "loop")}.Status(ctx)
		x.status = s
	}
	return x.status
}

// quiet reports whether nothing of Boxmaker runs for this home: neither a bxctl up
// nor a loopd that somebody else started, for instance systemd. In doubt it runs.
func (x *exam) quiet() bool {
	return x.running().pid == 0 && x.running().lockErr == nil && fault.Code(x.loopd().err) == fault.NotRunning
}

// serverState is the inference server's own word.
type serverState struct {
	addr   setup.Address
	props  api.Props
	err    error // why it could not be asked
	health error // it answered, and is not ready
	absent bool  // it is not meant to be there now
}

func (x *exam) server() *serverState {
	if x.props != nil {
		return x.props
	}
	c, s := x.config(), &serverState{}
	x.props = s
	if s.addr, s.err = api.Address(x.Layout, c.settings, c.proxy); s.err != nil {
		return s
	}
	if c.settings.Model.Kind != setup.Upstream && x.running().pid == 0 {
		s.absent = true
		return s
	}
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	client := api.New(s.addr)
	var refused *api.Error
	s.health = client.Health(ctx)
	if s.health != nil && !errors.As(s.health, &refused) {
		s.err, s.health = s.health, nil
		return s
	}
	if s.health == nil {
		s.props, s.err = client.Props(ctx, c.loopd.Upstream.Model)
	}
	return s
}

func (x *exam) tell(s string) {
	if x.Tell != nil {
		x.Tell(s)
	}
}

func (x *exam) add(f Finding) {
	f.Check = x.check
	if f.Runbook == "" && (f.Verdict == Warn || f.Verdict == Fail) {
		f.Runbook = x.key
	}
	x.findings = append(x.findings, f)
}

func (x *exam) ok(looked, format string, args ...any) {
	x.add(Finding{Looked: looked, Verdict: OK, Detail: fmt.Sprintf(format, args...)})
}

func (x *exam) skip(looked, format string, args ...any) {
	x.add(Finding{Looked: looked, Verdict: Skipped, Detail: fmt.Sprintf(format, args...)})
}

func (x *exam) bad(v Verdict, looked, detail, mend string) {
	x.add(Finding{Looked: looked, Verdict: v, Detail: detail, Mend: mend})
}

// uidOf is the uid that should own what a role keeps.
func (x *exam) uidOf(role string) uint32 {
	if !x.Root() {
		return uint32(os.Geteuid())
	}
	return x.config().settings.UID(role)
}

// some names a few of many.
func some(names []string) string {
	const shown = 4
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// under gives path as it is seen from the home, where it lies there.
func (x *exam) under(path string) string {
	if rel, err := filepath.Rel(x.Layout.Home, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

// split takes the advice and the runbook key out of the text of an error that
// has them: "what; do (see runbook: key)".
func split(err error) (text, key string) {
	text = err.Error()
	if head, rest, ok := strings.Cut(text, " (see runbook: "); ok {
		k, _, _ := strings.Cut(rest, ")")
		return head, k
	}
	return text, ""
}

func first(v ...string) string { return cmp.Or(v...) }
