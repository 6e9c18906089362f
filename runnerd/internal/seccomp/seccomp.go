// Package seccomp holds the system-call profile of every container, as data in
// the form of the OCI runtime specification.
//
// What is not named does not exist (ENOSYS, so that libraries fall back to
// older calls); what is known and dangerous is forbidden (EPERM): namespaces,
// mounts, tracing, other processes' memory, keyrings, io_uring, bpf, handles,
// kernel modules, the clock. clone can make processes and threads and no
// namespace; clone3, whose flags a filter cannot see, is absent. No file or folder
// gets the bits by which a program has the rights of its owner or group: a granted
// folder lies outside too, where whoever executes it would have them; openat2,
// whose mode a filter cannot see, is absent. Sockets are TCP and UDP,
// NETLINK_ROUTE, and UNIX where there is a door: a server of the machine
// that has its socket in a granted folder would obey whoever connects to it, and
// neither a read-only mount nor this kernel's Landlock forbids that. With a door
// it is for the first process alone, which keeps it from the programs that it
// starts. Pairs of UNIX sockets are always there, but for those of datagrams,
// which could be connected anew to such a server. The names are those of x86_64
// and arm64; calls of another architecture end the process.
package seccomp

import (
	"bytes"
	_ "embed"

	"github.com/go-json-experiment/json/jsontext"
)

//go:embed profile.json
var profile []byte

// The rule about UNIX sockets, as it stands in the profile and as it is without
// a door (97 is EAFNOSUPPORT, after which programs do without).
const (
	withUnix    = `{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"},{"index":1,"value":15,"valueTwo":1,"op":"SCMP_CMP_MASKED_EQ"},{"index":2,"value":0,"op":"SCMP_CMP_EQ"}]}`
	withoutUnix = `{"names":["socket"],"action":"SCMP_ACT_ERRNO","errnoRet":97,"args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]}`
)

// Profile gives a copy of the profile as compact JSON. door says that there is a
// UNIX socket which the first process has to reach.
func Profile(door bool) jsontext.Value {
	v := jsontext.Value(append([]byte(nil), profile...))
	if err := v.Compact(); err != nil {
		panic("seccomp: the embedded profile is no JSON: " + err.Error()) // a test rules it out
	}
	if door {
		return v
	}
	if bytes.Count(v, []byte(withUnix)) != 1 {
		panic("seccomp: the embedded profile has no rule about UNIX sockets") // a test rules it out
	}
	return bytes.Replace(v, []byte(withUnix), []byte(withoutUnix), 1)
}
