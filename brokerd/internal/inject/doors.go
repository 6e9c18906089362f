// Package inject gives calls their way out, and adds secrets on it that the
// tool never sees.
//
// Where the grant injects, the door of the call is a socket of brokerd. The tool
// sends its request for an https URL in plain, absolute form; the header with
// the secret is added here, and the request goes through egressd's door, inside
// of TLS that is made here. It guarantees that a value is only ever sent to
// exactly the host and port of its entry, over TLS whose certificate is valid
// for that host; that a redirect is never followed here; and that the value is
// taken out of what comes back where it stands as it is. Requests for other
// hosts, over plain http, and tunnels pass through without the secret.
//
// It does not find a value that the host sends back in another form, or cut in
// two by chunks: results are scanned for those before they leave brokerd.
package inject

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"boxmaker/brokerd/internal/driver"
	"boxmaker/brokerd/internal/egress"
	"boxmaker/internal/proto"
	"boxmaker/internal/proxyreq"

	"golang.org/x/sys/unix"
)

// suffix of the sockets' names.
const suffix = ".sock"

// Config is what [Doors] works with. Paths are relative to the run folder,
// which is the working folder.
type Config struct {
	Egress *egress.Client
	Dir    string         // for the sockets of forwarders
	Roots  *x509.CertPool // read before the process is confined
	Log    *slog.Logger
}

// Doors opens the ways out of calls. It is a driver.Doors.
type Doors struct{ cfg Config }

// New removes the sockets that an earlier process left, and gives Doors.
func New(cfg Config) (*Doors, error) {
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("the folder of brokerd's doors cannot be used: %w (see runbook: brokerd-doors)", err)
	}
	for _, e := range entries {
		if e.Type() == fs.ModeSocket && strings.HasSuffix(e.Name(), suffix) {
			if err := os.Remove(filepath.Join(cfg.Dir, e.Name())); err != nil {
				return nil, fmt.Errorf("an old door cannot be removed: %w (see runbook: brokerd-doors)", err)
			}
		}
	}
	return &Doors{cfg}, nil
}

// Roots reads the certificates of the authorities that this machine trusts.
func Roots() (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the certificates that this machine trusts cannot be read: %w", err)
	}
	return pool, nil
}

// Open opens the way out of one call. closed closes it, with all that goes
// through it, and must be called.
func (d *Doors) Open(ctx context.Context, w driver.WayOut) (door string, closed func() (proto.EgressReport, error), err error) {
	entries, err := parse(w.Inject)
	if err != nil {
		return "", nil, err
	}
	out, err := d.cfg.Egress.Open(ctx, egress.Way{Call: w.Call, Hosts: w.Hosts, Local: w.Local, Bytes: w.Bytes, Until: w.Until})
	if err != nil {
		return "", nil, err
	}
	report := func() (proto.EgressReport, error) {
		r, err := out.Close()
		if err != nil {
			d.cfg.Log.Error("what a call sent and received is not known", "call", w.Call, "error", err.Error())
		}
		return r, err
	}
	if len(entries) == 0 {
		return out.Path, report, nil
	}
	path := filepath.Join(d.cfg.Dir, strings.ToLower(rand.Text())+suffix)
	l, err := listen(path)
	if err != nil {
		_, _ = report() // no call has gone through
		return "", nil, fmt.Errorf("brokerd cannot open a door: %w (see runbook: brokerd-doors)", err)
	}
	// The call's own context may end before what it started is tidied up.
	fctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &forwarder{ctx: fctx, way: out.Path, entries: entries, roots: d.cfg.Roots}
	var all sync.WaitGroup
	all.Go(func() { f.serve(l) })
	return path, sync.OnceValues(func() (proto.EgressReport, error) {
		os.Remove(path)
		l.Close()
		cancel()
		r, err := report() // also ends what still goes through
		all.Wait()
		return r, err
	}), nil
}

func listen(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o660) })
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	ul := l.(*net.UnixListener) // what the network "unix" gives
	ul.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, ul.Close(), os.Remove(path))
	}
	return ul, nil
}

// An entry is one header for one host.
type entry struct {
	target proxyreq.Target
	field  proxyreq.Field
	value  string
}

func parse(list []driver.Injection) (all []entry, err error) {
	for _, i := range list {
		t, err := proxyreq.ParseTarget(i.Host)
		if err != nil {
			return nil, fmt.Errorf("inject: host %q: %w", i.Host, err)
		}
		e := entry{target: t, field: proxyreq.Field{Name: i.Header, Value: i.Prefix + i.Value.Reveal()}, value: i.Value.Reveal()}
		if !e.field.Valid() || e.value == "" {
			return nil, fmt.Errorf("inject: the header %q for %s cannot be sent: its name is no header's, or the secret is empty or has control characters", i.Header, i.Host)
		}
		all = append(all, e)
	}
	return all, nil
}

// headTime bounds the wait for a request, shakeTime that for TLS.
const (
	headTime  = 10 * time.Second
	shakeTime = 20 * time.Second
)
