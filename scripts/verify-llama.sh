#!/usr/bin/env bash
# The tests against a real llama-server. LLAMA_SERVER=path and LLAMA_MODEL=path
# use the owner's own; otherwise the server comes from Debian's packages and the
# models from tools/tinygguf; LLAMA_FLAGS adds flags of the server. Exit code 3: no server can be had here.
. "$(dirname "$0")/ensure.sh"
need go
export BOXMAKER_LLAMA=require
if [ -z "${LLAMA_SERVER:-}" ]; then
	LLAMA_SERVER=$(scripts/llama-from-debian.sh) || exit "$?"
fi
export LLAMA_SERVER
say "server: $("$LLAMA_SERVER" --version 2>&1 | sed -n 's/^version: //p')"
say "model: ${LLAMA_MODEL:-tiny random ones of tools/tinygguf}"
mkdir -p .cache
go -C tools build -o ../.cache/testlog ./testlog
CGO_ENABLED=0 go test -json -count=1 -timeout 15m ./e2e/realllama | .cache/testlog
