#!/usr/bin/env bash
# Manual pages into bin/man/, from the texts that bxctl --help shows.
. "$(dirname "$0")/ensure.sh"
scripts/build.sh
rm -rf bin/man
bin/bxctl --home "$PWD/bin/none" man bin/man
say "read them with: MANPATH=$PWD/bin/man: man bxctl"
