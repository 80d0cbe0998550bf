#!/bin/sh
# chroot.sh DIST SOURCE WORK: in a Debian of debootstrap, the tarball's program runs where no package is installed that Debian's base lacks, and after
# apt-get install of the .deb files the README's example in C, the static library and `kvrt chat` work; a purge leaves nothing behind.
# It needs root with the right to mount, debootstrap, and a way to a mirror. WORK keeps the plain Debian for the next run.
set -eu
dist=$1 source=$2 work=$3
fail() {
  echo "chroot: $*"
  exit 1
}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/root.sh"
new_root
cp "$source/tests/golden/tiny/llama_gqa_f32.gguf" "$root/root/model.gguf"
awk '$0 == "```c" {on = 1; next} /^```$/ {if (on) exit} on' "$source/include/README.md" >"$root/root/example.c"
# Two runs of a program in C, of which the second goes on; and a chat, twice likewise.
goes_on() {
  inside "rm -rf memory; $1 >/dev/null && $1"
  grep -aq '^(ann goes on: [1-9][0-9]* tokens came from the disk)' "$work/log" || fail "$1 does not go on: $(cat "$work/log")"
}
chats() {
  for message in one two; do
    inside "echo $message | $1 chat -m model.gguf --store chats --session talk -n 4 --temp 0"
  done
  inside "$1 store ls chats"
  grep -q '^talk ' "$work/log" || fail "$1 chat saved nothing: $(cat "$work/log")"
  inside "$1 store verify chats && rm -rf chats"
}

# The tarball, where nothing is installed.
tar -C "$root/opt" -xzf "$dist"/kvrt-*-linux-x86_64.tar.gz
mv "$root"/opt/kvrt-* "$root/opt/anywhere"
inside "dpkg-query -W"
grep -E -- '-dev|^lib(sqlite3|sodium|edit|fmt)' "$work/log" && fail "the plain Debian has packages that kvrt is built with"
inside "/opt/anywhere/bin/kvrt --version && /opt/anywhere/bin/kvrt run -m model.gguf -p lighthouse -n 4"
chats /opt/anywhere/bin/kvrt

# The .deb files, by apt, with a compiler for C alone.
cp "$dist"/*.deb "$root/root"
rm -f "$root"/root/kvrt-cuda_*.deb
inside "apt-get update"
inside "apt-get install -y --no-install-recommends ./libkvrt0_*.deb ./kvrt_*.deb"
chats kvrt
inside "kvrt --version; ls /usr/share/bash-completion/completions/kvrt; ldconfig -p"
grep -q 'libkvrt.so.0 ' "$work/log" || fail "ldconfig does not know libkvrt.so.0"
inside "apt-get install -y --no-install-recommends ./libkvrt-dev_*.deb gcc libc6-dev"
# shellcheck disable=SC2016 # for the inner shell
inside 'cc -std=c99 -Wall -Wextra -Wpedantic -Werror example.c -o example $(pkg-config --cflags --libs kvrt)'
goes_on ./example
# libstdc++.a and libstdc++.so's link are g++'s.
# shellcheck disable=SC2016 # for the inner shell
inside 'apt-get install -y --no-install-recommends g++ && cc -std=c99 example.c -o example_static $(pkg-config --cflags --libs kvrt-static)'
goes_on ./example_static
inside "ldd example_static"
grep -q libkvrt "$work/log" && fail "example_static asks for libkvrt.so"
# The tarball's archive holds libstdc++ too, and apt's kvrt does not meddle.
# shellcheck disable=SC2016 # for the inner shell
inside 'cc -std=c99 example.c -o example_whole $(pkg-config --define-prefix --cflags --libs /opt/anywhere/lib/pkgconfig/kvrt-static.pc)'
goes_on ./example_whole
inside "apt-get purge -y kvrt libkvrt-dev libkvrt0"
inside "find / -xdev -name '*kvrt*' -not -path '/opt/*' -not -path '/root/*' -not -path '/proc/*' -not -path '/var/log/*'"
[ ! -s "$work/log" ] || fail "a purge leaves $(cat "$work/log")"
echo "chroot: ok, $suite of $mirror"
