// Package realmost runs a real Mattermost server for tests: PostgreSQL and the
// server on loopback, in a temporary folder, with accounts made over REST. The
// programs are those that scripts/mattermost-server.sh prepares; MATTERMOST_SERVER
// names their folder, and without it tests are skipped, or fail where
// BOXMAKER_MATTERMOST=require.
//
// It speaks to the server as people do, with code of its own, so that a mistake in
// the bot's client does not hide here.
package realmost

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a running server with its database.
type Server struct {
	URL   string
	Admin *User

	dir, bin string
	port     int
	pgport   int
	pg, mm   *exec.Cmd
	n        int // accounts made so far
	team     string
}

// shared is the server of a test program.
type shared struct {
	once sync.Once
	s    *Server
	err  error
}

// A Pool gives all tests of a package the same server. Its owner ends it after the
// last of them, from TestMain.
type Pool struct{ one shared }

// Get gives the server, and starts it for the first who asks.
func (p *Pool) Get(t testing.TB) *Server {
	t.Helper()
	bin := os.Getenv("MATTERMOST_SERVER")
	if bin == "" {
		why := "no real Mattermost server: run `make verify-mattermost`, or set MATTERMOST_SERVER=folder"
		if os.Getenv("BOXMAKER_MATTERMOST") == "require" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	p.one.once.Do(func() { p.one.s, p.one.err = start(bin) })
	if p.one.err != nil {
		t.Fatal(p.one.err)
	}
	return p.one.s
}

// Close ends what Get started.
func (p *Pool) Close() {
	if p.one.s != nil {
		p.one.s.close()
	}
}

func start(bin string) (*Server, error) {
	dir, err := os.MkdirTemp("", "boxmaker-realmost-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin}
	for _, p := range []*int{&s.port, &s.pgport} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*p = ln.Addr().(*net.TCPAddr).Port
		_ = ln.Close()
	}
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", s.port)
	if err = s.startPostgres(); err == nil {
		err = s.Start()
	}
	if err == nil {
		err = s.people()
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.close()
		return nil, fmt.Errorf("no Mattermost server: %w\n%s", err, log[max(0, len(log)-3000):])
	}
	return s, nil
}

// command is a program that does not outlive the test program. Its words go to the log.
func (s *Server) command(cred *syscall.Credential, name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the command has its own
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = s.dir, log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: cred, Setpgid: true}
	if cred != nil {
		c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	}
	return c, c.Start()
}

// startPostgres starts the database, which refuses to be root.
func (s *Server) startPostgres() error {
	data := filepath.Join(s.dir, "pg")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	var cred *syscall.Credential
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			if u, err = user.Lookup("nobody"); err != nil {
				return err
			}
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(data, uid, gid); err != nil {
			return err
		}
		if err := os.Chmod(s.dir, 0o711); err != nil {
			return err
		}
	}
	tools := filepath.Join(s.bin, "postgres")
	made, err := s.command(cred, filepath.Join(tools, "initdb"), "-D", data, "-U", "mmuser", "--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	if err := made.Wait(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	s.pg, err = s.command(cred, filepath.Join(tools, "postgres"), "-D", data, "-p", strconv.Itoa(s.pgport),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=60")
	if err != nil {
		return err
	}
	return s.wait("PostgreSQL", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.pgport))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// env is how the server is set up: nothing leaves the machine.
func (s *Server) env() []string {
	set := map[string]string{
		"SQLSETTINGS_DRIVERNAME":                   "postgres",
		"SQLSETTINGS_DATASOURCE":                   fmt.Sprintf("postgres://mmuser@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=10&binary_parameters=yes", s.pgport),
		"SQLSETTINGS_MAXOPENCONNS":                 "20",
		"SERVICESETTINGS_SITEURL":                  s.URL,
		"SERVICESETTINGS_LISTENADDRESS":            fmt.Sprintf("127.0.0.1:%d", s.port),
		"SERVICESETTINGS_ENABLEBOTACCOUNTCREATION": "true", "SERVICESETTINGS_ENABLEUSERACCESSTOKENS": "true",
		"SERVICESETTINGS_ENABLESECURITYFIXALERT": "false", "SERVICESETTINGS_ENABLELINKPREVIEWS": "false",
		"SERVICESETTINGS_ENABLEPOSTUSERNAMEOVERRIDE": "true", "SERVICESETTINGS_ENABLEINCOMINGWEBHOOKS": "true",
		"LOGSETTINGS_ENABLEDIAGNOSTICS": "false", "LOGSETTINGS_ENABLESENTRY": "false", "LOGSETTINGS_ENABLEFILE": "false",
		"LOGSETTINGS_CONSOLEJSON":                  "true",
		"ANNOUNCEMENTSETTINGS_ADMINNOTICESENABLED": "false", "ANNOUNCEMENTSETTINGS_USERNOTICESENABLED": "false",
		"PLUGINSETTINGS_ENABLE": "false", "PLUGINSETTINGS_ENABLEMARKETPLACE": "false", "PLUGINSETTINGS_ENABLEREMOTEMARKETPLACE": "false",
		"EMAILSETTINGS_SENDEMAILNOTIFICATIONS": "false", "EMAILSETTINGS_SENDPUSHNOTIFICATIONS": "false",
		"TEAMSETTINGS_ENABLEOPENSERVER": "true", "TEAMSETTINGS_MAXUSERSPERTEAM": "1000",
		"FILESETTINGS_DIRECTORY": filepath.Join(s.dir, "data"),
	}
	env := []string{"PATH=/usr/bin:/bin", "HOME=" + s.dir, "MM_CONFIG=" + filepath.Join(s.dir, "config.json")}
	for k, v := range set {
		env = append(env, "MM_"+k+"="+v)
	}
	return env
}

// Start starts the server, also again after Stop.
func (s *Server) Start() error {
	for _, d := range []string{"i18n", "templates", "fonts"} {
		if err := os.Symlink(filepath.Join(s.bin, d), filepath.Join(s.dir, d)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "data"), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	c := exec.Command(filepath.Join(s.bin, "mattermost"), "server")
	c.Dir, c.Env, c.Stdout, c.Stderr = s.dir, s.env(), log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := c.Start(); err != nil {
		return err
	}
	s.mm = c
	return s.wait("the server", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v4/system/ping", nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// Stop ends the server, politely or by kill -9. The database goes on.
func (s *Server) Stop(sig syscall.Signal) {
	_ = s.mm.Process.Signal(sig) // one that has ended cannot be signalled
	_ = s.mm.Wait()
}

// Log gives what the programs printed.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(b)
}

func (s *Server) wait(what string, ready func() bool) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ready() {
			return nil
		}
		for _, c := range []*exec.Cmd{s.pg, s.mm} {
			if c != nil && syscall.Kill(c.Process.Pid, 0) != nil {
				return fmt.Errorf("%s ended", filepath.Base(c.Path))
			}
		}
	}
	return fmt.Errorf("%s does not come up", what)
}

func (s *Server) close() {
	for _, c := range []*exec.Cmd{s.mm, s.pg} {
		if c == nil {
			continue
		}
		_ = c.Process.Signal(syscall.SIGQUIT) // for PostgreSQL the quick end
		if strings.HasSuffix(c.Path, "mattermost") {
			_ = c.Process.Kill()
		}
		_ = c.Wait()
	}
	_ = os.RemoveAll(s.dir)
}
