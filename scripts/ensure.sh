# To be sourced by the other scripts. It finds or installs what they need:
#
#   need go            Go 1.26 or newer is on PATH from here on, or the script ends
#   want gcc tmux ...  installs what is missing where it may; what stays missing
#                      is named in $MISSING, and the caller says what that costs
#
# Packages come from this machine's own Debian sources, by root or by a sudo that
# asks no password. Nothing is ever fetched from anywhere else. All messages go
# to standard error: standard output belongs to the caller.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tree may belong to another user than the one who builds; the version comes
# from build.sh, so the go tool need not ask git for it.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
GO_WANTED=$(sed -n 's/^go //p' go.mod)
MISSING=

say() { printf 'boxmaker: %s\n' "$*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

may_install() {
	command -v apt-get >/dev/null || return 1
	[ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

apt_updated=
apt_update() {
	[ -z "$apt_updated" ] || return 0
	apt_updated=yes
	as_root apt-get -qq update >&2 || say "apt-get update had errors; trying with the lists that are there"
}

apt_install() {
	apt_update
	say "installing $*"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >&2
}

# want COMMAND...: a Debian package of the same name holds each, but for those below.
want() {
	local c pkgs=()
	for c in "$@"; do
		command -v "$c" >/dev/null && continue
		case $c in
		gcc) pkgs+=(gcc libc6-dev) ;;
		unshare | setpriv) pkgs+=(util-linux) ;;
		dpkg-deb) pkgs+=(dpkg) ;;
		*) pkgs+=("$c") ;;
		esac
	done
	if [ "${#pkgs[@]}" -gt 0 ] && may_install; then
		apt_install "${pkgs[@]}" || say "could not install ${pkgs[*]}"
	fi
	for c in "$@"; do
		command -v "$c" >/dev/null || MISSING="$MISSING $c"
	done
}

# The go command itself knows whether it can build this module: it is new enough,
# or it may fetch a newer toolchain as a module (GOTOOLCHAIN).
go_fits() { command -v go >/dev/null && go list -m >/dev/null 2>&1; }

need_go() {
	local d p v
	go_fits && return 0
	for d in /usr/local/go/bin /usr/lib/go-*/bin /usr/lib/go/bin "${HOME:-/nonexistent}"/sdk/go*/bin; do
		[ -x "$d/go" ] || continue
		PATH=$d:$PATH
		go_fits && return 0
		PATH=${PATH#"$d:"}
	done
	if may_install && command -v apt-cache >/dev/null; then
		apt_update
		for p in "golang-${GO_WANTED%.*}-go" golang-go; do
			v=$(apt-cache policy "$p" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}//p')
			case $v in '' | '(none)') continue ;; esac
			# From 1.21 on an older Go can fetch the toolchain that go.mod asks for.
			dpkg --compare-versions "$v" ge 1.21 || continue
			apt_install "$p" ca-certificates || continue # the latter to fetch modules
			for d in "/usr/lib/go-${GO_WANTED%.*}/bin" /usr/bin; do
				[ -x "$d/go" ] || continue
				PATH=$d:$PATH
				go_fits && return 0
			done
		done
	fi
	say "Go $GO_WANTED or newer is needed, and this machine has $(cd / && go version 2>/dev/null || echo none)."
	if command -v go >/dev/null; then
		go list -m 2>&1 | sed 's/^/  /' >&2 || true # its own words, for instance why it cannot fetch a newer one
	fi
	may_install || say "Nothing can be installed here: that needs apt-get, and root or a sudo without a password."
	say "Install Go from your distribution or from the Go project's own page, put its bin folder on PATH, and try again."
	exit 1
}

need() {
	case $1 in
	go) need_go && export PATH ;;
	*)
		want "$1"
		case " $MISSING " in *" $1 "*)
			say "$1 is needed and is not here; install it with your package manager and try again"
			exit 1
			;;
		esac
		;;
	esac
}
