// Package testkit holds small, real fakes for tests: programs on real sockets
// that speak the true protocol and do what the test tells them to do. Only test
// files may import it.
package testkit
