package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watch has the kernel tell of what happens to a file, by inotify and by the older
// signal, until end is there. MARK says that it watches.
func watch(path, mark, end string) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_ACCESS)
	}
	say("inotify", err)
	if err := os.WriteFile(mark, nil, 0o666); err != nil {
		say("mark", err)
	}
	for {
		if _, err := os.Stat(end); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 4096)
	if n, _ := unix.Read(fd, buf); n > 0 {
		fmt.Println("seen: what others do")
	}
}

// hold asks for what stops or tells of others who use a file that may only be read.
func hold(file, dir string) {
	f, err := os.Open(file)
	if err != nil {
		say("open", err)
		return
	}
	d, err := os.Open(dir)
	if err != nil {
		say("open", err)
		return
	}
	for name, try := range map[string]func() error{
		"lease":             func() error { return control(f, unix.F_SETLEASE, unix.F_RDLCK) },
		"signal":            func() error { return control(d, unix.F_NOTIFY, 1) },
		"lease, bits above": func() error { return control(f, 1<<32|unix.F_SETLEASE, unix.F_RDLCK) },
		"a lock of a part":  func() error { return control(f, unix.F_GETFL, 0) },
		"a descriptor":      func() error { return control(f, unix.F_DUPFD_CLOEXEC, 0) },
		"a pipe's size":     func() error { return pipeSize() },
	} {
		say(name, try())
	}
}

func control(f *os.File, cmd, arg int) error {
	_, _, e := unix.Syscall(unix.SYS_FCNTL, f.Fd(), uintptr(cmd), uintptr(arg))
	if e != 0 {
		return e
	}
	return nil
}

func pipeSize() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	return control(w, unix.F_SETPIPE_SZ, 1<<16)
}
