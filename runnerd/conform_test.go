package main

import (
	"os/exec"
	"testing"

	"boxmaker/runnerd/internal/conform"
)

func TestCrun(t *testing.T) { conform.Suite(t, "crun") }

func TestPodman(t *testing.T) {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("PODMAN IS NOT HERE: the other container runtime was NOT tested")
	}
	conform.Suite(t, "podman")
}

// TestTool runs the real toolkit where TestCrun and TestPodman run a probe.
func TestTool(t *testing.T) {
	t.Run("crun", func(t *testing.T) { conform.Tool(t, "crun") })
	t.Run("podman", func(t *testing.T) {
		if _, err := exec.LookPath("podman"); err != nil {
			t.Skip("podman is not here; see TestPodman")
		}
		conform.Tool(t, "podman")
	})
}
