#!/usr/bin/env bash
# From a fresh clone to a conversation. Only the answer goes to standard output.
. "$(dirname "$0")/ensure.sh"
scripts/build.sh >&2
bxctl=bin/bxctl
"$bxctl" init >&2 # chooses the practice model the first time, and changes nothing later
"$bxctl" up --detach >&2
exec "$bxctl" chat
