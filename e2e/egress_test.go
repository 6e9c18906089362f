package e2e

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// TestDoorOut is the whole way of a call that leaves the machine's programs, with
// each of them real and as its own user: container, door, egressd, server, and the
// rows in the audit log. The server is on loopback, and granted as local.
func TestDoorOut(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			fmt.Fprintf(w, "<!doctype html><title>A page</title><p>Host is %s.</p><p hidden>unseen</p>", r.Host)
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		}
	})
	plain, secure := httptest.NewServer(page), httptest.NewUnstartedServer(page)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	host, tlsHost := strings.TrimPrefix(plain.URL, "http://"), strings.TrimPrefix(secure.URL, "https://")
	w := newWorker(t, func(s *stack.Stack) {
		s.OnlyGrants()
		s.Must("canary-8be1\n", "secret", "set", "token")
		s.Grant("20-inject.toml", fmt.Sprintf(
			"tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [%q]\nlocal = [%q]\n[[secrets.inject]]\nname = \"token\"\nhost = %q\nheader = \"Authorization\"\nprefix = \"Bearer \"\n",
			tlsHost, tlsHost, tlsHost))
		s.Grant("30-fetch.toml", fmt.Sprintf("tool = \"http_fetch\"\nmode = \"auto\"\n[net]\nhosts = [%q, \"localhost:80\"]\nlocal = [%q]\n", host, host))
		s.Grant("40-run.toml", fmt.Sprintf("tool = \"run\"\nmode = \"auto\"\n[net]\nhosts = [%q]\nlocal = [%q]\n", host, host))
	})
	fetch := func(url string) string { return call("http_fetch", map[string]any{"url": url}) }
	rows := func(want ...string) {
		t.Helper()
		var got []string
		for _, c := range last[*proto.AuditOutcome](w).Egress {
			got = append(got, c.Host+" "+string(c.Verdict))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("connections on record: %q, want %q", got, want)
		}
	}

	w.do(fetch(plain.URL+"/page"), proto.CallOK, "", "# A page\n\nHost is "+host+".\n")
	rows(host + " passed")
	w.do(fetch(plain.URL+"/away"), proto.CallFailed, proto.CodeNoGrant, "no-grant: 169.254.169.254:80 is not in the grant's hosts.")
	rows(host+" passed", "169.254.169.254:80 not-allowed")
	w.do(fetch("http://localhost/"), proto.CallFailed, proto.CodeNoGrant, "no-grant: localhost:80 leads to a private address")
	rows("localhost:80 private")
	w.do(fetch("http://evil.example/"), proto.CallDenied, proto.CodeNoGrant, "")

	// With a secret: brokerd makes the TLS connection, and does not trust this server.
	w.do(fetch(secure.URL+"/page"), proto.CallFailed, proto.CodeToolFailed, "no TLS connection with "+tlsHost)
	rows(tlsHost + " passed")

	// A program goes the same way, by its proxy settings.
	if curl, err := exec.LookPath("curl"); err == nil {
		w.do(call("run", map[string]any{"argv": []string{curl, "-s", plain.URL + "/page"}}), proto.CallOK, "", "Host is "+host)
		rows(host + " passed")
		w.do(call("run", map[string]any{"argv": []string{curl, "-sS", "--noproxy", "*", plain.URL + "/page"}}), proto.CallOK, "", "Failed to connect")
	}
	if s := w.Must("", "audit", "verify"); strings.Contains(s, "canary-8be1") {
		t.Error("a secret in the audit log")
	}
}
