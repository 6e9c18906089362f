package redteam

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// streetFamilies are the names; attackOnStreet has what they do.
func streetFamilies() (all []family) {
	for _, f := range onTheStreet() {
		all = append(all, apartOnStreet(f.name))
	}
	return all
}

type streetFamily struct {
	name  string
	tries func(r *walker) []attempt
}

func onTheStreet() []streetFamily {
	return []streetFamily{
		{"private addresses and forms of addresses", forgedRequests},
		{"rebinding and redirects", redirects},
		{"smuggled requests and proxy fields", smuggling},
		{"data in names", namesAsData},
		{"doors of other calls", otherDoors},
		{"floods and slowness over the network", networkFloods},
		{"injected secrets", injected},
		{"strange answers of servers", strangeAnswers},
		{"taint and the way out", taintedOut},
	}
}

// tokenCanary is what api.example:443 is sent, and nobody else.
const tokenCanary = "canary-injected-77d1c2b04e"

// publicHosts is what programs may reach on the street.
var publicHosts = []string{ //nolint:gochecknoglobals // a table
	"public.example:80", "public.example:443", "public6.example:80", "*.wild.example:80", "mixed.example:80", "mixed6.example:80", "intranet.example:80",
	"nas.example:80", "nasmeta.example:80", "naszero.example:80", "gone.example:80", "*.odd.example:80", "*.nip.example:80", "rebind.example:80", "rebind2.example:80", "93.184.216.34:80", "other.example:443",
	"10.0.0.1:80", "127.0.0.1:80", "169.254.169.254:80", "[::1]:80", "192.168.0.2:80",
}

var localHosts = []string{"nas.example:80", "nasmeta.example:80", "naszero.example:80", "192.168.0.2:80"} //nolint:gochecknoglobals // a table

// A walker is a rig on the street.
type walker struct {
	*rig
	web *web
}

func attackOnStreet(t *testing.T) {
	attackerBuilt.once.Do(func() {
		attackerBuilt.text, attackerBuilt.err = os.ReadFile(filepath.Join(os.Getenv(streetKeys), "attacker"))
	})
	w := &walker{web: openWeb(t)}
	w.rig = begin(t, func(r *rig) {
		r.arm()
		r.Must(tokenCanary+"\n", "secret", "set", "token")
		r.Set("egressd.toml", "", "resolver", w.web.names.Addr)
		r.Set("egressd.toml", "limits", "connections", 8)
		r.Set("brokerd.toml", "limits", "egress", "4MiB")
		net := netTable(publicHosts, localHosts)
		r.grant("10-run", fmt.Sprintf("tool = \"run\"\nmode = \"auto\"\n[paths]\nwrite = [%q]\n%s[limits]\ntime = \"20s\"\n", r.granted, net))
		r.grant("11-shell", shellGrant(r.granted))
		r.grant("12-secret", "tool = \"http_fetch\"\nmode = \"auto\"\n"+netTable([]string{"api.example:443", "api.example:80", "api.example:8443", "other.example:443"}, nil)+
			"[limits]\ntime = \"10s\"\n[[secrets.inject]]\nname = \"token\"\nhost = \"api.example:443\"\nheader = \"Authorization\"\nprefix = \"Bearer \"\n")
		r.grant("13-fetch", "tool = \"http_fetch\"\nmode = \"auto\"\n"+net+"[limits]\ntime = \"3s\"\n")
	})
	for _, f := range onTheStreet() {
		t.Run(f.name, func(t *testing.T) {
			sub := *w
			inner := *w.rig
			inner.t, sub.rig = t, &inner
			for _, a := range f.tries(&sub) {
				t.Run(a.name, func(t *testing.T) {
					one := inner
					one.t = t
					one.try(a)
				})
			}
			sub.streetHolds()
		})
	}
	w.settled()
}

func netTable(hosts, local []string) string {
	h, _ := json.Marshal(hosts)
	l, _ := json.Marshal(local)
	if local == nil {
		l = []byte("[]")
	}
	return fmt.Sprintf("[net]\nhosts = %s\nlocal = %s\n", h, l)
}

