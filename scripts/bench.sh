#!/usr/bin/env bash
# Prints each figure beside its target. Only one's own quiet machine gives figures
# worth comparing; ratios are taken within one run.
. "$(dirname "$0")/ensure.sh"
need go
exec go test ./bench -run '^TestFigures$' -count 1 -timeout 30m -v -figures "$@"
