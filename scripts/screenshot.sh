#!/usr/bin/env bash
# Makes the pictures of the README, docs/images/*.svg: a conversation with the
# practice model, and bxctl up, in a real terminal. Run it by hand when they
# have changed.
. "$(dirname "$0")/ensure.sh"
scripts/build.sh
. scripts/terminal.sh
mkdir -p docs/images
go -C tools build -o "$terminal_dir/termshot" ./termshot
picture() { capture -e | "$terminal_dir/termshot" -columns "$2" -title "$3" >"docs/images/$1.svg"; }

terminal 92 30
type_line 'bxctl init >/dev/null; clear; bxctl up'
await '· ready'
await 'talk with'
picture up 92 'bxctl up in a terminal: the roles with their state, the self-test, the last lines of the logs'
tm new-window env -i HOME="$terminal_dir" BOXMAKER_HOME="$terminal_home" PATH="$PWD/bin:/usr/bin:/bin" \
	TERM=tmux-256color COLORTERM=truecolor LANG=C.UTF-8 TZ=UTC bxctl chat
tm resize-window -x 92 -y 47
await 'practice model · /help$'
type_line 'what time is it?'
await 'context [0-9]+% full'
type_line 'what are grants?'
await 'nor change them|them\.$' # its last words
await 'context 3% full'
picture chat 92 'bxctl chat: a conversation with the practice model'
say "docs/images/chat.svg and up.svg are new"
