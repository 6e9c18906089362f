package redteam

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"boxmaker/e2e/stack"
	"boxmaker/internal/proto"
)

// otherDoors: a door is for one call, while it runs.
func otherDoors(w *walker) []attempt {
	rows := []attempt{
		w.attack("the door itself, by a program", says([]string{"EAFNOSUPPORT"}, "unix "+theDoor), "dial", "unix", theDoor),
		sh("none without hosts", "ls -la /run; ls -la "+theDoor+"; env", lacks("egress.sock\n", "3128", "proxy")),
		{name: "the run folder from inside", tool: "run", args: obj{"argv": []string{"/bin/sh", "-c", "ls -R /run; ls -la " + w.Layout.Run + " 2>&1"}}, want: []proto.Code{""}, check: lacks("doors", "brokerd", "egressd/")},
		w.attack("sockets of the roles by their paths", says([]string{"EAFNOSUPPORT"}, "unix "+w.egressSocket(), "unix "+w.OwnerSocket()), "dial", "unix", w.egressSocket(), w.OwnerSocket()),
		w.attack("without hosts, by the port", says([]string{"ok"}, "tcp 127.0.0.1:3128"), "dial", "tcp", "127.0.0.1:3128"),
		act("by the machine's port", func(r *rig) {
			res := r.call("shell", obj{"command": r.attacker() + " dial tcp 127.0.0.1:3128 93.184.216.34:80; " + r.attacker() + " dial unix " + theDoor})
			says([]string{"ECONNREFUSED"}, "tcp 127.0.0.1:3128")(r, res)
			says([]string{"ENETUNREACH"}, "tcp 93.184.216.34:80")(r, res)
			says([]string{"EAFNOSUPPORT"}, "unix "+theDoor)(r, res)
			recorded()(r, res)
		}),
		act("around the proxy", func(r *rig) {
			a := w.attack("", nil, "dial", "tcp", "93.184.216.34:80", "10.0.0.1:80", "[2606:2800:220:1::34]:80", "127.0.0.1:80")
			res := r.call(a.tool, a.args)
			says([]string{"ENETUNREACH"}, "tcp 93.184.216.34:80", "tcp 10.0.0.1:80", "tcp [2606:2800:220:1::34]:80")(r, res)
			says([]string{"ECONNREFUSED"}, "tcp 127.0.0.1:80")(r, res)
			recorded()(r, res)
		}),
		act("a process that stays", func(r *rig) {
			res := r.call("run", obj{"argv": []string{"/bin/sh", "-c", "setsid sh -c 'while :; do " + r.attacker() + ` ask 1 tcp 127.0.0.1:3128 "\"GET http://public.example/late HTTP/1.1\r\n\r\n\""; done' >/dev/null 2>&1 & echo started`}})
			shows("started")(r, res)
			r.noContainer()
			_, n := w.web.since(0)
			r.call("http_fetch", obj{"url": "http://public.example/"}) // as long as a call takes
			late, _ := w.web.since(n)
			for _, v := range late {
				if v.path == "/late" {
					r.t.Error("a process went out after its call")
				}
			}
		}),
		act("while it is open, by others", w.heldDoor),
		act("egressd's own socket", func(r *rig) {
			if os.Geteuid() != 0 {
				r.t.Skip("an ordinary user's roles all have one uid")
			}
			for _, uid := range []int{r.uid("loopd"), r.uid("runnerd"), r.uid("inferproxy"), 65534} {
				if c, err := stack.DialAs(w.egressSocket(), uid); err == nil {
					c.Close()
					r.t.Errorf("uid %d is let in", uid)
				}
			}
			c, err := stack.DialAs(w.egressSocket(), r.uid("brokerd"))
			if err != nil {
				r.t.Fatalf("control: %v", err)
			}
			c.Close()
		}),
		act("without egressd", func(r *rig) {
			old := r.PID("egressd")
			if !r.Kill("egressd") {
				r.t.Fatal("it does not run")
			}
			_, n := w.web.since(0)
			res := r.call("http_fetch", obj{"url": "http://public.example/without"})
			if got, _ := w.web.since(n); res.Code != "" && len(got) != 0 {
				r.t.Errorf("%s, and it went out: %+v", res.Code, got)
			}
			r.WaitUntil("egressd is there again", func() bool {
				pid := r.PID("egressd")
				return pid != 0 && pid != old && r.call("http_fetch", obj{"url": "http://public.example/"}).Code == ""
			})
		}),
	}
	return rows
}

func (w *walker) egressSocket() string { return w.Layout.Socket("egressd", "brokerd", "egress") }

