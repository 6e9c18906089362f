#!/usr/bin/env bash
# All that a change must pass before it is handed in.
. "$(dirname "$0")/ensure.sh"
need go
tool() { go tool -modfile=tools/go.mod "$@"; }

say "gofumpt"
unformatted=$(tool gofumpt -l .)
if [ -n "$unformatted" ]; then
	say "not formatted (gofumpt -w): $unformatted"
	exit 1
fi
say "staticcheck"
tool staticcheck ./...
(cd tools && go tool staticcheck ./...)
say "deadcode"
# Code that neither a program nor a test reaches. It has no exit code of its own.
dead=$(tool deadcode -test ./...)
if [ -n "$dead" ]; then
	printf '%s\n' "$dead" >&2
	exit 1
fi
scripts/audit.sh --lenient
exec scripts/test.sh
