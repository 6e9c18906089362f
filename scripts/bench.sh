#!/usr/bin/env bash
# Prints each figure beside its target. Only one's own quiet machine gives figures
# worth comparing; ratios are taken within one run.
. "$(dirname "$0")/ensure.sh"
need go
if [ -z "${MATTERMOST_SERVER:-}" ] && [ -d .cache/mattermost ]; then # built already: figures of a real one, too
	MATTERMOST_SERVER=$(scripts/mattermost-server.sh) && export MATTERMOST_SERVER
fi
exec go test ./bench -run '^TestFigures$' -count 1 -timeout 30m -v -figures "$@"
