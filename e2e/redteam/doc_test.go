// Package redteam attacks a running Boxmaker as a model would that is wholly in
// an attacker's hands, and as a loopd would that lies about everything: real
// programs, real containers, a secret and files as canaries. Every attempt must
// have no effect outside the grants and leave the right record in the audit log.
// docs/threat-model.md lists the families; a test here compares.
//
// Where to look for a means of attack:
//
//	traversal, links, hard links, devices, Unicode, NUL  files_test.go
//	mounts, namespaces, ptrace, keyrings, setting clocks kernel_test.go
//	/proc, descriptors, secrets of other calls           processes_test.go
//	vsock, netlink, Unix sockets                         sockets_test.go
//	fork bombs, memory, disks, floods, escapes           floods_test.go, output_test.go
//	signals, processes that stay, races on mounts        leftovers_test.go, races_test.go
//	JSON, undeclared tools, ids, frames, lies of loopd   arguments_, authority_, ids_, frames_, liar_test.go
//	approvals: spoofed, replayed, late; look-alikes      approvals_, late_, lookalike_, lookalike_calls_test.go
//	patterns, odd grant files, quoting                   grantfiles_test.go, quoting_test.go
//	addresses, rebinding, redirects, CONNECT, smuggling  ssrf_test.go
//	names as data, doors, caps, injected secrets, Range  ssrf_test.go, doors_test.go
//	taint, secrets by every channel                      launder_test.go, doors_test.go, channels_test.go
//	the log: edits, cuts, forks, replay                  auditlog_test.go
//
// A clock that was set back can't be tried without setting the machine's: that is
// in brokerd/internal/approval and brokerd/internal/audit.
package redteam
