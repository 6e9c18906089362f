package chatstory

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxmaker/e2e/stack"
)

// NoListener wants gatewayd to listen on no port: of the sockets that its network
// namespace lists as listening, or as open for datagrams, none is its.
func (p *Place) NoListener() {
	p.T.Helper()
	proc := "/proc/" + strconv.Itoa(p.PID("gatewayd"))
	mine := map[string]bool{}
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		p.T.Logf("only root can see the sockets of gatewayd: %v", err)
		return
	}
	for _, fd := range fds {
		if to, err := os.Readlink(proc + "/fd/" + fd.Name()); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	connected := false
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		b, err := os.ReadFile(proc + "/net/" + table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || !mine[f[9]] {
				continue
			}
			if f[3] == "01" && strings.HasPrefix(table, "tcp") {
				connected = true
				continue
			}
			if f[3] == "0A" || !strings.HasPrefix(table, "tcp") {
				p.T.Errorf("gatewayd can be reached: %s in %s", f[1], table)
			}
		}
	}
	if !connected {
		p.T.Error("gatewayd has no connection: this proves nothing")
	}
}

// NoToken wants the bot's token to be in no file of the home, and in no argument and
// no environment of a program; and no text of a message in gatewayd's log.
func (p *Place) NoToken() {
	p.T.Helper()
	token, files := []byte(p.Bot.Token), 0
	err := filepath.WalkDir(p.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if bytes.Contains(b, token) {
			p.T.Errorf("the token is in %s", path)
		}
		if bytes.Contains(b, []byte("answer with")) && strings.HasPrefix(path, p.Layout.Log) {
			p.T.Errorf("text of a message is in %s", path)
		}
		return nil
	})
	if err != nil {
		p.T.Error(err)
	}
	if files < 10 {
		p.T.Errorf("only %d files were looked at", files)
	}
}

// NoTokenShown wants it in no process that runs for the home.
func (p *Place) NoTokenShown() {
	p.T.Helper()
	all := stack.Processes(p.Home)
	if !slices.ContainsFunc(all, func(o stack.Process) bool { return o.Program == "gatewayd" }) {
		p.T.Error("gatewayd does not run: this proves nothing")
	}
	for _, o := range all {
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(o.PID) + "/environ")
		if strings.Contains(strings.Join(o.Args, " ")+string(env), p.Bot.Token) {
			p.T.Errorf("the token is among the arguments or in the environment of %s", o.Program)
		}
	}
}
