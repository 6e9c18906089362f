# To be sourced, after ensure.sh, by the scripts that record a terminal: a tmux of
# its own in which a shell runs with the programs on PATH and an empty home.
#
#	terminal COLUMNS ROWS    start it
#	type_line TEXT           type a line, and Enter
#	await REGEXP             until the screen shows it
#	idle                     until the shell waits for a command
#	capture [FLAGS]          print the screen, without paths of this machine

need tmux
terminal_dir=$(mktemp -d /tmp/bx-XXXXXX)
chmod o+x "$terminal_dir" # as root, each part runs as a user of its own
terminal_home=$terminal_dir/boxmaker
terminal_end() {
	BOXMAKER_HOME=$terminal_home "$PWD/bin/bxctl" down >/dev/null 2>&1 || :
	tm kill-server >/dev/null 2>&1 || :
	rm -rf "$terminal_dir" 2>/dev/null || rm -rf "$terminal_dir" # a shell that just ended may have written its history
}
trap terminal_end EXIT
tm() { tmux -S "$terminal_dir/tmux" -f /dev/null "$@"; }

terminal() {
	tm new-session -d -x "$1" -y "$2" env -i HOME="$terminal_dir" BOXMAKER_HOME="$terminal_home" PATH="$PWD/bin:/usr/bin:/bin" \
		TERM=tmux-256color COLORTERM=truecolor LANG=C.UTF-8 TZ=UTC PS1='$ ' bash --norc --noprofile
	await '^\$ *$'
}

type_line() {
	tm send-keys -l "$1"
	tm send-keys Enter
}

await() {
	local i
	for ((i = 0; i < 300; i++)); do
		tm capture-pane -p | grep -Eq -- "$1" && return 0
		read -rt 0.1 <> <(:) || :
	done
	tm capture-pane -p >&2
	say "the terminal never showed: $1"
	return 1
}

idle() {
	local i
	for ((i = 0; i < 300; i++)); do
		read -rt 0.1 <> <(:) || :
		[ "$(tm display-message -p '#{pane_current_command}')" = bash ] &&
			tm capture-pane -p | sed '/^$/d' | tail -n 1 | grep -q '^\$ *$' && return 0
	done
	say "the shell in the terminal did not come back"
	return 1
}

capture() { tm capture-pane -p "$@" | sed "s|$terminal_dir|~|g"; }
