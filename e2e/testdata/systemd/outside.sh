# Runs inside.sh as a user, where a manager of that user can run: a /run of its
# own that says that systemd is there, and a cgroup that the user may divide. To
# be started as root in a mount namespace of its own.
set -eu
uid=$1 home=$2 bin=$3 here=$(dirname "$0")
mount -t tmpfs none /run
mkdir -p /run/systemd/system /run/systemd/unit-root "/run/user/$uid"
chown "$uid:$uid" "/run/user/$uid"
chmod 700 "/run/user/$uid"
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/boxmaker-test-$$
mkdir "$group"
tidy() {
	echo $$ >/sys/fs/cgroup/cgroup.procs
	find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || :
}
trap tidy EXIT
echo $$ >"$group/cgroup.procs"
chown -R "$uid:$uid" "$group"
setpriv --reuid "$uid" --regid "$uid" --clear-groups \
	env -i HOME="$home" XDG_RUNTIME_DIR="/run/user/$uid" PATH="$bin:/usr/bin:/bin" bash "$here/inside.sh"
