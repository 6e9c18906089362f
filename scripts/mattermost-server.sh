#!/usr/bin/env bash
# Builds a real Mattermost server for the tests, of the one version that
# tools/mattermost pins, finds PostgreSQL, and prints the folder with the server.
#
#   server=$(scripts/mattermost-server.sh)
#
# The server comes as Go modules, checked against go.sum: about 1.5 GB of module
# cache and five minutes the first time, nothing after that. It is kept in
# .cache/mattermost (BOXMAKER_MATTERMOST_CACHE names another folder). PostgreSQL is
# this machine's; where packages may be installed it is, and its service that comes
# with the package is switched off again. Neither is ever linked into Boxmaker.
#
# Exit code 3: it cannot be had here.
. "$(dirname "$0")/ensure.sh"
need go
CACHE=${BOXMAKER_MATTERMOST_CACHE:-$PWD/.cache/mattermost}

unavailable() {
	say "****************************************************************"
	say "NO Mattermost server: $1"
	say "Nothing was tested against a real one. What helps: a module proxy"
	say "that go can reach, 3 GB of disk, and PostgreSQL (Debian package"
	say "postgresql). (see runbook: no-mattermost-server)"
	say "****************************************************************"
	exit 3
}

postgres() {
	local d
	for d in "$(command -v initdb >/dev/null && dirname "$(readlink -f "$(command -v initdb)")")" /usr/lib/postgresql/*/bin; do
		if [ -x "$d/initdb" ] && [ -x "$d/postgres" ]; then
			echo "$d"
			return
		fi
	done
	return 1
}

if ! postgres >/dev/null && may_install; then
	apt_install postgresql >&2 || say "could not install postgresql"
	if [ -d /run/systemd/system ]; then # its service is not what we came for
		as_root systemctl disable --now postgresql >&2 || say "the service postgresql that was just installed could not be stopped"
	fi
fi
PG=$(postgres) || unavailable "PostgreSQL is not on this machine, and cannot be installed"

mkdir -p "$CACHE" || unavailable "the folder $CACHE cannot be made"
KEY=$(cat tools/mattermost/go.mod tools/mattermost/go.sum <(go env GOVERSION GOARCH) | sha256sum | cut -c1-16)
DIR=$CACHE/$KEY
exec 9>"$CACHE/lock"
flock 9 # one build at a time; the second caller finds it done
if [ ! -x "$DIR/mattermost" ]; then
	say "getting the modules of the Mattermost server (once, about 1.5 GB)"
	module=$(go -C tools/mattermost list -mod=readonly -m -f '{{.Dir}}' github.com/mattermost/mattermost/server/v8 2>/dev/null) || module=
	if [ -z "$module" ]; then
		go -C tools/mattermost mod download github.com/mattermost/mattermost/server/v8 >&2 ||
			unavailable "its modules cannot be fetched"
		module=$(go -C tools/mattermost list -mod=readonly -m -f '{{.Dir}}' github.com/mattermost/mattermost/server/v8)
	fi
	# only what the build needs is fetched; that it is all there is known before it begins
	go -C tools/mattermost list -mod=readonly -deps -f '{{.ImportPath}}' github.com/mattermost/mattermost/server/v8/cmd/mattermost >/dev/null ||
		unavailable "its modules cannot be fetched"
	say "building the Mattermost server (about five minutes)"
	rm -rf "$CACHE"/new "$CACHE"/????????????????
	mkdir -p "$CACHE/new"
	nice -n 10 env CGO_ENABLED=0 go -C tools/mattermost build -mod=readonly -trimpath -ldflags='-s -w' -o "$CACHE/new/mattermost" \
		github.com/mattermost/mattermost/server/v8/cmd/mattermost || unavailable "it does not build here"
	for d in i18n templates fonts; do
		cp -r "$module/$d" "$CACHE/new/"
	done
	chmod -R u+w "$CACHE/new"
	mv "$CACHE/new" "$DIR"
fi
ln -sfn "$PG" "$DIR/postgres"
say "Mattermost server: $DIR, PostgreSQL: $PG"
echo "$DIR"
