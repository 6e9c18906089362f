package config

import (
	"os"
	"path/filepath"
)

// Layout says where Boxmaker's files live. All paths are absolute.
type Layout struct {
	Home     string // what bxctl shows as the place of the state
	Config   string // <role>.toml, one file a role
	Grants   string // *.toml, written by the owner
	Sessions string // <session>/<epoch>.jsonl
	Run      string // sockets
	Log      string // what the daemons print

	Audit     string // <year>-<month>.jsonl, written by brokerd
	Broker    string // brokerd's own state: results to be confirmed, approvals, taint
	Secrets   string // brokerd.age, encrypted
	Keys      string // keys of the stores, kept apart from them
	Anchors   string // heads of the audit log, written by bxctl: brokerd can't change them
	Workspace string // the folder that the example grants are about
}

// Locate finds the folders; it makes none. In this order:
//
//   - BOXMAKER_HOME: everything in that one folder. A relative path counts from
//     the working folder.
//   - As root: everything in /var/lib/boxmaker.
//   - Otherwise the XDG base directories. Without XDG_RUNTIME_DIR the sockets
//     lie under the data folder, which is on disk but just as private.
//
// getenv is os.Getenv, or a test's own.
func Locate(getenv func(string) string) (Layout, error) {
	return locate(getenv, os.Geteuid())
}

func locate(getenv func(string) string, euid int) (Layout, error) {
	if d := getenv("BOXMAKER_HOME"); d != "" {
		home, err := filepath.Abs(d)
		if err != nil {
			return Layout{}, &Error{What: "BOXMAKER_HOME is a relative path, and the working folder is not known", Do: "give it as an absolute path", Runbook: "home-not-known", Err: err}
		}
		return oneFolder(home), nil
	}
	if euid == 0 {
		return oneFolder("/var/lib/boxmaker"), nil
	}
	// The XDG specification says to ignore relative paths.
	base := func(name, inHome string) string {
		if d := getenv(name); filepath.IsAbs(d) {
			return d
		}
		if h := getenv("HOME"); filepath.IsAbs(h) && inHome != "" {
			return filepath.Join(h, inHome)
		}
		return ""
	}
	data, conf, state := base("XDG_DATA_HOME", ".local/share"), base("XDG_CONFIG_HOME", ".config"), base("XDG_STATE_HOME", ".local/state")
	if data == "" || conf == "" || state == "" {
		return Layout{}, &Error{What: "no home folder is known: HOME is not set", Do: "set HOME, or set BOXMAKER_HOME to the folder that shall hold everything", Runbook: "home-not-known"}
	}
	home := filepath.Join(data, "boxmaker")
	l := Layout{
		Home:     home,
		Config:   filepath.Join(conf, "boxmaker"),
		Grants:   filepath.Join(conf, "boxmaker", "grants"),
		Sessions: filepath.Join(home, "sessions"),
		Run:      filepath.Join(home, "run"),
		Log:      filepath.Join(state, "boxmaker", "log"),

		Audit:   filepath.Join(home, "audit"),
		Broker:  filepath.Join(home, "broker"),
		Secrets: filepath.Join(home, "secrets"),
		Keys:    filepath.Join(conf, "boxmaker", "keys"),
		Anchors: filepath.Join(state, "boxmaker", "anchors"),
	}
	l.Workspace = filepath.Join(home, "workspace")
	if h := getenv("HOME"); filepath.IsAbs(h) {
		l.Workspace = filepath.Join(h, "Boxmaker")
	}
	if run := base("XDG_RUNTIME_DIR", ""); run != "" {
		l.Run = filepath.Join(run, "boxmaker")
	}
	return l, nil
}

func oneFolder(home string) Layout {
	return Layout{
		Home:     home,
		Config:   filepath.Join(home, "config"),
		Grants:   filepath.Join(home, "grants"),
		Sessions: filepath.Join(home, "sessions"),
		Run:      filepath.Join(home, "run"),
		Log:      filepath.Join(home, "log"),

		Audit:     filepath.Join(home, "audit"),
		Broker:    filepath.Join(home, "broker"),
		Secrets:   filepath.Join(home, "secrets"),
		Keys:      filepath.Join(home, "keys"),
		Anchors:   filepath.Join(home, "anchors"),
		Workspace: filepath.Join(home, "workspace"),
	}
}

// Gateway is gatewayd's own state: what came and goes by the chat.
func (l Layout) Gateway() string { return filepath.Join(l.Home, "gateway") }

// Socket is where listener serves client: run/<listener>/<client>/<name>.sock.
// The folder <client> is the one that only this client may enter.
func (l Layout) Socket(listener, client, name string) string {
	return filepath.Join(l.Run, listener, client, name+".sock")
}
