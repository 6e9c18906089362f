package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"boxmaker/bxctl/internal/fault"
	"boxmaker/bxctl/internal/units"
	"boxmaker/bxctl/internal/up"
	"boxmaker/internal/daemon"
)

// writeUnits is `bxctl init --systemd`.
func (a *app) writeUnits(dir string) error {
	if dir == "" {
		dir = filepath.Join(a.layout.Config, "systemd")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	path, err := self()
	if err != nil {
		return err
	}
	roles, settings, err := up.Roles(up.Options{Layout: a.layout, Self: path, Environ: a.environ(), Version: daemon.Version, Out: a.err, Now: a.env.Now})
	if err != nil {
		return err
	}
	files, err := units.Files(units.Input{Layout: a.layout, Settings: settings, Roles: roles, Root: os.Geteuid() == 0})
	if err == nil {
		err = os.MkdirAll(a.layout.Sessions, 0o700) // systemd opens a way to it only if it is there
	}
	for _, r := range roles {
		if r.Name == "gatewayd" && err == nil {
			err = os.MkdirAll(a.layout.Gateway(), 0o700)
		}
	}
	var removed []string
	if err == nil {
		removed, err = units.Write(dir, files)
	}
	if err != nil {
		return &fault.Fault{What: "the units can't be written to " + dir, Err: err, Do: "mend that, or name another folder with --out", Key: "systemd-units"}
	}
	w := a.env.Stdout
	fmt.Fprintln(w, "Units for systemd, in "+dir+":")
	for _, f := range files {
		fmt.Fprintln(w, "  "+f.Name)
	}
	for _, name := range removed {
		fmt.Fprintln(w, "  "+name+" (removed: not needed any more)")
	}
	if pid, err := up.Holder(a.layout); err == nil && pid != 0 {
		fmt.Fprintln(w, "Boxmaker runs under bxctl up; end that first: bxctl down")
	}
	fmt.Fprintln(w, "Nothing was enabled. To let systemd run Boxmaker:")
	for _, c := range units.Commands(dir, os.Geteuid() == 0) {
		fmt.Fprintln(w, "  "+c)
	}
	return nil
}
