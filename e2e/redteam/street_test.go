package redteam

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxmaker/e2e/stack"
)

// The families about the network run in a network namespace, the street: every
// address in reachable is there, and answers. What is not refused is reached, and
// the answer says which address it was. The whole of Boxmaker runs in it. The
// machine trusts one more authority there, so that names have certificates.
//
// The test starts itself twice: first with the rights to furnish the street, then
// without them.
const (
	onStreet   = "BOXMAKER_TEST_STREET" // "furnish", then "run"
	streetKeys = "BOXMAKER_TEST_STREET_KEYS"
	systemCA   = "/etc/ssl/certs/ca-certificates.crt"
	noStreet   = "NO NAMESPACE"
)

var reachable = []string{ //nolint:gochecknoglobals // a table
	"93.184.216.34", "93.184.216.35", "93.184.216.36", "2606:2800:220:1::34", // on the internet
	"10.0.0.1", "172.16.0.1", "192.168.0.1", "192.168.0.2", "100.64.0.1", "100.101.102.103", "169.254.1.1", "169.254.169.254", "168.63.129.16", "100.100.100.200",
	"198.18.0.1", "192.0.2.1", "203.0.113.1", "240.0.0.1",
	"fd12:3456::1", "fd00:ec2::254", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001:0:1::1", "2001:db8::1", "fec0::1",
}

// ownNetworks are the machine's, and look public.
var ownNetworks = []string{"93.185.0.1/24", "2606:2800:221:1::1/64"} //nolint:gochecknoglobals // a table

// streetRan is what came of it, once for all families.
var streetRan struct { //nolint:gochecknoglobals // as stack's probe
	once sync.Once
	out  string
	skip string
}

// apartOnStreet makes a family out of what happened there.
func apartOnStreet(name string) family {
	return family{name: name, apart: func(t *testing.T) int {
		t.Helper()
		stack.Containers(t)
		s := &streetRan
		s.once.Do(func() { s.out, s.skip = walkStreet(t) })
		if s.skip != "" {
			t.Skip(s.skip)
		}
		mine := regexp.QuoteMeta("TestStreet/" + strings.ReplaceAll(name, " ", "_"))
		n := len(regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): `+mine+`/`).FindAllString(s.out, -1))
		if n == 0 || !regexp.MustCompile(`(?m)^ *--- PASS: `+mine+` `).MatchString(s.out) || !strings.Contains(s.out, "\nPASS\n") {
			t.Errorf("%d attempts, and the family did not hold:\n%s", n, s.out)
			s.out = "(shown above)"
		}
		return n
	}}
}

// walkStreet runs TestStreet in the namespace.
func walkStreet(t *testing.T) (out, skip string) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		return "", "the program ip is not here: NOTHING ABOUT THE NETWORK WAS TRIED WITH REAL ADDRESSES"
	}
	bxctl, err := exec.LookPath("bxctl")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.MkdirTemp("", "bm-street-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(keys)
	// Built here: what it needs might have to be fetched, and there is no way to it there.
	if err := os.WriteFile(filepath.Join(keys, "attacker"), attackerProgram(t), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStreet$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), onStreet+"=furnish", streetKeys+"="+keys, "BOXMAKER_BIN="+filepath.Dir(bxctl))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
	}
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || bytes.Contains(b, []byte(noStreet)) {
		return "", fmt.Sprintf("NO NAMESPACE CAN BE MADE HERE, so that nothing about the network was tried with real addresses: %v %s", err, b)
	}
	return string(b), ""
}

// TestStreet is for walkStreet; by itself it has nothing to do.
func TestStreet(t *testing.T) {
	switch os.Getenv(onStreet) {
	case "":
		return
	case "furnish":
		runtime.LockOSThread() // the rights are the thread's
		if err := furnish(os.Getenv(streetKeys)); err != nil {
			t.Fatalf("%s: %v", noStreet, err)
		}
		if err := inheritNothing(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		t.Setenv(onStreet, "run")
		t.Fatal(syscall.Exec("/proc/self/exe", os.Args, os.Environ())) //nolint:gosec // itself
	default:
		attackOnStreet(t)
	}
}

// inheritNothing leaves no capability to programs of an ordinary user.
func inheritNothing() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&head, &data[0])
}

// furnish makes addresses, ports and the authority.
func furnish(keys string) error {
	run := func(args ...string) error {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w %s", args, err, out)
		}
		return nil
	}
	if err := run("link", "set", "lo", "up"); err != nil {
		return err
	}
	for _, a := range reachable { // by routes: the machine's own addresses are known to egressd
		args := []string{"route", "add", "local", a + "/32", "dev", "lo"}
		if strings.Contains(a, ":") {
			args = []string{"-6", "route", "add", "local", a + "/128", "dev", "lo"}
		}
		_ = run(args...) // one that can't be is not reached: its row holds for that reason then
	}
	for _, a := range ownNetworks {
		if err := run("addr", "add", a, "dev", "lo"); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil && os.Getuid() != 0 {
		return err
	}
	if err := certify(keys); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount(filepath.Join(keys, "trusted.pem"), systemCA, "", unix.MS_BIND, "")
}

// certified are the names that have a certificate.
func certified() []string {
	return []string{"public.example", "api.example", "other.example", "evil.example", "*.wild.example"}
}

func certify(dir string) error {
	now := time.Now()
	issuer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "street"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "web"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), DNSNames: certified()}
	ca, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	a, err1 := x509.CreateCertificate(rand.Reader, issuer, issuer, &ca.PublicKey, ca)
	b, err2 := x509.CreateCertificate(rand.Reader, leaf, issuer, &key.PublicKey, ca)
	k, err3 := x509.MarshalECPrivateKey(key)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	enc := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the daemons read it
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "trusted.pem"), enc("CERTIFICATE", a), 0o644), //nolint:gosec // public
		os.WriteFile(filepath.Join(dir, "web.pem"), enc("CERTIFICATE", b), 0o644),     //nolint:gosec // public
		os.WriteFile(filepath.Join(dir, "web.key"), enc("EC PRIVATE KEY", k), 0o600),
	)
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	dir := os.Getenv(streetKeys)
	c, err := tls.LoadX509KeyPair(filepath.Join(dir, "web.pem"), filepath.Join(dir, "web.key"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
