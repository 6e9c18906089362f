package main

import (
	"testing"

	"boxmaker/runnerd/internal/conform"
)

func TestCrun(t *testing.T) { conform.Suite(t, "crun") }

func TestPodman(t *testing.T) { conform.Suite(t, "podman") }
