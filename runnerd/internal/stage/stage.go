// Package stage prepares the process for containers, before it gives up what it
// needs for that: a mount namespace of its own, in which the control groups
// look as runtimes want them and the run folder can be reached by every user;
// control groups that are delegated; a copy of the toolkit.
//
// A mount namespace belongs to a thread and Go has many, so the program starts
// itself anew inside. As root it keeps its pid by that. An ordinary user needs a
// user namespace, which only a child can have: then the first process stays as
// a parent that passes on signals, and has nothing else to do.
//
// Nothing here is an error that ends the program: what could not be done is in
// the notes, and a container that is tried out says whether it mattered.
package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"boxmaker/runnerd/internal/cgroup"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// Options are what the command line says.
type Options struct {
	Bundles string
	Toolkit string
	UID     int // to become; 0 if this is an ordinary user
	// OneUser hides the machine's lists of further user ids, as root: podman would
	// use them with the help of set-user-id programs, which are of no use here.
	OneUser bool
}

// Info is what was prepared.
type Info struct {
	Run     string      `json:"run"`            // the run folder, as the runtime sees it
	Bundles string      `json:"bundles"`        // the folder of calls, as the runtime sees it
	Toolkit string      `json:"toolkit"`        // the copy of the toolkit, as the runtime sees it
	Fetch   string      `json:"fetch,omitzero"` // that of toolfetch, if it lies beside the toolkit
	Hidden  string      `json:"hidden,omitzero"`
	Own     []string    `json:"own"` // the two folders by their first names, which nobody may be given
	Cgroups cgroup.Base `json:"cgroups"`
	Notes   []string    `json:"notes,omitzero"`
	Half    bool        `json:"half,omitzero"` // mounts are still to be made
	OneUser bool        `json:"oneUser,omitzero"`
	Child   bool        `json:"child,omitzero"` // the parent is this program too, and does not outlive us
}

// variable hands the Info to the program's next start.
const variable = "BOXMAKER_RUNNERD_STAGE"

// shadow is the folder that a root-made namespace uses for its own: it is there
// on every Linux, and cannot be granted to a tool.
const shadow = "/dev/shm"

// Enter prepares the process. It may start the program anew in its place, and
// then does not return; or as a child, and then ends with its exit status.
func Enter(o Options) (Info, error) {
	if text, again := os.LookupEnv(variable); again {
		return second(text)
	}
	info, err := look(o)
	if err != nil {
		return info, err
	}
	switch {
	case o.UID != 0:
		if err := asRoot(&info, o.UID); err != nil {
			info.note("no mount namespace of its own", err)
			return info, nil
		}
		return info, anew(info)
	case cgroup.Hybrid():
		code, err := child(info)
		if err == nil {
			os.Exit(code)
		}
		info.note("no user namespace of its own", err)
	}
	return info, nil
}

func (i *Info) note(what string, err error) {
	i.Notes = append(i.Notes, fmt.Sprintf("%s: %v", what, err))
}

// look finds the folders, copies the toolkit and asks for control groups.
func look(o Options) (Info, error) {
	var info Info
	run, err := os.Getwd()
	if err != nil {
		return info, fmt.Errorf("the run folder is not known: %w", err)
	}
	bundles, err := filepath.Abs(o.Bundles)
	if err != nil {
		return info, err
	}
	if err := os.MkdirAll(bundles, 0o700); err != nil {
		return info, fmt.Errorf("the bundles folder: %w", err)
	}
	if o.UID != 0 {
		if err := os.Lchown(bundles, o.UID, o.UID); err != nil {
			return info, fmt.Errorf("the bundles folder: %w", err)
		}
	}
	if err := os.Chmod(bundles, 0o700); err != nil { //nolint:gosec // a folder
		return info, fmt.Errorf("the bundles folder: %w", err)
	}
	info.OneUser = o.OneUser
	info.Own = []string{run, bundles}
	info.Run, info.Bundles, info.Toolkit = run, bundles, filepath.Join(bundles, "toolkit")
	if err := copyProgram(o.Toolkit, info.Toolkit, o.UID); err != nil {
		return info, fmt.Errorf("the toolkit cannot be copied to the bundles folder: %w; build it with `make build` (see runbook: runner-toolkit)", err)
	}
	switch from, to := filepath.Join(filepath.Dir(o.Toolkit), fetchName), filepath.Join(bundles, fetchName); {
	case absent(from):
		info.Notes = append(info.Notes, fetchName+" does not lie beside the toolkit: no page can be fetched")
	default:
		if err := copyProgram(from, to, o.UID); err != nil {
			return info, fmt.Errorf("%s cannot be copied to the bundles folder: %w; build it with `make build` (see runbook: runner-toolkit)", fetchName, err)
		}
		info.Fetch = to
	}
	uid := o.UID
	if uid == 0 {
		uid = os.Getuid()
	}
	var st unix.Stat_t
	if err := unix.Stat(bundles, &st); err != nil {
		return info, err
	}
	// The name is the same at each start, so that a start finds what the last one left.
	info.Cgroups = cgroup.Delegate(fmt.Sprintf("boxmaker-%d-%x-%x", uid, st.Dev, st.Ino), uid)
	return info, nil
}

