#!/usr/bin/env bash
# From a fresh clone to a conversation. Only the answer goes to standard output.
. "$(dirname "$0")/ensure.sh"
scripts/build.sh >&2
want crun
case " $MISSING " in *" crun "*)
	say "crun is not on this machine and cannot be installed here: you can talk, and every tool is refused"
	say "until it is there (Debian package crun; see runbook: crun-missing)"
	;;
esac
bxctl=bin/bxctl
"$bxctl" init >&2 # chooses the practice model the first time, and changes nothing later
"$bxctl" up --detach >&2
exec "$bxctl" chat
