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
