package up

import (
	"path/filepath"
	"time"

	"boxmaker/bxctl/internal/setup"
	"boxmaker/internal/grant"
)

// The roles that decide on tools and run them, see [setup.Tools].

// egress is the door out. It alone of the three has a network.
func (in Input) egress() Role {
	r := in.daemon(roleEgress, setup.FileEgress,
		"-listen", in.rel(roleEgress, roleBroker, "egress"), "-peer", in.peer(roleBroker), "-doors", doors(roleEgress))
	r.Sockets = []Socket{{Name: "egress", Client: roleBroker, File: "egress"}}
	r.Folders = []Folder{{Path: doors(roleEgress), Client: roleRunner}}
	return r
}

// runner starts containers. It can't be shut in by Landlock, which would forbid
// the mounts of the containers, so it holds nothing.
func (in Input) runner() Role {
	bundles := filepath.Join(roleRunner, "bundles")
	r := in.daemon(roleRunner, setup.FileRunner,
		"-listen", in.rel(roleRunner, roleBroker, "runner"), "-peer", in.peer(roleBroker),
		"-toolkit", in.beside(toolkit), "-bundles", bundles)
	r.Env = append(r.Env, pass(in.Environ, "PATH")...) // where the container runtime is found
	r.Isolate, r.Grace = true, 5*time.Second
	r.Sockets = []Socket{{Name: "runner", Client: roleBroker, File: "runner"}}
	r.Folders = []Folder{{Path: bundles}}
	return r
}

// broker is the authority.
func (in Input) broker() Role {
	l := in.Layout
	r := in.daemon(roleBroker, setup.FileBroker,
		"-grants", l.Grants, "-audit", l.Audit, "-state", l.Broker, "-secrets", l.Secrets, "-key", filepath.Join(l.Keys, setup.BrokerKey),
		"-broker", in.rel(roleBroker, roleLoopd, "broker"), "-peer-loopd", in.peer(roleLoopd),
		"-owner", in.rel(roleBroker, "bxctl", "owner"), "-peer-owner", uid(in.Owner),
		"-runner", in.rel(roleRunner, roleBroker, "runner"), "-egress", in.rel(roleEgress, roleBroker, "egress"), "-doors", doors(roleBroker))
	for _, dir := range grant.Own(l) { // those that brokerd does not know otherwise are the point
		r.Args = append(r.Args, "-own", dir)
	}
	r.Isolate, r.Grace = true, 5*time.Second
	r.Sockets = []Socket{{Name: "broker", Client: roleLoopd, File: "broker"}, {Name: "owner", Client: "bxctl", File: "owner"}}
	r.Folders = []Folder{{Path: doors(roleBroker), Client: roleRunner}}
	return r
}

func doors(role string) string { return filepath.Join(role, "doors") }
