// Package seccomp holds the system-call profile of every container, as data in
// the form of the OCI runtime specification.
//
// What is not named does not exist (ENOSYS, so that libraries fall back to
// older calls); what is known and dangerous is forbidden (EPERM): namespaces,
// mounts, tracing, other processes' memory, keyrings, io_uring, bpf, handles,
// kernel modules, the clock. clone can make processes and threads and no
// namespace; clone3, whose flags a filter cannot see, is absent. Sockets are of
// the families UNIX, INET, INET6 and NETLINK_ROUTE. The names are those of
// x86_64 and arm64; calls of another architecture end the process.
package seccomp

import (
	_ "embed"

	"github.com/go-json-experiment/json/jsontext"
)

//go:embed profile.json
var profile []byte

// Profile gives a copy of the profile as compact JSON.
func Profile() jsontext.Value {
	v := jsontext.Value(append([]byte(nil), profile...))
	if err := v.Compact(); err != nil {
		panic("seccomp: the embedded profile is no JSON: " + err.Error()) // a test rules it out
	}
	return v
}
