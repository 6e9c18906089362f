// Package e2e tests the whole system with the real programs: command lines as
// text in testdata/script, and Go tests that kill, cut and read what the
// programs do and leave behind.
package e2e

import (
	"os"
	"testing"

	"boxmaker/e2e/stack"
)

func TestMain(m *testing.M) { os.Exit(stack.Main(m)) }