// fetchName is the program that is the toolkit of http_fetch.
const fetchName = "toolfetch"

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// copyProgram copies, so that a user who cannot enter the program's folder can
// run it, and that it stays the same as long as this process lives.
func copyProgram(from, to string, uid int) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	// The folder is the user's, who may have put anything there: a file with a
	// second name, or a pipe in which root would wait for ever.
	fresh := to + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	out, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o500)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if uid != 0 {
		err = errors.Join(err, out.Chown(uid, uid))
	}
	err = errors.Join(err, out.Chmod(0o555), out.Close())
	if err != nil {
		return err
	}
	return os.Rename(fresh, to)
}

// asRoot makes the mount namespace, on a thread that then becomes the program.
func asRoot(info *Info, uid int) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// What the machine mounts later shows here too, and nothing from here there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount propagation: %w", err)
	}
	if err := show(info); err != nil {
		return fmt.Errorf("the run folder in %s: %w", shadow, err)
	}
	mounts(info)
	return nil
}

// mounts makes the machine look as runtimes want it.
func mounts(info *Info) {
	if cgroup.Hybrid() {
		if err := unix.Mount("none", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			info.note("cgroup2 on /sys/fs/cgroup", err)
		}
	}
	// crun looks up the name of its user in each start. Without this file it asks
	// /etc/passwd alone; the modules that a machine names there, such as that of
	// systemd, cost 2.4 ms of processor time.
	hide := []string{"/etc/nsswitch.conf"}
	if info.OneUser {
		hide = append(hide, "/etc/subuid", "/etc/subgid")
	}
	for _, f := range hide {
		if _, err := os.Stat(f); err != nil {
			continue
		}
		if err := unix.Mount("/dev/null", f, "", unix.MS_BIND, ""); err != nil {
			info.note(f+" cannot be hidden", err)
		}
	}
}

// show puts the folders in a place that every user can enter, whatever lies
// above them: below root's home, for one.
func show(info *Info) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("none", shadow, "tmpfs", flags, "mode=711,size=64k"); err != nil {
		return err
	}
	paths := info.Cgroups.Paths()
	paths["run"], paths["bundles"] = &info.Run, &info.Bundles
	for name, p := range paths {
		to := filepath.Join(shadow, name)
		if err := os.Mkdir(to, 0o711); err != nil {
			return err
		}
		if err := unix.Mount(*p, to, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		*p = to
	}
	info.Toolkit, info.Hidden = filepath.Join(info.Bundles, "toolkit"), shadow
	if info.Fetch != "" {
		info.Fetch = filepath.Join(info.Bundles, fetchName)
	}
	return nil
}

// anew becomes this program once more. The thread's namespaces stay.
func anew(info Info) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env := append(os.Environ(), variable+"="+string(text))
	if err := syscall.Exec(self, os.Args, env); err == nil || !errors.Is(err, syscall.EACCES) {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, env)
}

// second is the program's next start.
func second(text string) (Info, error) {
	var info Info
	if err := errors.Join(json.Unmarshal([]byte(text), &info), os.Unsetenv(variable)); err != nil {
		return info, fmt.Errorf("%s is not what the program itself sets: %w", variable, err)
	}
	if !info.Half {
		return info, nil
	}
	info.Half = false
	runtime.LockOSThread() // the rights of a thread are dropped below
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		info.note("mount propagation", err)
	} else {
		mounts(&info)
	}
	none := [2]unix.CapUserData{}
	err := errors.Join(unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]))
	if err != nil {
		return info, fmt.Errorf("the rights that the mount needed cannot be given up: %w", err)
	}
	return info, anew(info)
}
