#!/usr/bin/env bash
# Every test there is. A real llama-server is fetched where it can be had
# (BOXMAKER_LLAMA=skip leaves it out; so does BOXMAKER_CONTAINERS=skip for what
# runs tools), and a real Mattermost server is built where it can be
# (BOXMAKER_MATTERMOST=skip). The same variables with =require turn a real part
# that cannot run here from a loud line at the end into a failure.
. "$(dirname "$0")/ensure.sh"
need go
want gcc git tmux python3 crun
export BOXMAKER_LLAMA="${BOXMAKER_LLAMA:-}" BOXMAKER_CONTAINERS="${BOXMAKER_CONTAINERS:-}" BOXMAKER_MATTERMOST="${BOXMAKER_MATTERMOST:-}"

notes=()
for c in $MISSING; do
	notes+=("$c is not on this machine: the tests that need it were left out")
done
if [ "$BOXMAKER_LLAMA" = "" ] && [ -z "${LLAMA_SERVER:-}" ]; then
	rc=0
	LLAMA_SERVER=$(scripts/llama-from-debian.sh) || rc=$?
	if [ "$rc" = 0 ]; then
		export LLAMA_SERVER BOXMAKER_LLAMA=require
	elif [ "$rc" != 3 ]; then # 3: it cannot be had; anything else is a fault of ours
		say "llama-from-debian.sh ended with $rc"
		exit 1
	else
		unset LLAMA_SERVER
		notes+=("a real llama-server (it cannot be had here): all of e2e/realllama was left out")
	fi
fi
if [ "$BOXMAKER_MATTERMOST" = skip ]; then
	unset MATTERMOST_SERVER
	notes+=("a real MATTERMOST server (left out by BOXMAKER_MATTERMOST=skip)")
elif [ -z "${MATTERMOST_SERVER:-}" ]; then
	rc=0
	MATTERMOST_SERVER=$(scripts/mattermost-server.sh) || rc=$?
	if [ "$rc" = 0 ]; then
		export MATTERMOST_SERVER
	elif [ "$rc" != 3 ]; then
		say "mattermost-server.sh ended with $rc"
		exit 1
	elif [ "$BOXMAKER_MATTERMOST" = require ]; then
		say "BOXMAKER_MATTERMOST=require, and no Mattermost server can be had here"
		exit 1
	else
		unset MATTERMOST_SERVER
		notes+=("a real MATTERMOST server (it cannot be had here): nothing was tested against one")
	fi
fi
# Whether a container really runs here is found out by the tests, once, with a
# tool in it. What is known before is said at the end, loudly.
if ! command -v crun >/dev/null; then
	notes+=("CONTAINERS (crun, Debian package crun, is not on this machine): NO TOOL WAS RUN, and nothing of the runner, the tools and the red team was tested")
	if [ "$BOXMAKER_CONTAINERS" = require ]; then
		say "BOXMAKER_CONTAINERS=require, and crun is not on this machine"
		exit 1
	fi
elif [ "$BOXMAKER_CONTAINERS" = skip ]; then
	notes+=("CONTAINERS (left out by BOXMAKER_CONTAINERS=skip): NO TOOL WAS RUN")
fi
race=(-race)
if ! command -v gcc >/dev/null; then
	race=()
	notes+=("the race detector (it needs a C compiler): the tests ran without it")
fi

mkdir -p .cache
go -C tools build -o ../.cache/testlog ./testlog

# The whole-system tests run real programs, so the race detector sees nothing in
# them; they go last, when the rest is known to work.
mapfile -t units < <(go list ./... | grep -v -E '^boxmaker/(e2e|bench|internal/walltest)(/|$)')
mapfile -t whole < <(go list ./... | grep -E '^boxmaker/(e2e|bench|internal/walltest)(/|$)')

run() {
	rc=0
	say "go vet"
	go vet ./... || rc=1
	go -C tools vet ./... || rc=1
	say "unit, property and fuzz-seed tests ${race[*]}"
	CGO_ENABLED=$([ "${#race[@]}" -gt 0 ] && echo 1 || echo 0) \
		go test -json "${race[@]}" -timeout 10m "${units[@]}" || rc=1
	say "tests of the tools"
	go -C tools test -json ./... || rc=1
	say "walls and whole-system tests"
	[ "${#whole[@]}" = 0 ] || CGO_ENABLED=0 go test -json -count=1 -timeout 30m "${whole[@]}" || rc=1
	return "$rc"
}
rc=0
run | .cache/testlog "${notes[@]}" || rc=1
exit "$rc"
