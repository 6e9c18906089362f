# Runs inside.sh as a user (0: as root, with units for root), where a manager of
# that user can run: a /run of its own that says that systemd is there, and a cgroup
# that the user may divide. To be started as root in a mount namespace of its own.
set -eu
uid=$1 home=$2 bin=$3 here=$(dirname "$0")
mount -t tmpfs none /run
mkdir -p /run/systemd/system /run/systemd/unit-root "/run/user/$uid"
nodes=/run/systemd/inaccessible # as the manager of the system makes them
mkdir -p $nodes/dir
touch $nodes/reg
mkfifo $nodes/fifo
mknod $nodes/chr c 0 0
mknod $nodes/blk b 0 0
chmod 000 $nodes/*
chown "$uid:$uid" "/run/user/$uid"
chmod 700 "/run/user/$uid"
mount -t cgroup2 none /sys/fs/cgroup
# Where the manager is in real life: the journal knows the units by that.
group=/sys/fs/cgroup/user.slice/user-$uid.slice/user@$uid.service
[ "$uid" = 0 ] && group=/sys/fs/cgroup/boxmaker-test-$$.slice
mkdir -p "$group"
/usr/lib/systemd/systemd-journald >/dev/null 2>&1 || /lib/systemd/systemd-journald >/dev/null 2>&1 &
journald=$!
for _ in $(seq 100); do
	test -S /run/systemd/journal/stdout && ls /run/log/journal/*/*.journal >/dev/null 2>&1 && break
	sleep 0.05
done
chmod -R a+rX /run/log/journal # a user has a file of its own only where the journal is on disk
tidy() {
	kill "$journald"
	echo $$ >/sys/fs/cgroup/cgroup.procs
	find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || :
}
trap tidy EXIT
echo $$ >"$group/cgroup.procs"
chown -R "$uid:$uid" "$group"
own=
[ "$uid" = 0 ] && own=BOXMAKER_HOME=$home/boxmaker
setpriv --reuid "$uid" --regid "$uid" --clear-groups \
	env -i $own HOME="$home" XDG_RUNTIME_DIR="/run/user/$uid" PATH="$bin:/usr/bin:/bin" bash "$here/inside.sh"
