package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// A bare is crun and a bundle, started as runnerd starts them and by nothing
// else: with its uid, in its mount namespace, from the description that it wrote
// for a call. The tool in it is a program that only ends.
type bare struct {
	jobs chan job
	n    atomic.Int64
}

type job struct {
	id   string
	done chan done
}

type done struct {
	time time.Duration
	err  error
}

// bareAtOnce is how many can run at one time.
const bareAtOnce = 2

// newBare takes a copy of the bundle of a call. An error says why it can't.
func newBare(d *desk) (*bare, error) {
	code, err := onlyEnds()
	if err != nil {
		return nil, err
	}
	bundles := filepath.Join(d.Layout.Run, "runnerd", "bundles")
	dir := filepath.Join(bundles, "bare")
	seen, err := catch(d, bundles, dir)
	if err != nil {
		return nil, err
	}
	// The paths are as runnerd sees them, which has the folder elsewhere.
	at, ok := strings.CutSuffix(seen.root, "/"+seen.id+"/rootfs")
	if !ok {
		return nil, fmt.Errorf("the root of the container is %s", seen.root)
	}
	text := strings.ReplaceAll(seen.text, at+"/"+seen.id+"/", at+"/bare/")
	text = strings.ReplaceAll(text, "\""+at+"/toolkit\"", "\""+at+"/bare/ends\"")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "ends"), code, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o700)); err != nil {
		return nil, err
	}
	if uid := stack.RoleUID("runnerd"); os.Geteuid() == 0 {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, uid, uid))
		})
		if err != nil {
			return nil, err
		}
	}
	b := &bare{jobs: make(chan job)}
	d.t.Cleanup(func() { close(b.jobs) })
	ready := make(chan error)
	for range bareAtOnce {
		go func() {
			_ = stack.OnThread(0, func() error { return b.serve(d.PID("runnerd"), at, ready) })
		}()
		if err := <-ready; err != nil {
			return nil, err
		}
	}
	trial := job{"bare-0", make(chan done)}
	b.jobs <- trial
	if d := <-trial.done; d.err != nil { // what runnerd does for it may be out of reach, as for an ordinary user
		return nil, d.err
	}
	return b, nil
}

// serve runs on one thread, which becomes what runnerd is.
func (b *bare) serve(runnerd int, at string, ready chan<- error) error {
	if err := join(runnerd); err != nil {
		ready <- err
		return err
	}
	if err := stack.Become(stack.RoleUID("runnerd")); err != nil {
		ready <- err
		return err
	}
	ready <- nil
	for j := range b.jobs {
		dir := at + "/bare"
		cmd := exec.Command("crun", "--root", dir+"/state", "--cgroup-manager=disabled", "--log", "file:"+dir+"/runtime.log",
			"--log-format", "json", "run", "--bundle", dir, "--pid-file", dir+"/pid-"+j.id, j.id)
		cmd.Env, cmd.Dir = []string{"PATH=/nonexistent", "XDG_RUNTIME_DIR=" + dir + "/state"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var said bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("{}"), &said, &said
		start := time.Now()
		err := cmd.Run()
		end := done{time: time.Since(start)}
		if err != nil {
			text, _ := os.ReadFile(dir + "/runtime.log")
			end.err = fmt.Errorf("%w: %s %s", err, said.Bytes(), text)
		}
		j.done <- end
	}
	return nil
}

// join enters the mount namespace that runnerd made for itself as root.
func join(runnerd int) error {
	if os.Geteuid() != 0 {
		return nil // its namespace can't be entered; what it is for may hold here too
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", runnerd))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNS)
}

func (b *bare) run(t *testing.T) time.Duration {
	j := job{fmt.Sprintf("bare-%d", b.n.Add(1)), make(chan done)}
	b.jobs <- j
	d := <-j.done
	if d.err != nil {
		t.Error(d.err)
	}
	return d.time
}

type bundle struct{ id, root, text string }

// catch copies the bundle of a call while it is there.
func catch(d *desk, bundles, to string) (bundle, error) {
	for range 50 {
		end := make(chan struct{})
		go func() {
			defer close(end)
			d.read(d.note, proto.CallOK)
		}()
		var b bundle
		for ended := false; !ended && b.id == ""; {
			select {
			case <-end:
				ended = true
			default:
			}
			files, _ := filepath.Glob(bundles + "/*/config.json")
			for _, f := range files {
				text, err := os.ReadFile(f)
				_ = os.RemoveAll(to)
				if err == nil && bytes.HasSuffix(text, []byte("}")) && bytes.Contains(text, []byte("-check")) && os.CopyFS(to, os.DirFS(filepath.Dir(f))) == nil {
					b = bundle{id: filepath.Base(filepath.Dir(f)), text: string(text)}
				}
			}
		}
		<-end
		if _, rest, ok := strings.Cut(b.text, `"root":{"path":"`); ok {
			b.root, _, _ = strings.Cut(rest, `"`)
			return b, nil
		}
	}
	return bundle{}, errors.New("no bundle of a call was seen")
}

// onlyEnds is a static program that ends with status 0: the smallest there is.
func onlyEnds() ([]byte, error) {
	var machine uint16
	var code []byte
	switch runtime.GOARCH {
	case "amd64": // xor edi, edi; mov eax, 60; syscall
		machine, code = 62, []byte{0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05}
	case "arm64": // mov x0, #0; mov x8, #93; svc #0
		machine, code = 183, []byte{0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4}
	default:
		return nil, fmt.Errorf("no program is at hand for %s", runtime.GOARCH)
	}
	const base, head = 0x400000, 64 + 56
	var f bytes.Buffer
	f.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	size := uint64(head + len(code))
	for _, v := range []any{
		uint16(2), machine, uint32(1), uint64(base + head), uint64(64), uint64(0), uint32(0), uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000),
	} {
		if err := binary.Write(&f, binary.LittleEndian, v); err != nil {
			return nil, err
		}
	}
	f.Write(code)
	return f.Bytes(), nil
}
