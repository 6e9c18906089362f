#!/usr/bin/env bash
# Builds the programs into bin/. What is up to date is the go command's to know.
. "$(dirname "$0")/ensure.sh"
need go
version=$(git describe --always --dirty 2>/dev/null || true)
mkdir -p bin
CGO_ENABLED=0 go build -trimpath \
	-ldflags "-s -w -X boxmaker/internal/daemon.Version=${version:-dev}" \
	-o bin/ ./bxctl ./loopd ./inferproxy ./practice ./brokerd ./runnerd ./egressd ./gatewayd ./toolkit ./toolfetch
