# shellcheck shell=sh
# Sourced by chroot.sh and bare.sh, which set work and fail: a plain Debian of debootstrap, which reaches the mirrors as this machine does, by the same
# configuration of apt and pip, certificates and proxies. It needs root with the right to mount. $work/base keeps the Debian for the next run.
[ "$(id -u)" = 0 ] || fail "it needs root (debootstrap, chroot, mount): sudo sh $0 $*"
command -v debootstrap >/dev/null || fail "it needs debootstrap: apt-get install debootstrap"
unshare -m true 2>/dev/null || fail "it needs the right to mount (CAP_SYS_ADMIN): unshare -m is refused here"
mkdir -p "${work:?}"

# The suite and mirror of this machine, in either format of apt's.
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true)
mirror=$(printf '%s\n' "$sources" | sed -n "s|^URIs: *\(http[^ ]*/debian\)/* *$|\1|p; s|^deb .*\(http[^ ]*/debian\)/* $suite .*|\1|p" | head -1)
[ -n "$mirror" ] || fail "no mirror of Debian in /etc/apt/sources.list or sources.list.d"
if [ ! -e "$work/base/complete" ]; then
  rm -rf "$work/base"
  debootstrap --variant=minbase "$suite" "$work/base" "$mirror" >"$work/log" 2>&1 || fail "debootstrap: $(tail -5 "$work/log")"
  touch "$work/base/complete"
fi

# new_root: makes $root anew.
new_root() {
  root=$work/root
  rm -rf "$root"
  cp -a "$work/base" "$root"
  trap 'rm -rf "$root"' EXIT
  rm -rf "$root/etc/apt"
  cp -a /etc/apt "$root/etc/apt"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
  [ ! -d /usr/local/share/ca-certificates ] || cp -a /usr/local/share/ca-certificates "$root/usr/local/share"
}
# inside COMMAND [USER]: runs it in $root, in the home of root or of the user; what it says goes to $work/log.
inside() {
  user=${2:-root}
  set -- "$1"
  for name in $(env | sed -n 's/^\(PIP_[A-Z_]*\|[a-z]*_proxy\)=.*/\1/p'); do set -- "$@" "$name=$(printenv "$name")"; done
  # shellcheck disable=SC2016 # for the inner shells
  USER_INSIDE=$user unshare -m sh -c '
    root=$1 command=$2
    shift 2
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/dev/shm" || exit
    home=$(awk -F: -v user="$USER_INSIDE" "\$1 == user {print \$6}" "$root/etc/passwd")
    exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" \
      setpriv --reuid "$USER_INSIDE" --regid "$USER_INSIDE" --init-groups sh -euc "cd; $command"' sh "$root" "$@" >"$work/log" 2>&1 </dev/null ||
    fail "in the chroot: $1: $(tail -40 "$work/log")"
}
