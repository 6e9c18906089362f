#!/usr/bin/env bash
# Types a first session into a real terminal and puts what it shows into README.md,
# between the lines "recorded" and "end of the recording". Run it by hand when the
# output has changed, and read the difference.
. "$(dirname "$0")/ensure.sh"
scripts/build.sh
. scripts/terminal.sh
terminal 120 120
while IFS= read -r line; do
	type_line "$line"
	idle
done <<'LINES'
bxctl init
bxctl up --detach
echo "what time is it?" | bxctl ask
bxctl sessions list
bxctl status | head -n 15
bxctl logs -n 3
bxctl down
LINES
{
	echo '````'
	# Without the last prompt and the empty rows below it.
	capture | sed 's/ *$//' | sed -e '/^\$$/d' | cat -s | sed -e '${/^$/d}'
	echo '````'
} >"$terminal_dir/text"
awk -v file="$terminal_dir/text" '
	/^<!-- recorded by / { print; while ((getline line < file) > 0) print line; skip = 1; next }
	/^<!-- end of the recording/ { skip = 0 }
	!skip { print }
' README.md >"$terminal_dir/README.md"
cat "$terminal_dir/README.md" >README.md
say "README.md has the new recording; look at git diff README.md"
