#!/usr/bin/env bash
# The tests against a real Mattermost server, which is built first
# (scripts/mattermost-server.sh): of the client alone, and of the whole story with
# all programs. BOXMAKER_KILLS=50 has more of them killed. Exit code 3: no server can
# be had here.
. "$(dirname "$0")/ensure.sh"
need go
want crun
export BOXMAKER_MATTERMOST=require
if [ -z "${MATTERMOST_SERVER:-}" ]; then
	MATTERMOST_SERVER=$(scripts/mattermost-server.sh) || exit "$?"
fi
export MATTERMOST_SERVER
mkdir -p .cache
go -C tools build -o ../.cache/testlog ./testlog
CGO_ENABLED=0 go test -json -count=1 -timeout 40m ./gatewayd/internal/mattermost ./gatewayd/internal/probe ./e2e/realmost | .cache/testlog
