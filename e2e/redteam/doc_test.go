// Package redteam attacks a running Boxmaker as a model would that is wholly in
// an attacker's hands, and as a loopd would that lies about everything: real
// programs, real containers, a secret and files as canaries. Every attempt must
// have no effect outside the grants and leave the right record in the audit log.
// docs/threat-model.md lists the families; a test here compares.
package redteam
