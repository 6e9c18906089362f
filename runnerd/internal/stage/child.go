package stage

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// child runs the program once more, in a user namespace in which it has the
// same uid and may mount. An error means that none was started.
func child(info Info) (code int, err error) {
	info.Half, info.Child = true, true
	text, err := json.Marshal(info)
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the child lives as long as this thread
	uid, gid := os.Getuid(), os.Getgid()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LISTEN_PID=") })
	cmd.Env = append(cmd.Env, variable+"="+string(text))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	handed := inherited()
	cmd.ExtraFiles = handed
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, Pdeathsig: syscall.SIGKILL,
		// A signal to our group would come twice, from there and from us, and the second
		// ends a daemon at once, whatever it has begun.
		Setpgid: true,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	// It only passes on signals now, and must not gain rights either. Not an
	// error: the child, which does the work, says for itself what holds.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	for i, f := range handed { // a socket that nobody serves must not look served
		f.Close()
		_ = unix.Close(3 + i)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		return 1, nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// inherited are copies of the sockets that the parent handed over, see
// sd_listen_fds(3): the descriptors themselves stay good if no child comes up.
func inherited() []*os.File {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 || n > 64 {
		return nil
	}
	if pid := os.Getenv("LISTEN_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return nil
	}
	var files []*os.File
	for i := range n {
		fd, err := unix.FcntlInt(uintptr(3+i), unix.F_DUPFD_CLOEXEC, 3+n)
		if err != nil {
			return nil
		}
		files = append(files, os.NewFile(uintptr(fd), "handed over"))
	}
	return files
}
