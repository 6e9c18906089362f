package up

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
	"boxmaker/internal/ipc"
)

// listening holds the sockets of one role, open for as long as up runs: a
// client that comes while the role starts again waits instead of failing.
type listening struct {
	files []*os.File
	names []string
	lns   []net.Listener
}

// listen makes the sockets of a role. As root the folder of each belongs to
// its client, so that no other role can enter it; up made it afresh, so that
// nothing of a former client lies in its way.
func listen(l config.Layout, r Role, s setup.Settings, root bool) (*listening, error) {
	out := &listening{}
	for _, sock := range r.Sockets {
		path := l.Socket(r.Name, sock.Client, sock.File)
		if !root && r.Keyed() {
			if err := ensureKey(path); err != nil {
				out.close()
				return nil, err
			}
		}
		if err := out.add(sock.Name, path); err != nil {
			out.close()
			return nil, &fault.Fault{
				What: "the socket " + path + " can't be made", Err: err,
				Do: "if another program serves it, stop that first", Key: "socket-busy",
			}
		}
		if root {
			if err := give(path, clientUID(s, sock.Client)); err != nil {
				out.close()
				return nil, fmt.Errorf("giving %s to its client: %w", path, err)
			}
		}
	}
	return out, nil
}

// Keyed says whether the sockets of a role ask for a key where all roles are one
// user (see ipc.Keyed): all but those that speak HTTP.
func (r Role) Keyed() bool { return r.Name != roleProxy && r.Name != rolePractice }

// ensureKey makes the key of a socket before anybody can dial it.
func ensureKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return ipc.EnsureKey(path)
}

func (o *listening) add(name, path string) error {
	ln, err := ipc.Listen(path)
	if err != nil {
		return err
	}
	o.lns = append(o.lns, ln)
	u, ok := ln.(interface{ File() (*os.File, error) })
	if !ok {
		return errors.New("not a socket that can be handed over")
	}
	f, err := u.File()
	if err != nil {
		return err
	}
	o.files, o.names = append(o.files, f), append(o.names, name)
	return nil
}

// env tells the role what it was handed.
func (o *listening) env() []string {
	if len(o.files) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("LISTEN_FDS=%d", len(o.files)), "LISTEN_FDNAMES=" + strings.Join(o.names, ":")}
}

// close removes the sockets: who dials now learns at once that nobody is there.
func (o *listening) close() {
	for _, ln := range o.lns {
		_ = ln.Close()
	}
	for _, f := range o.files {
		_ = f.Close()
	}
	o.lns, o.files = nil, nil
}

func clientUID(s setup.Settings, client string) uint32 {
	if client == "bxctl" {
		return uint32(os.Geteuid())
	}
	return s.UID(client)
}

// give makes a socket and its folder the client's.
func give(path string, uid uint32) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		if err := os.Lchown(p, int(uid), int(uid)); err != nil {
			return err
		}
	}
	return nil
}

// folders makes run/<listener>/<client>. As root they are made afresh, and
// what stands above the clients' folders can be passed through and not read.
func folders(l config.Layout, roles []Role, s setup.Settings, root bool) error {
	if err := os.MkdirAll(l.Run, 0o700); err != nil {
		return err
	}
	if !root {
		return ownFolders(l, roles)
	}
	if err := os.Chmod(l.Run, 0o711); err != nil { //nolint:gosec // entered, not read
		return err
	}
	for _, r := range roles {
		dir := filepath.Join(l.Run, r.Name)
		if err := afresh(dir, r.Folders); err != nil {
			return err
		}
		if err := passage(dir); err != nil {
			return err
		}
		if r.Makes != "" {
			if err := sharedFolder(filepath.Join(l.Run, filepath.Dir(r.Makes)), r.UID, s.UID(roleProxy)); err != nil {
				return err
			}
		}
		for _, f := range r.Folders {
			if err := f.make(l.Run, r.UID, s); err != nil {
				return err
			}
		}
	}
	return brokerFolder(l, s.UID(roleLoopd))
}

// afresh empties the folder of a role, but for what it keeps from run to run.
func afresh(dir string, own []Folder) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return os.Remove(dir) // a link or a file in its place
	}
	for _, e := range entries {
		kept := func(f Folder) bool { return f.Client == "" && filepath.Base(f.Path) == e.Name() }
		if slices.ContainsFunc(own, kept) && e.IsDir() {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ownFolders is the same for a user whose roles are all the user's own.
func ownFolders(l config.Layout, roles []Role) error {
	dirs := []string{filepath.Dir(l.Socket(roleBroker, roleLoopd, "broker"))}
	for _, r := range roles {
		if r.Makes != "" {
			dirs = append(dirs, filepath.Join(l.Run, filepath.Dir(r.Makes)))
		}
		for _, f := range r.Folders {
			dir := filepath.Join(l.Run, f.Path)
			if f.Client != "" {
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
			}
			dirs = append(dirs, dir)
		}
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// make makes a role's own folder, as root.
func (f Folder) make(run string, owner uint32, s setup.Settings) error {
	dir := filepath.Join(run, f.Path)
	if f.Client != "" {
		return sharedFolder(dir, owner, s.UID(f.Client))
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Lchown(dir, int(owner), int(owner))
}

// passage is a folder that can be passed through and not read.
func passage(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // entered, not read
		return err
	}
	return os.Chmod(dir, 0o711) //nolint:gosec // whatever the umask is
}

// brokerFolder is where loopd looks for brokerd, whether up starts one or not.
func brokerFolder(l config.Layout, uid uint32) error {
	dir := filepath.Dir(l.Socket(roleBroker, roleLoopd, "broker"))
	if err := passage(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Lchown(dir, int(uid), int(uid))
}

// sharedFolder is where a role makes its own socket: it may write there, the
// client's group may enter, and what is made there belongs to that group.
func sharedFolder(dir string, owner, client uint32) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := os.Lchown(dir, int(owner), int(client)); err != nil {
		return err
	}
	return os.Chmod(dir, 0o710|fs.ModeSetgid) //nolint:gosec // for the client's group
}