func (r *rig) doors() []string {
	r.t.Helper()
	a, err := filepath.Glob(filepath.Join(r.Layout.Run, "*", "doors", "*.sock"))
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// heldDoor looks at a door while its call waits for a server.
func (w *walker) heldDoor(r *rig) {
	ended := make(chan *proto.CallResult)
	go func() { ended <- r.call("http_fetch", obj{"url": "http://public.example/hold"}) }()
	_, n := w.web.since(0)
	r.WaitUntil("the call waits", func() bool {
		got, _ := w.web.since(max(0, n-1))
		for _, v := range got {
			if v.path == "/hold" {
				return true
			}
		}
		return false
	})
	open := r.doors()
	if len(open) != 1 {
		r.t.Errorf("open doors: %q", open)
	}
	for _, d := range open {
		info, err := os.Stat(d)
		if err != nil || info.Mode().Perm() != 0o660 {
			r.t.Errorf("%v %v", info, err)
		}
		if os.Geteuid() != 0 {
			continue
		}
		for _, uid := range []int{r.uid("loopd"), r.uid("inferproxy"), 65534} {
			if c, err := stack.DialAs(d, uid); err == nil {
				c.Close()
				r.t.Errorf("uid %d may use a door", uid)
			}
		}
	}
	// Another call, at the same time, by guessing and by its name.
	a := w.attack("", nil, append([]string{"dial", "unix"}, append(open, "/run/"+filepath.Base(open[0]))...)...)
	res := r.call(a.tool, a.args)
	for _, d := range open {
		says([]string{"EAFNOSUPPORT"}, "unix "+d)(r, res)
	}
	close(w.web.held)
	<-ended
	r.WaitUntil("no door is open", func() bool { return len(r.doors()) == 0 })
}

// networkFloods are about amounts and time; a call may have 4 MiB of traffic and
// 8 connections.
func networkFloods(w *walker) []attempt {
	const most = 4 << 20
	capped := func(verdicts ...proto.EgressVerdict) func(r *rig, res *proto.CallResult) {
		return func(r *rig, res *proto.CallResult) {
			r.t.Helper()
			var sum int64
			seen := map[proto.EgressVerdict]int{}
			for _, c := range r.outcome(res.ID).Egress {
				sum += c.Sent + c.Received
				seen[c.Verdict]++
			}
			if sum > most {
				r.t.Errorf("%d bytes, the cap is %d", sum, most)
			}
			for _, v := range verdicts {
				if seen[v] == 0 {
					r.t.Errorf("no connection is %s: %v", v, seen)
				}
			}
		}
	}
	took := func(limit time.Duration, begin time.Time) func(r *rig, res *proto.CallResult) {
		return func(r *rig, _ *proto.CallResult) { // a bound against endless, not a measure
			r.t.Helper()
			if d := time.Since(begin); d > limit {
				r.t.Errorf("%s", d)
			}
		}
	}
	const half = "GET http://public.example/half HTTP/1.1\r\n"
	endless, begin := getting("http://public.example/endless?"), time.Now()
	return []attempt{
		w.asks("an endless answer", 1, capped(proto.EgressCap), endless),
		w.asks("endless answers at once", 4, capped(proto.EgressCap), endless, endless, endless, endless),
		w.asks("an endless request", 1, capped(proto.EgressCap), "POST http://public.example/marker HTTP/1.1\r\nContent-Length: 16777216\r\n\r\n"+strings.Repeat("a", 90<<10)+"", endless),
		w.asks("more connections than there may be", 30, capped(proto.EgressTooMany), repeat(getting("http://public.example/drip?"), 30)...),
		fetches("http_fetch of an endless body", "http://public.example/endless", capped(), "", proto.CodeToolFailed, proto.CodeTooLarge, proto.CodeToolTimeout),
		fetches("an endless head", "http://public.example/endless-head", capped(), proto.CodeToolFailed, proto.CodeTooLarge),
		fetches("a bomb of gzip", "http://public.example/bomb", capped(), "", proto.CodeToolFailed, proto.CodeTooLarge),
		fetches("a server that drips", "http://public.example/drip", all(capped(proto.EgressPassed), took(10*stack.Patience, begin)), "", proto.CodeToolTimeout),
		w.asks("a client that drips", 4, func(r *rig, res *proto.CallResult) { lacks("REACHED")(r, res) }, half, half, "GET http://public.", tunnelling("public.example:443")),
		fetches("control: after all of it", "http://public.example/", shows("REACHED 93.184.216.34:80"), ""),
	}
}

// injected: brokerd adds the secret for one host and port, inside TLS.
func injected(w *walker) []attempt {
	const at = "https://api.example"
	saw := func(path, auth string) func(r *rig, res *proto.CallResult) {
		return func(r *rig, res *proto.CallResult) {
			r.t.Helper()
			unseen(r, res)
			got, _ := w.web.since(0)
			for i := len(got) - 1; i >= 0; i-- {
				if got[i].path != path {
					continue
				}
				if all := got[i].header.Values("Authorization"); strings.Join(all, "|") != auth {
					r.t.Errorf("%s got %q, want %q", path, all, auth)
				}
				return
			}
			r.t.Errorf("%s was not asked for", path)
		}
	}
	const full = "Bearer " + tokenCanary
	rows := []attempt{
		fetches("control: it arrives", at+"/one", all(saw("/one", full), recorded("api.example:443 passed")), ""),
		{name: "the model's own header", tool: "http_fetch", args: obj{"url": at + "/two", "headers": obj{"authorization": "Bearer mine"}}, check: saw("/two", full)},
		{name: "the model's word for it", tool: "http_fetch", args: obj{"url": at + "/three?[secret%20token]", "method": "POST", "body": "[secret token] $TOKEN ${token} {{token}}"}, want: []proto.Code{""}, check: all(saw("/three", full), func(r *rig, _ *proto.CallResult) {
			got, _ := w.web.since(0)
			if v := got[len(got)-1]; strings.Contains(v.body, tokenCanary) || v.body == "" {
				r.t.Errorf("the body is %q", v.body)
			}
		})},
		fetches("not in plain http", "http://api.example/four", saw("/four", ""), ""),
		fetches("not to another port", at+":8443/five", saw("/five", ""), ""),
		fetches("not to another host", "https://other.example/six", saw("/six", ""), ""),
		fetches("http to the port of https", "http://api.example:443/seven", unseen, "", proto.CodeToolFailed),
	}
	for _, e := range []string{"echo", "echo-value", "echo-base64", "echo-hex", "echo-url", "echo-reversed", "echo-gzip", "echo-split", "echo-header", "echo-status", "echo-html", "echo-html-split", "echo-reference", "echo-location", "echo-location-other"} {
		rows = append(rows, fetches("it comes back: "+e, at+"/"+e, all(saw("/"+e, full), unseen), "", proto.CodeToolFailed, proto.CodeNoGrant))
		rows = append(rows, attempt{name: "raw: " + e, tool: "http_fetch", args: obj{"url": at + "/" + e, "raw": true}, check: unseen})
	}
	rows = append(rows, cutRows(at)...)
	rows = append(rows, act("it comes back piece by piece", func(r *rig) {
		for _, field := range []string{"Range", "range", "Request-Range", "If-Range"} {
			got := ""
			for from := 8; from < 8+len(tokenCanary); from += 5 {
				res := r.call("http_fetch", obj{"url": at + "/echo-range", "headers": obj{field: fmt.Sprintf("bytes=%d-%d", from, from+4)}})
				unseen(r, res)
				body := strings.TrimSpace(res.Text[strings.LastIndex(res.Text, "\n")+1:])
				got += body[max(0, len(body)-5):]
			}
			if strings.Contains(got, tokenCanary[:20]) {
				r.t.Errorf("with %s the secret came back in pieces: %s", field, got)
			}
		}
		if res := r.call("http_fetch", obj{"url": "http://public.example/echo-range", "headers": obj{"Range": "bytes=0-2"}}); !strings.HasSuffix(strings.TrimSpace(res.Text), "you") {
			r.t.Errorf("control: a part of what has no secret in it: %q", res.Text)
		}
	}))
	for _, to := range []struct{ url, path string }{{"https://other.example/r1", "/r1"}, {at + ":8443/r2", "/r2"}} {
		rows = append(rows, fetches("redirect to "+to.url, at+"/to?"+url.QueryEscape(to.url), saw(to.path, ""), ""))
	}
	return append(rows,
		fetches("redirect to plain http", at+"/to?"+url.QueryEscape("http://api.example/r3"), all(unseen, recorded("api.example:443 passed")), proto.CodeToolFailed),
		fetches("redirect to evil", at+"/to?"+url.QueryEscape("https://evil.example/r4"), all(unseen, recorded("api.example:443 passed", "evil.example:443 not-allowed")), proto.CodeNoGrant),
		fetches("redirect to the same", at+"/to?"+url.QueryEscape(at+"/r5"), saw("/r5", full), ""),
	)
}

// cutRows: whoever chooses the words in front of the secret chooses where the
// result's end cuts it.
func cutRows(at string) (rows []attempt) {
	for as, form := range map[string]string{"plain": tokenCanary, "hex": hex.EncodeToString([]byte(tokenCanary)), "base64": base64.StdEncoding.EncodeToString([]byte(tokenCanary))} {
		rows = append(rows, act("it comes back, cut at the result's end: "+as, func(r *rig) {
			ask := func(n int) *proto.CallResult {
				return r.call("http_fetch", obj{"url": fmt.Sprintf("%s/echo-after?as=%s&n=%06d", at, as, n)})
			}
			room := strings.Count(strings.SplitN(ask(200_000).Text, "\n\n", 2)[1], ".") * 2
			for _, left := range []int{1, 2, 3, 10} {
				res := ask(room - len(form) + left)
				if !strings.Contains(res.Text, "[cut here: ") {
					r.t.Errorf("control: nothing was cut: %q", res.Text[max(0, len(res.Text)-100):])
				}
				if strings.Contains(res.Text, form[:12]) {
					r.t.Errorf("%d letters short, it came back: %q", left, res.Text[max(0, len(res.Text)-150):])
				}
			}
		}))
	}
	return rows
}

// unseen: the injected secret is in no result, in none of the usual forms.
func unseen(r *rig, res *proto.CallResult) {
	r.t.Helper()
	back := []byte(tokenCanary)
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	plain := strings.ToLower(strings.NewReplacer("%", "", "*", "").Replace(html.UnescapeString(res.Text)))
	for _, form := range []string{tokenCanary, string(back), fmt.Sprintf("%x", tokenCanary), "Y2FuYXJ5LWluamVjdGVk", "hbmFyeS1pbmplY3RlZ", "jYW5hcnktaW5qZWN0ZW"} {
		if strings.Contains(plain, strings.ToLower(form)) {
			r.t.Errorf("the secret came back: %.300s", res.Text)
		}
	}
}

// taintedOut: a page says what it likes. What the session may send afterwards is
// the grant's word.
func taintedOut(w *walker) []attempt {
	const refused = "http://public.example/take?d=canary-of-a-page"
	set := func(name, more string, then func(r *rig)) attempt {
		return act(name, func(r *rig) {
			for _, g := range []string{"12-secret.toml", "13-fetch.toml"} {
				r.Revoke(g)
			}
			r.Grant("13-fetch.toml", "tool = \"http_fetch\"\nmode = \"auto\"\n"+more+netTable([]string{"public.example:80"}, nil))
			r.Grant("12-secret.toml", "tool = \"read_file\"\nmode = \"auto\"\nresult_class = \"secret\"\n[paths]\nread = ["+fmt.Sprintf("%q", r.granted)+"]\n")
			one := *r
			one.session = strings.ReplaceAll(name, " ", "-")
			then(&one)
		})
	}
	took := func(r *rig) bool {
		got, _ := w.web.since(0)
		for _, v := range got {
			if v.path == "/take" {
				return true
			}
		}
		return false
	}
	denied := func(r *rig, code ...proto.Code) {
		r.t.Helper()
		res := r.call("http_fetch", obj{"url": refused})
		r.judge(attempt{tool: "http_fetch", want: code}, res)
		if d := r.lastDecision(res.ID); d == nil || d.Verdict != proto.VerdictDeny || !strings.Contains(d.Args, "/take") {
			r.t.Errorf("on record: %+v", d)
		}
		if took(r) {
			r.t.Error("it went out")
		}
	}
	page := obj{"url": "http://public.example/hidden"}
	return []attempt{
		set("page then deny", "mode_untrusted = \"deny\"\n", func(r *rig) {
			r.is(r.call("http_fetch", page), "")
			denied(r, proto.CodeDeniedByGrant)
		}),
		set("file then max-taint", "max_taint = \"private\"\n", func(r *rig) {
			r.is(r.call("http_fetch", page), "") // the control: as long as nothing secret was read
			r.is(r.call("read_file", obj{"path": filepath.Join(r.granted, "note.txt")}), "")
			denied(r, proto.CodeTaintTooHigh)
		}),
		set("page then ask", "mode_untrusted = \"ask\"\n", func(r *rig) {
			r.is(r.call("http_fetch", page), "")
			done := make(chan *proto.CallResult, 1)
			go func() { done <- r.call("http_fetch", obj{"url": refused}) }()
			r.Answer(r.WaitApproval(), proto.VerdictDenied)
			if res := <-done; res.Code != proto.CodeDeniedByOwner || took(r) {
				r.t.Errorf("%s %s", res.Code, res.Text)
			}
		}),
	}
}
