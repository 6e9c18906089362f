package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"boxmaker/internal/proto"
	"boxmaker/internal/tool"
	"boxmaker/runnerd/internal/box"
	"boxmaker/runnerd/internal/conform"
	"boxmaker/runnerd/internal/crun"

	"golang.org/x/sys/unix"
)

// readFile is a granted read_file, as brokerd asks for it.
func readFile(b *testing.B, w *conform.World) *proto.Launch {
	b.Helper()
	path := w.File(b, "notes/a.md", "some notes\n")
	in, err := tool.EncodeInput(tool.Input{Args: fmt.Sprintf(`{"path":%q}`, path), Read: []string{filepath.Dir(path)}, Write: []string{}, Plain: []string{}})
	if err != nil {
		b.Fatal(err)
	}
	return &proto.Launch{
		Call: "bench/1/1/1", Entry: tool.NameReadFile, Input: string(in), Mounts: []proto.Mount{{Path: filepath.Dir(path)}},
		Userland: proto.UserlandNone, Secrets: []proto.LaunchSecret{},
	}
}

func benchRead(b *testing.B, name string) {
	w := conform.New(b, name, "boxmaker/toolkit")
	l := readFile(b, w)
	for b.Loop() {
		if e := w.Run(b, l); e.Reason != proto.EndExit || e.Exit != 0 || !strings.Contains(string(e.Output), "some notes") {
			b.Fatalf("%s %d %s %s", e.Reason, e.Exit, e.Detail, e.Output)
		}
	}
}

// The target is 1.6 times BenchmarkBareCrun.
func BenchmarkReadFile(b *testing.B) { benchRead(b, "crun") }

func BenchmarkReadFilePodman(b *testing.B) { benchRead(b, "podman") }

// BenchmarkEightAtOnce gives the time of one of eight.
func BenchmarkEightAtOnce(b *testing.B) {
	w := conform.New(b, "crun", "boxmaker/toolkit")
	l := readFile(b, w)
	for b.Loop() {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if e := w.Run(b, l); e.Reason != proto.EndExit {
					b.Errorf("%s %s", e.Reason, e.Detail)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/call")
}

// BenchmarkBareCrun is crun alone with the same bundle, without runnerd, grants,
// control group and pipes: a program that ends at once.
func BenchmarkBareCrun(b *testing.B) {
	w := conform.New(b, "crun", "boxmaker/toolkit") // says whether containers work
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{childVar + "=bare", "PATH=" + os.Getenv("PATH"), "DATA=" + w.Data, "TOOLKIT=" + w.Toolkit(), "TIMES=40"}
	out, err := cmd.CombinedOutput()
	ns, bad := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil || bad != nil {
		b.Skipf("crun cannot be started here as runnerd starts it: %v %s", err, out)
	}
	for b.Loop() {
	}
	b.ReportMetric(ns, "ns/op")
}

// bare makes the namespace that an old crun needs, once, and then times crun.
func bare() error {
	runtime.LockOSThread()
	if os.Getuid() == 0 {
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("none", "/sys/fs/cgroup", "cgroup2", 0, "")
		}
		if err != nil {
			return err
		}
	}
	uid := os.Getuid()
	if uid == 0 {
		uid = conform.RunnerUID
	}
	dir := filepath.Join(os.Getenv("DATA"), "bare")
	r, err := crun.New("", filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	program, err := os.ReadFile(os.Getenv("TOOLKIT"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "toolkit"), program, 0o755); err != nil {
		return err
	}
	call := filepath.Join(dir, "call")
	if err := os.Mkdir(call, 0o755); err != nil {
		return err
	}
	x, err := box.Make("bm-bare", &proto.Launch{Entry: "probe", Userland: proto.UserlandNone}, box.Host{Dir: call, Toolkit: filepath.Join(dir, "toolkit"), UID: uid, GID: uid})
	if err != nil {
		return err
	}
	s, err := r.Prepare(x)
	if err == nil {
		err = exec.Command("chown", "-R", fmt.Sprintf("%d:%d", uid, uid), dir).Run()
	}
	if err != nil {
		return err
	}
	times, err := strconv.Atoi(os.Getenv("TIMES"))
	if err != nil {
		return err
	}
	began := time.Now()
	for range times {
		cmd := exec.Command(s.Path, s.Args...)
		cmd.Env, cmd.Dir = s.Env, "/"
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	fmt.Println(float64(time.Since(began).Nanoseconds()) / float64(times))
	return nil
}