// streetHolds is what must be true after each family, of all before as well.
func (w *walker) streetHolds() {
	w.t.Helper()
	w.web.mu.Lock()
	defer w.web.mu.Unlock()
	may := []string{"93.184.216.34:80", "93.184.216.34:443", "[2606:2800:220:1::34]:80", "93.184.216.36:443", "93.184.216.36:80", "93.184.216.36:8443", "192.168.0.1:80", "192.168.0.2:80"}
	for at, n := range w.web.came {
		if !slices.Contains(may, at) {
			w.t.Errorf("%s was reached %d times", at, n)
		}
	}
	for _, v := range w.web.got {
		if strings.Contains(v.auth, tokenCanary) && v.at != "93.184.216.36:443" {
			w.t.Errorf("the secret went to %s", v.at)
		}
		if strings.Contains(v.path, "smuggled") {
			w.t.Errorf("a smuggled request arrived: %+v", v)
		}
	}
	for _, name := range w.web.names.Asked() {
		if strings.Contains(name, "evil") || strings.Contains(name, "canary") || !strings.HasSuffix(name, ".example") {
			w.t.Errorf("the name server was asked for %q", name)
		}
	}
	for _, o := range stack.AuditOf[*proto.AuditOutcome](w.Audit()) {
		for _, c := range o.Egress {
			if strings.Contains(c.Host, "marker") || strings.ContainsAny(c.Host, "/ \r\n") {
				w.t.Errorf("%s: content is on record: %q", o.ID, c.Host)
			}
		}
	}
	_ = filepath.WalkDir(w.Home, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), tokenCanary) {
				w.t.Errorf("the injected secret is in %s", path)
			}
		}
		return nil
	})
}

// outcome is the record of how a call ended.
func (r *rig) outcome(id string) *proto.AuditOutcome {
	r.t.Helper()
	for _, o := range stack.AuditOf[*proto.AuditOutcome](r.Audit()) {
		if o.ID == id {
			return o
		}
	}
	r.t.Errorf("%s: no outcome on record", id)
	return &proto.AuditOutcome{}
}

// recorded compares what is on record of a call's connections.
func recorded(want ...string) func(r *rig, res *proto.CallResult) {
	return func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		var got []string
		for _, c := range r.outcome(res.ID).Egress {
			got = append(got, c.Host+" "+string(c.Verdict))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			r.t.Errorf("on record: %q, want %q; the model reads %.300q", got, want, res.Text)
		}
	}
}

// theDoor is for the first process alone; programs have its port.
const (
	theDoor = "/run/egress.sock"
	thePort = "127.0.0.1:3128"
)

// asks sends raw texts to the port of a program, n at once.
func (w *walker) asks(name string, n int, check func(r *rig, res *proto.CallResult), texts ...string) attempt {
	return w.asksAt(name, n, "tcp", thePort, check, texts...)
}

func (w *walker) asksAt(name string, n int, network, to string, check func(r *rig, res *proto.CallResult), texts ...string) attempt {
	args := []string{"ask", strconv.Itoa(n), network, to}
	for _, t := range texts {
		args = append(args, strconv.QuoteToASCII(t))
	}
	return w.attack(name, check, args...)
}

// raw is one request with one row on record: its verdict, and the address that
// was reached, if it passed.
func (w *walker) raw(name, text string, verdict proto.EgressVerdict, reached string) attempt {
	return w.asks(name, 1, func(r *rig, res *proto.CallResult) {
		r.t.Helper()
		rows := r.outcome(res.ID).Egress
		if len(rows) != 1 || rows[0].Verdict != verdict || rows[0].Address != reached {
			r.t.Errorf("on record %+v, want one row: %s %s; %.300s", rows, verdict, reached, res.Text)
		}
		if reached != "" && !strings.Contains(res.Text, "REACHED "+reached) && !strings.Contains(res.Text, "200 ") {
			r.t.Errorf("not reached: %.300s", res.Text)
		}
		if reached == "" && (strings.Contains(res.Text, "REACHED") || !strings.Contains(res.Text, "X-Boxmaker-Egress: "+string(verdict))) {
			r.t.Errorf("the answer: %.300s", res.Text)
		}
	}, text)
}

func getting(url string) string {
	return "GET " + url + "marker HTTP/1.1\r\nHost: public.example\r\n\r\n"
}

func tunnelling(target string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: public.example:443\r\n\r\n"
}

// fetches is http_fetch of a URL.
func fetches(name, url string, check func(r *rig, res *proto.CallResult), want ...proto.Code) attempt {
	return attempt{name: name, tool: "http_fetch", args: obj{"url": url}, want: want, check: check}
}
