package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/testkit/fakemost"
)

// bundle is where this machine keeps whom it trusts, on Debian and its like.
const bundle = "/etc/ssl/certs/ca-certificates.crt"

// An authority signs certificates; file has its own.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.crt")}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().AddDate(-2, 0, 0), NotAfter: time.Now().AddDate(2, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	a.key, der = a.sign(tmpl, tmpl, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil { //nolint:gosec // all may know it
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(tmpl, by *x509.Certificate, key *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if key == nil {
		key = own
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, by, own.Public(), key)
	if err != nil {
		a.t.Fatal(err)
	}
	return own, der
}

// serve puts TLS before a server, with a certificate for a name, and gives its address.
func (a *authority) serve(s *fakemost.Server, name string, until time.Time) string {
	a.t.Helper()
	key, der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, a.key)
	to, err := url.Parse(s.URL)
	if err != nil {
		a.t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(to))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv.StartTLS()
	a.t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return "https://localhost" + srv.URL[strings.LastIndex(srv.URL, ":"):]
}

// TestChatOverTLS: with the machine's own list of whom it trusts, shut in as ever. A
// certificate that has expired, or is for another name, ends the setup before the token.
func TestChatOverTLS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can replace the machine's list of authorities in a mount namespace of its own")
	}
	if _, err := os.Stat(bundle); err != nil {
		t.Skip("NOT RUN: this machine keeps its authorities elsewhere: ", err)
	}
	ca := newAuthority(t)
	under := []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" ` + bundle + ` && exec "$@"`, ca.file}
	if out, err := exec.Command(under[0], append(under[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no mount namespace here: %v: %s", err, out)
	}
	s := stack.New(t)
	s.Must("", "init", "--practice")
	s.NoTools()
	chat := fakemost.New(t)
	bot, ann := chat.AddBot("box"), chat.AddUser("ann")
	setup := func(address string) string {
		t.Helper()
		cmd := s.Command(t.Context(), "mattermost", "setup", "--url", address, "--owner", "ann", "--token-file", "-")
		all := exec.CommandContext(t.Context(), under[0], append(under[1:], cmd.Args...)...)
		all.Env, all.Stdin = cmd.Env, strings.NewReader(bot.Token)
		out, err := all.CombinedOutput()
		if (err == nil) != strings.Contains(string(out), "Written:") {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	for _, c := range []struct{ address, words string }{
		{ca.serve(chat, "localhost", time.Now().AddDate(0, 0, -1)), "not good now"},
		{ca.serve(chat, "chat.example.com", time.Now().AddDate(0, 3, 0)), "another name than localhost"},
	} {
		if out := setup(c.address); !strings.Contains(out, c.words) || !strings.Contains(out, "see runbook: mattermost-certificate") {
			t.Errorf("%s", out)
		}
	}
	if n := len(chat.Requests("", "")); n != 0 {
		t.Errorf("%d requests came through", n)
	}
	if out := setup(ca.serve(chat, "localhost", time.Now().AddDate(0, 0, 5))); !strings.Contains(out, "warn  server") || !strings.Contains(out, "its certificate ends on") {
		t.Errorf("%s", out)
	}
	s.Under = under
	s.Start()
	chat.WaitConnected(bot)
	dm := chat.Direct(bot, ann)
	chat.Post(ann, dm, "", "what time is it?")
	s.WaitUntil("an answer", func() bool {
		for _, p := range chat.Posts(dm) {
			if strings.Contains(p.Message, "The clock says") {
				return true
			}
		}
		return false
	})
}
