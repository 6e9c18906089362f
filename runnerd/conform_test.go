package main

import (
	"os"
	"os/exec"
	"testing"

	"boxmaker/runnerd/internal/conform"
)

func TestCrun(t *testing.T) { conform.Suite(t, "crun") }

func TestPodman(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("podman is driven by a runnerd that was started as root; see package podman")
	}
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("PODMAN IS NOT HERE: the other container runtime was NOT tested")
	}
	conform.Suite(t, "podman")
}

// TestTool runs the real toolkit where TestCrun and TestPodman run a probe.
func TestTool(t *testing.T) {
	t.Run("crun", func(t *testing.T) { conform.Tool(t, "crun") })
	t.Run("podman", func(t *testing.T) {
		if _, err := exec.LookPath("podman"); err != nil || os.Getuid() != 0 {
			t.Skip("podman is not here, or not started as root; see TestPodman")
		}
		conform.Tool(t, "podman")
	})
}
