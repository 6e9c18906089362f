package up

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/config"
)

// hasGateway reports whether the owner has set a chat up: by its file alone.
func hasGateway(l config.Layout) bool {
	_, err := os.Lstat(filepath.Join(l.Config, setup.FileGateway))
	return !errors.Is(err, fs.ErrNotExist)
}

// gateway is the owner's chat. It has a network, which is all of its purpose, and
// nobody but brokerd speaks to it, and bxctl, which may ask how it is; loopd it asks itself.
func (in Input) gateway() Role {
	l := in.Layout
	r := in.daemon(roleGateway, setup.FileGateway,
		"-state", l.Gateway(), "-secrets", l.Secrets, "-key", filepath.Join(l.Keys, setup.GatewayKey),
		"-loop", in.rel(roleLoopd, roleGateway, "loop"),
		"-listen", in.rel(roleGateway, roleBroker, "gateway"), "-peer", in.peer(roleBroker),
		"-listen-status", in.rel(roleGateway, "bxctl", "status"), "-peer-status", uid(in.Owner))
	if in.Root { // whose the files are in the folder of secrets; gatewayd reads its token there before it drops root
		r.Args = append(r.Args, "-secrets-owner", in.peer(roleBroker))
	}
	r.Sockets = []Socket{{Name: "gateway", Client: roleBroker, File: "gateway"}, {Name: "status", Client: "bxctl", File: "status"}}
	r.Grace = 5 * time.Second
	return r
}

// join tells the roles that gatewayd works with where it is.
func (in Input) join(roles []Role) []Role {
	for i := range roles {
		r := &roles[i]
		switch r.Name {
		case roleBroker:
			r.Args = append(r.Args, "-gateway", in.rel(roleGateway, roleBroker, "gateway"))
		case roleLoopd:
			r.Args = append(r.Args, "-listen-gateway", in.rel(roleLoopd, roleGateway, "loop"))
			if in.Root {
				r.Args = append(r.Args, "-peer", in.peer(roleGateway))
			}
			r.Sockets = append(r.Sockets, Socket{Name: "gateway", Client: roleGateway, File: "loop"})
		}
	}
	return append(roles, in.gateway())
}

// RoleEnv is the environment that a role gets of one.
func RoleEnv(l config.Layout, environ []string) []string {
	return Input{Layout: l, Environ: environ}.env()
}
