#!/usr/bin/env bash
# Gets llama-server out of Debian's packages, without installing anything and
# without touching this machine's package sources, and prints the path of a
# command that runs it.
#
#   server=$(scripts/llama-from-debian.sh)
#
# The packages come from the Debian mirror that this machine uses already, from
# the suites in BOXMAKER_LLAMA_SUITES (default "forky sid"; the first that has
# them wins), checked by apt against Debian's keys. About 12 MB are fetched once
# and unpacked to 84 MB in BOXMAKER_LLAMA_CACHE (default: boxmaker/llama in the
# user's cache folder); after that no network is used. To get a newer version,
# remove that folder. BOXMAKER_DEBIAN_MIRROR names a mirror on a machine whose
# own sources have none.
#
# It needs no root. Exit code 3: the packages cannot be had here.
set -euo pipefail
export LC_ALL=C

CACHE=${BOXMAKER_LLAMA_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/boxmaker/llama}
SUITES=${BOXMAKER_LLAMA_SUITES:-forky sid}

say() { printf 'llama-from-debian: %s\n' "$*" >&2; }

unavailable() {
	say "****************************************************************"
	say "NO llama-server: $1"
	say "Nothing was tested against a real server. What helps: a machine"
	say "with apt and a reachable Debian mirror, BOXMAKER_DEBIAN_MIRROR=URL,"
	say "or LLAMA_SERVER=/path/to/your/own/llama-server."
	say "(see runbook: no-llama-server)"
	say "****************************************************************"
	exit 3
}

# ready tells whether the server in folder $1 runs, and which it is.
ready() {
	[ -x "$1/llama-server" ] || return 1
	local version
	version=$("$1/llama-server" --version 2>&1 | sed -n 's/^version: //p') && [ -n "$version" ] || return 1
	say "llama-server $version, package $(cat "$1/package" 2>/dev/null || echo unknown)"
}

# mirrors lists the archives of Debian that this machine's sources name, in
# whichever format they are. Without downloaded lists apt knows no origins; then
# every source is tried.
mirrors() {
	if [ -n "${BOXMAKER_DEBIAN_MIRROR:-}" ]; then
		echo "$BOXMAKER_DEBIAN_MIRROR"
		return
	fi
	local all
	all=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' 2>/dev/null |
		sed -n 's/^Debian|//p')
	[ -n "$all" ] || all=$(apt-get update --print-uris 2>/dev/null | sed -n "s#^'\(.*\)/dists/.*#\1#p" | grep -v security)
	echo "$all" | sed 's#/*$##' | sort -u
}

# with_apt DIR COMMAND... runs an apt program on DIR's own lists and sources.
with_apt() {
	local apt=$1/apt
	shift
	APT_CONFIG=$apt/apt.conf "$@"
}

# prepare DIR MIRROR SUITE makes an apt world of its own in DIR/apt.
prepare() {
	local apt=$1/apt key signed=
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/debs"
	: >"$apt/status"
	for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[ ! -r "$key" ] || signed="[signed-by=$key] "
	done
	echo "deb $signed$2 $3 main" >"$apt/sources.list"
	cat >"$apt/apt.conf" <<-CONF
		Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "/dev/null";
		Dir::State::Lists "$apt/lists"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
		APT::Sandbox::User "root"; APT::Update::Error-Mode "any"; Acquire::Retries "2";
		Acquire::http::Timeout "20"; Acquire::https::Timeout "20"; Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
	CONF
}

# closure DIR prints the package of the server and the libraries that it needs.
# Only names of libraries are followed: the rest of a Debian system is not wanted.
closure() {
	local all=llama.cpp-tools next=llama.cpp-tools
	while [ -n "$next" ]; do
		next=$(with_apt "$1" apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $next |
			sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}Depends: \(\(lib\|zlib\)[a-z0-9+.-]*\)$/\2/p' | sort -u | grep -vxF "$all" || true)
		all=$(printf '%s\n%s' "$all" "$next" | sed '/^$/d')
	done
	echo "$all"
}

# fetch DIR MIRROR SUITE fills DIR with the unpacked server.
fetch() {
	local dir=$1 libs so
	prepare "$@"
	with_apt "$dir" apt-get -qq update >&2 || return 1
	with_apt "$dir" apt-cache show llama.cpp-tools >/dev/null 2>&1 || return 1
	# word splitting is meant: one name a line
	(cd "$dir/apt/debs" && with_apt "$dir" apt-get -qq download $(closure "$dir")) >&2 || return 1
	mkdir -p "$dir/root"
	for deb in "$dir"/apt/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root" || return 1; done
	basename "$dir"/apt/debs/llama.cpp-tools_*.deb >"$dir/package"
	rm -rf "$dir/apt"
	ln -sfn usr/lib "$dir/root/lib"
	[ ! -d "$dir/root/usr/lib64" ] || ln -sfn usr/lib64 "$dir/root/lib64"
	libs=$(cd "$dir/root" && echo usr/lib/*-linux-gnu)
	# the server looks for its CPU back ends beside ld.so, which runs it
	for so in "$dir/root/$libs"/ggml/backends*/libggml-cpu*.so; do
		[ ! -e "$so" ] || ln -sfn "${so#"$dir/root/$libs/"}" "$dir/root/$libs/"
	done
	wrapper "$libs" >"$dir/llama-server"
	chmod 755 "$dir/llama-server"
}

# wrapper LIBS prints a command that runs the server with its own C library, from
# wherever the folder stands.
wrapper() {
	cat <<-SH
		#!/bin/sh
		d=\$(dirname "\$(readlink -f "\$0")")/root
		for ld in "\$d/$1"/ld-linux*.so.*; do
			exec "\$ld" --library-path "\$d/$1:\$d/$1/llama" --argv0 llama-server "\$d/usr/bin/llama-server" "\$@"
		done
	SH
}

for tool in apt-get apt-cache dpkg-deb flock; do
	command -v "$tool" >/dev/null || unavailable "$tool is not on this machine"
done
mkdir -p "$CACHE" || unavailable "the folder $CACHE cannot be made; set BOXMAKER_LLAMA_CACHE"
exec 9>"$CACHE/lock"
flock 9 # one download at a time; the second caller finds it done
if ! ready "$CACHE/server"; then
	found=
	sources=$(mirrors)
	[ -n "$sources" ] || unavailable "this machine's package sources name no Debian archive"
	trap 'rm -rf "$CACHE/new"' EXIT
	for suite in $SUITES; do
		for mirror in $sources; do
			rm -rf "$CACHE/new" "$CACHE/server"
			say "getting llama.cpp-tools from Debian $suite"
			if fetch "$CACHE/new" "$mirror" "$suite" && ready "$CACHE/new"; then
				found=yes
				break 2
			fi
			say "Debian $suite did not give a server that runs"
		done
	done
	[ -n "$found" ] || unavailable "the package llama.cpp-tools could not be fetched from Debian ($SUITES), or does not run here"
	mv "$CACHE/new" "$CACHE/server"
fi
echo "$CACHE/server/llama-server"
