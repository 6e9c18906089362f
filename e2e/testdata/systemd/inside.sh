# Installs the units as bxctl init --systemd says, and shows what the test asks for.
units=$HOME/.config/systemd/user
config=${BOXMAKER_HOME:-$HOME/.config/boxmaker}${BOXMAKER_HOME:+/config}
mkdir -p "$units"
bxctl init --systemd >/dev/null
cp "$config"/systemd/boxmaker* "$units/"
manager=$(test -x /lib/systemd/systemd && echo /lib/systemd/systemd || echo /usr/lib/systemd/systemd)
timeout 100 "$manager" --user --log-target=journal-or-kmsg --log-level=info --unit=basic.target >"$HOME/manager.log" 2>&1 &
for _ in $(seq 200); do
	test -S "$XDG_RUNTIME_DIR/systemd/private" && break
	sleep 0.05
done
say() { printf '\n== %s\n' "$1"; }
say enable
systemctl --user daemon-reload
systemctl --user enable --now boxmaker.target 2>&1
for _ in $(seq 200); do
	bxctl status 2>/dev/null | grep -q '^Boxmaker: ready' && break
	sleep 0.05
done
for _ in $(seq 200); do # runnerd tries a container
	bxctl status 2>/dev/null | grep -q 'runner: runtime' && break
	sleep 0.05
done
say status; bxctl status 2>&1
say ask; bxctl ask hello 2>&1
say rights
for r in loopd practice inferproxy brokerd egressd runnerd; do
	pid=$(systemctl --user show -p MainPID --value boxmaker-$r.service)
	test "${pid:-0}" -gt 1 && echo "$r $(sed -n 's/^\(Uid\|CapBnd\|CapEff\|NoNewPrivs\|Seccomp\):\t*//p' /proc/"$pid"/status | tr '\t\n' '  ')"
done
say up; timeout 20 bxctl up 2>&1; echo "code $?"
say detach; timeout 20 bxctl up --detach 2>&1; echo "code $?"
say down; bxctl down 2>&1; echo "code $?"
say logs
for _ in $(seq 100); do # journald takes them a little later
	bxctl logs -n all 2>/dev/null | grep -q 'self-test passed' && break
	sleep 0.05
done
bxctl logs -n all 2>&1; echo "code $?"
say logs-role; bxctl logs brokerd -n 3 --json 2>&1; echo "code $?"
say logs-up; bxctl logs up 2>&1; echo "code $?"
say logs-since; bxctl logs --since 2200-01-01 2>&1; echo "code $?"
say logs-follow
timeout 30 bxctl logs loopd -n all -f >"$HOME/followed" 2>&1 &
follower=$!
systemctl --user restart boxmaker-loopd.service
for _ in $(seq 200); do
	test "$(grep -c 'self-test passed' "$HOME/followed")" -ge 2 && break
	sleep 0.1
done
kill -INT "$(pgrep -P $follower)"; wait $follower; echo "code $?"; cat "$HOME/followed"
for _ in $(seq 200); do
	bxctl status 2>/dev/null | grep -q '^Boxmaker: ready' && break
	sleep 0.05
done
say logs-named; PATH=/none "$(command -v bxctl)" logs 2>&1; echo "code $?"
say doctor; bxctl doctor 2>&1
say kill
old=$(systemctl --user show -p MainPID --value boxmaker-loopd.service)
test "${old:-0}" -gt 1 && kill -9 "$old"
bxctl ask hello again 2>&1
new=$(systemctl --user show -p MainPID --value boxmaker-loopd.service)
test "$old" != "$new" && echo "another loopd"
say refuse # exit code 78 is the end of it
printf '[slots]\nmain = 7\n' >>"$config/loopd.toml"
systemctl --user restart boxmaker-loopd.service 2>&1
for _ in $(seq 100); do
	systemctl --user is-failed -q boxmaker-loopd.service && break
	sleep 0.05
done
systemctl --user show -p ExecMainStatus -p Result -p NRestarts boxmaker-loopd.service
say stop; systemctl --user stop boxmaker.target; bxctl status 2>&1; echo "code $?"
say units; systemctl --user list-units --all --no-pager 'boxmaker*'; for r in brokerd egressd runnerd; do systemctl --user status -l --no-pager boxmaker-$r.service; done 2>&1
say manager; cat "$HOME/manager.log"; journalctl --no-pager -o short 2>/dev/null | tail -n 400
systemctl --user exit
wait
